// The prefill node: one inference thread, one thread per connected decode node, a listener.
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/try.h"
#include "lynx/node.h"
#include "node/endpoint.h"
#include "node/model.h"
#include "node/prefill_peer.h"
#include "node/prefill_worker.h"
#include "node/session_options.h"
#include "transport/tcp/tcp.h"

namespace lynx {

namespace node {
namespace {

constexpr std::size_t kPeersMax = 64;

/// The peers' threads. Finished ones are joined when the next peer comes, all at the end.
class PeerThreads {
public:
    ~PeerThreads() {
        for (Entry& entry : entries_) {
            entry.thread.request_stop();
        }
    }

    void start(std::unique_ptr<PrefillPeer> peer, std::function<void(const Status&)> on_end) {
        auto done = std::make_shared<std::atomic<bool>>(false);
        entries_.push_back({done, std::jthread([done, peer = std::move(peer), on_end = std::move(on_end)](
                                                   const std::stop_token& stop) mutable {
                                const Status status = peer->run(stop);
                                peer.reset();
                                on_end(status);
                                *done = true;
                            })});
    }

    [[nodiscard]] std::size_t live() {
        std::erase_if(entries_, [](const Entry& entry) { return entry.done->load(); });
        return entries_.size();
    }

private:
    struct Entry {
        std::shared_ptr<std::atomic<bool>> done;
        std::jthread thread;
    };
    std::vector<Entry> entries_;
};

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
    LYNX_ASSIGN(const std::unique_ptr<transport::TcpListener> listener,
                transport::TcpListener::listen(endpoint.host, endpoint.port, {}));
    LYNX_ASSIGN(const std::unique_ptr<engine::Engine> engine, open_engine(config.model, false));
    PrefillWorker worker(*engine);
    PeerThreads peers;
    const std::stop_callback wake(stop, [&] { listener->wake(); });
    if (config.on_listening) {
        config.on_listening(listener->port());
    }
    while (!stop.stop_requested()) {
        LYNX_ASSIGN(std::optional<transport::Accepted> accepted, listener->accept(clock.now() + std::chrono::seconds(1)));
        const std::size_t live = peers.live();
        if (!accepted) {
            continue;
        }
        if (live >= kPeersMax) {
            accepted->link->close();
            log("peer refused: " + std::to_string(kPeersMax) + " are connected");
            continue;
        }
        PrefillPeer::Options options;
        options.session = session_options(engine->info(), wire::Role::prefill, config.peer_timeout_s);
        options.session.hello.connection_id = accepted->connection_id;
        options.log = log;
        peers.start(std::make_unique<PrefillPeer>(*engine, worker, clock, shape(std::move(accepted->link), config.link, clock),
                                                  std::move(options)),
                    [&log](const Status& status) { log("peer left: " + status.to_string()); });
    }
    return {};
}

Status requantize_model(const std::string& in_path, const std::string& out_path, std::string_view type) {
    return engine::requantize_llama(in_path, out_path, type);
}

}  // namespace lynx
