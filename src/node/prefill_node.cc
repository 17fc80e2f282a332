// The prefill node: one inference thread, one thread per connected decode node.
#include <functional>
#include <memory>
#include <mutex>

#include "base/try.h"
#include "lynx/node.h"
#include "node/model.h"
#include "node/peer_server.h"
#include "node/prefill_service.h"
#include "node/prefill_worker.h"
#include "node/session_options.h"
#include "transport/pump.h"

namespace lynx {

Status run_prefill_node(const PrefillConfig& config, std::stop_token stop) {
    using namespace node;
    const base::SteadyClock clock;
    std::mutex log_mutex;
    const auto log = [&](const std::string& line) {
        if (config.on_log) {
            const std::lock_guard lock(log_mutex);
            config.on_log(line);
        }
    };
    LYNX_ASSIGN(const std::unique_ptr<PeerServer> server, PeerServer::listen(config.listen, config.security, log));
    LYNX_ASSIGN(const std::unique_ptr<engine::Engine> engine, open_engine(config.model, false));
    PrefillWorker worker(*engine);
    if (config.on_listening) {
        config.on_listening(server->port());
    }
    return server->run(
        config.link,
        [&](const Peer& peer, const std::stop_token& peer_stop) {
            wire::SessionOptions options = session_options(engine->info(), wire::Role::prefill, config.peer_timeout_s);
            options.hello.connection_id = peer.connection_id;
            wire::Session session(options, clock.now());
            // Notifications hold the link: their jobs may outlive the peer.
            PrefillService service(*engine, worker, {.notify = [link = peer.link] { link->wake(); }, .log = log});
            const Status status = serve_session(session, *peer.link, clock, peer_stop,
                                                [&](base::Nanos now) { return service.step(session, now); });
            if (status.ok()) {
                service.abort_all(session, {ErrorCode::cancelled, "the prefill node is stopping"}, clock.now());
            }
            transport::finish(session, *peer.link, clock, clock.now() + transport::kLinger);
            log((peer.identity.empty() ? "peer" : "peer " + peer.identity) + " left: " + status.to_string());
        },
        stop);
}

Status requantize_model(const std::string& in_path, const std::string& out_path, std::string_view type) {
    return engine::requantize_llama(in_path, out_path, type);
}

}  // namespace lynx
