// One lane's bytes over one connected socket: plain, or sealed with TLS. A TcpLink is two of them. Non-blocking; one
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "lynx/status.h"
#include "transport/tcp/socket.h"

namespace lynx::transport {

class Stream {
public:
    virtual ~Stream() = default;

    /// True once the peer has proven who it is, false while that takes; unauthenticated when it could not.
    [[nodiscard]] virtual Result<bool> prove() = 0;
    /// Accepts a prefix; 0: would block, and other bytes may be offered next. peer_lost, io, corrupt, unauthenticated.
    [[nodiscard]] virtual Result<std::size_t> write(base::ByteView bytes) = 0;
    /// Fills a prefix; 0: nothing now. peer_lost when the peer will send no more.
    [[nodiscard]] virtual Result<std::size_t> read(std::span<std::byte> buffer) = 0;
    /// The peer reads what was accepted, then the end.
    virtual void shutdown() noexcept = 0;
    /// Moves what is held to the socket, as far as that takes it.
    virtual void flush() noexcept {}
    /// Bytes accepted and not yet given to the socket: while there are any, the owner polls for writing and flushes.
    [[nodiscard]] virtual std::size_t held_bytes() const noexcept { return 0; }
    /// Bytes to read may lie here where a poll of the socket cannot see them.
    [[nodiscard]] virtual bool may_hold_input() const noexcept { return false; }
    /// Who the peer proved to be, printable; empty when it need not.
    [[nodiscard]] virtual std::string identity() const { return {}; }
    [[nodiscard]] virtual int descriptor() const noexcept = 0;
};

[[nodiscard]] std::unique_ptr<Stream> plain_stream(Fd socket);

/// What an errno of a connected socket means for the peer: peer_lost or io.
[[nodiscard]] Status socket_error(int error);
/// Nothing is wrong, there was just nothing to read or no room.
[[nodiscard]] bool would_block(int error) noexcept;

}  // namespace lynx::transport
