// The prefill node: one inference thread, one thread per connected decode node, a listener.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "base/try.h"
#include "lynx/node.h"
#include "node/endpoint.h"
#include "node/model.h"
#include "node/peer_threads.h"
#include "node/prefill_service.h"
#include "node/prefill_worker.h"
#include "node/session_options.h"
#include "transport/pump.h"
#include "transport/tcp/tcp.h"

namespace lynx {

namespace node {
namespace {

constexpr std::size_t kPeersMax = 64;

/// Tells of connections that were refused: at most one line a second, for anybody can make them.
class RefusalLog {
public:
    RefusalLog(const base::Clock& clock, std::function<void(const std::string&)> log)
        : clock_(clock), log_(std::move(log)) {}

    void operator()(const Status& why) {
        const base::Nanos now = clock_.now();
        if (now < quiet_until_) {
            ++untold_;
            return;
        }
        quiet_until_ = now + std::chrono::seconds(1);
        log_("connection refused: " + why.to_string() +
             (untold_ == 0 ? "" : ", and " + std::to_string(untold_) + " more before it"));
        untold_ = 0;
    }

private:
    const base::Clock& clock_;
    std::function<void(const std::string&)> log_;
    base::Nanos quiet_until_{0};
    std::size_t untold_ = 0;
};

/// Until the peer is gone (its status), or stop is requested (ok, its requests are aborted first). Runs on the peer's own thread.
Status serve_peer(PrefillService& service, wire::Session& session, transport::Link& link, const base::Clock& clock,
                  const std::stop_token& stop) {
    bool busy = false;
    while (!stop.stop_requested()) {
        const base::Nanos now = clock.now();
        const base::Nanos deadline = busy ? now : std::min(session.timeout(), now + std::chrono::seconds(1));
        LYNX_TRY(transport::pump_once(session, link, clock, deadline).status());
        LYNX_ASSIGN(busy, service.step(session, clock.now()));
    }
    service.abort_all(session, {ErrorCode::cancelled, "the prefill node is stopping"}, clock.now());
    return {};
}

}  // namespace
}  // namespace node

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
    LYNX_ASSIGN(const Endpoint endpoint, parse_endpoint(config.listen));
    LYNX_ASSIGN(transport::TcpOptions tcp, tcp_options(config.security));
    tcp.on_refused = RefusalLog(clock, log);
    LYNX_ASSIGN(const std::unique_ptr<transport::TcpListener> listener,
                transport::TcpListener::listen(endpoint.host, endpoint.port, tcp));
    LYNX_ASSIGN(const std::unique_ptr<engine::Engine> engine, open_engine(config.model, false));
    PrefillWorker worker(*engine);
    PeerThreads peers;
    const std::stop_callback wake(stop, [&] { listener->wake(); });
    if (config.on_listening) {
        config.on_listening(listener->port());
    }
    while (!stop.stop_requested()) {
        LYNX_ASSIGN(std::optional<transport::Accepted> accepted,
                    listener->accept(clock.now() + std::chrono::seconds(1)));
        const std::size_t live = peers.live();
        if (!accepted) {
            continue;
        }
        if (live >= kPeersMax) {
            accepted->link->close();
            log("peer refused: " + std::to_string(kPeersMax) + " are connected");
            continue;
        }
        wire::SessionOptions options = session_options(engine->info(), wire::Role::prefill, config.peer_timeout_s);
        options.hello.connection_id = accepted->connection_id;
        // Shared with notifications of jobs that may outlive the peer.
        std::shared_ptr<transport::Link> link = shape(std::move(accepted->link), config.link, clock);
        const std::string who = accepted->identity.empty() ? "peer" : "peer " + accepted->identity;
        peers.start([&, link, options, who](const std::stop_token& peer_stop) {
            const std::stop_callback wake_link(peer_stop, [link] { link->wake(); });
            wire::Session session(options, clock.now());
            PrefillService service(*engine, worker, {.notify = [link] { link->wake(); }, .log = log});
            const Status status = serve_peer(service, session, *link, clock, peer_stop);
            transport::finish(session, *link, clock, clock.now() + transport::kLinger);
            log(who + " left: " + status.to_string());
        });
    }
    return {};
}

Status requantize_model(const std::string& in_path, const std::string& out_path, std::string_view type) {
    return engine::requantize_llama(in_path, out_path, type);
}

}  // namespace lynx
