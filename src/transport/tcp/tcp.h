// TCP as a Link: two connections per pair of peers, one per lane, with TLS 1.3 inside unless both peers are on this
// machine. The transport contract is link.h; this header adds how links come to be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "lynx/status.h"
#include "transport/link.h"

namespace lynx::transport {

class TlsContext;

/// Marks: high AF41 (DSCP 34, interactive and elastic) with SO_PRIORITY 6 (TC_PRIO_INTERACTIVE, pfifo_fast's first
/// band), low AF11 (DSCP 10, high-throughput data) with SO_PRIORITY 2 (TC_PRIO_BULK, its last). Not EF: that is for
/// small, paced flows.
struct TcpOptions {
    std::uint8_t dscp_high = 34;
    std::uint8_t dscp_low = 10;
    int priority_high = 6;
    int priority_low = 2;
    // TCP_NOTSENT_LOWAT: bytes in the kernel that nothing can overtake any more, a new anchor or an abort.
    std::uint32_t not_sent_high_bytes = 131072;
    std::uint32_t not_sent_low_bytes = 16384;
    Nanos user_timeout = std::chrono::seconds(10);  ///< TCP_USER_TIMEOUT: unacknowledged data, 0: the kernel's default
    Nanos pairing_timeout = std::chrono::seconds(5);  ///< listener: from accept to the whole hello header
    /// Listener: connections not yet paired. One more, and the least entitled gives way: one that has proven nothing,
    /// of the source (an IPv4 address, an IPv6 /64) that has most of those, without a hello, the oldest. So no peer
    /// loses its place to fewer than half_open_max / 2 other sources, nor, once it has proven who it is, to anybody
    /// who has not.
    std::size_t half_open_max = 32;
    std::shared_ptr<const TlsContext> tls{};  ///< none: plaintext, and loopback only unless
    bool allow_plaintext = false;             ///< this says otherwise
    /// Listener, in accept(): a connection that did not prove who it is or that spoke another protocol, and why.
    std::function<void(const Status& why)> on_refused{};
};

/// A number for Hello::connection_id: random, never 0.
[[nodiscard]] std::uint64_t make_connection_id();

/// Connects both lanes. The session must then say hello with a connection id of make_connection_id(): that is what
/// pairs the lanes on the other side. A name's addresses are tried at once, the next one 250 ms after the one before
/// it. invalid_argument: an address out of reach; io: refused; unauthenticated: the peer is not who it should be, or not
/// the same on both lanes; timeout: `deadline` (SteadyClock) passed; cancelled: `go_on`, if there is one, said false. It
/// is called every 20 ms.
[[nodiscard]] Result<std::unique_ptr<Link>> tcp_connect(const std::string& host, std::uint16_t port,
                                                        const TcpOptions& options, Nanos deadline,
                                                        const std::function<bool()>& go_on = {});

/// A paired peer. Give its session this connection id.
struct Accepted {
    std::unique_ptr<Link> link;
    std::uint64_t connection_id = 0;
    std::string identity{};  ///< who it proved to be, printable; empty in plaintext
};

/// Listens, on every address that a name has on this machine, and pairs connections by the connection id in the header
/// of the first frame on each. One thread calls accept(); wake() may be called from any.
class TcpListener {
public:
    /// Port 0: any free one. invalid_argument: an address out of reach; io: in use or refused.
    [[nodiscard]] static Result<std::unique_ptr<TcpListener>> listen(const std::string& host, std::uint16_t port,
                                                                     const TcpOptions& options);
    ~TcpListener();
    TcpListener(const TcpListener&) = delete;
    TcpListener& operator=(const TcpListener&) = delete;

    [[nodiscard]] std::uint16_t port() const noexcept;
    /// The next paired peer; empty when `deadline` (SteadyClock) passed or wake() was called. Connections that do not
    /// prove who they are, say something else than hello, nothing in time, or the same lane twice are closed without a
    /// word but TLS's own alert. Both lanes of a peer must prove the same identity. Without descriptors or memory for
    /// more connections it accepts none for a while and lives on. io: the listening socket failed.
    [[nodiscard]] Result<std::optional<Accepted>> accept(Nanos deadline);
    /// Ends an accept() in progress, or the next one. Thread-safe.
    void wake() noexcept;
    /// Connections waiting for their other lane (or their hello).
    [[nodiscard]] std::size_t half_open() const noexcept;

private:
    struct State;
    explicit TcpListener(std::unique_ptr<State> state) noexcept;
    std::unique_ptr<State> state_;
};

}  // namespace lynx::transport
