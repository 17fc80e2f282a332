#include "node/peer_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/try.h"
#include "node/endpoint.h"
#include "transport/pump.h"

namespace lynx::node {
namespace {

/// The peers' threads. Finished ones are joined when the next peer comes, all at the end.
class PeerThreads {
public:
    ~PeerThreads() {
        for (Entry& entry : entries_) {
            entry.thread.request_stop();
        }
    }

    void start(std::function<void(const std::stop_token&)> run) {
        auto done = std::make_shared<std::atomic<bool>>(false);
        entries_.push_back({done, std::jthread([done, run = std::move(run)](const std::stop_token& stop) {
                                run(stop);
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

}  // namespace

Result<std::unique_ptr<PeerServer>> PeerServer::listen(const std::string& address, const PeerSecurity& security,
                                                       Log log) {
    std::unique_ptr<PeerServer> server(new PeerServer(std::move(log)));
    LYNX_ASSIGN(const Endpoint endpoint, parse_endpoint(address));
    LYNX_ASSIGN(transport::TcpOptions tcp, tcp_options(security));
    if (server->log_) {
        tcp.on_refused = RefusalLog(server->clock_, server->log_);
    }
    LYNX_ASSIGN(server->listener_, transport::TcpListener::listen(endpoint.host, endpoint.port, tcp));
    return server;
}

Status PeerServer::run(const LinkEmulation& emulation, const Serve& serve, const std::stop_token& stop) {
    PeerThreads peers;
    const std::stop_callback wake(stop, [this] { listener_->wake(); });
    while (!stop.stop_requested()) {
        LYNX_ASSIGN(std::optional<transport::Accepted> accepted,
                    listener_->accept(clock_.now() + std::chrono::seconds(1)));
        const std::size_t live = peers.live();
        if (!accepted) {
            continue;
        }
        if (live >= kPeersMax) {
            accepted->link->close();
            if (log_) {
                log_("peer refused: " + std::to_string(kPeersMax) + " are connected");
            }
            continue;
        }
        const Peer peer{shape(std::move(accepted->link), emulation, clock_), accepted->connection_id,
                        accepted->identity};
        peers.start([&serve, peer](const std::stop_token& peer_stop) {
            const std::stop_callback wake_link(peer_stop, [&peer] { peer.link->wake(); });
            serve(peer, peer_stop);
        });
    }
    return {};
}

Status serve_session(wire::Session& session, transport::Link& link, const base::Clock& clock,
                     const std::stop_token& stop, const std::function<Result<bool>(base::Nanos now)>& step) {
    bool busy = false;
    while (!stop.stop_requested()) {
        const base::Nanos now = clock.now();
        const base::Nanos deadline = busy ? now : std::min(session.timeout(), now + std::chrono::seconds(1));
        LYNX_TRY(transport::pump_once(session, link, clock, deadline).status());
        LYNX_ASSIGN(busy, step(clock.now()));
    }
    return {};
}

}  // namespace lynx::node
