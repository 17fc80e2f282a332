// A node that listens: takes peers and runs each on a thread of its own until it is told to stop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "lynx/node.h"
#include "lynx/security.h"
#include "lynx/status.h"
#include "transport/link.h"
#include "transport/tcp/tcp.h"
#include "wire/session.h"

namespace lynx::node {

inline constexpr std::size_t kPeersMax = 64;  ///< at once; the next one is closed without a word

/// A peer that has connected and, if it had to, proved who it is.
struct Peer {
    std::shared_ptr<transport::Link> link;
    std::uint64_t connection_id = 0;  ///< for its session
    std::string identity;             ///< empty in plaintext
};

class PeerServer {
public:
    /// Says a line to the operator; called from the accepting thread. None: silence.
    using Log = std::function<void(const std::string&)>;
    /// Serves a peer until it is gone or `stop`, on the peer's own thread; the link is woken when stop is requested.
    using Serve = std::function<void(const Peer& peer, const std::stop_token& stop)>;

    /// Binds `address` (HOST:PORT, port 0: any free one). invalid_argument: bad address or security; io: in use.
    [[nodiscard]] static Result<std::unique_ptr<PeerServer>> listen(const std::string& address,
                                                                    const PeerSecurity& security, Log log);
    [[nodiscard]] std::uint16_t port() const noexcept { return listener_->port(); }

    /// Takes peers, behind the emulated link if there is one, until `stop`; every peer's thread has ended when it
    /// returns. io: the listening socket failed.
    [[nodiscard]] Status run(const LinkEmulation& emulation, const Serve& serve, const std::stop_token& stop);

private:
    explicit PeerServer(Log log) : log_(std::move(log)) {}
    const base::SteadyClock clock_;
    Log log_;
    std::unique_ptr<transport::TcpListener> listener_;
};

/// Moves bytes, and calls `step` (true: it has more to do at once) in between, until the session ends (its status), step
/// fails, or `stop` (ok).
[[nodiscard]] Status serve_session(wire::Session& session, transport::Link& link, const base::Clock& clock,
                                   const std::stop_token& stop,
                                   const std::function<Result<bool>(base::Nanos now)>& step);

}  // namespace lynx::node
