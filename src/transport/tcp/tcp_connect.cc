#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_link.h"
#include "transport/tcp/tls.h"

namespace lynx::transport {
namespace {

Result<Fd> connect_one(const Address& address, const std::string& name, Nanos deadline) {
    Fd socket(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
        return os_error("socket", errno);
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size) == 0) {
        return socket;
    }
    if (errno != EINPROGRESS) {
        return os_error("connect to " + name, errno);
    }
    const base::SteadyClock clock;
    std::array<pollfd, 1> entry{{{socket.get(), POLLOUT, 0}}};
    do {
        LYNX_ASSIGN(const int ready, poll_until(entry, deadline));
        if (ready > 0) {
            int error = 0;
            socklen_t size = sizeof error;
            if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
                error = errno;
            }
            if (error != 0) {
                return os_error("connect to " + name, error);
            }
            return socket;
        }
    } while (clock.now() < deadline);
    return Status{ErrorCode::timeout, "connect to " + name + ": no answer before the deadline"};
}

/// Tries each address in turn; which of them answered. The last failure when none did.
Result<std::size_t> connect_any(const std::vector<Address>& addresses, const std::string& name, Nanos deadline,
                                Fd& socket) {
    Status failed;
    for (std::size_t at = 0; at < addresses.size(); ++at) {
        Result<Fd> one = connect_one(addresses[at], name, deadline);
        if (one.ok()) {
            socket = std::move(one).value();
            return at;
        }
        failed = one.status();
    }
    return failed;
}

/// Until the peer of every stream has proven who it is.
Status prove(const std::array<std::unique_ptr<Stream>, wire::kLanes>& streams, Nanos deadline) {
    const base::SteadyClock clock;
    while (true) {
        std::array<pollfd, wire::kLanes> entries{};
        bool all = true;
        for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
            streams[lane]->flush();
            LYNX_ASSIGN(const bool proven, streams[lane]->prove());
            const short events = streams[lane]->held_bytes() > 0 ? POLLIN | POLLOUT : POLLIN;
            entries[lane] = {proven ? -1 : streams[lane]->descriptor(), events, 0};
            all = all && proven;
        }
        if (all) {
            return {};
        }
        if (clock.now() >= deadline) {
            return {ErrorCode::timeout, "no proof of who answers before the deadline"};
        }
        LYNX_TRY(poll_until(entries, deadline).status());
    }
}

}  // namespace

std::uint64_t make_connection_id() {
    std::random_device device;
    const std::uint64_t id = (std::uint64_t{device()} << 32) | device();
    return id == 0 ? 1 : id;
}

Result<std::unique_ptr<Link>> tcp_connect(const std::string& host, std::uint16_t port, const TcpOptions& options,
                                          Nanos deadline) {
    LYNX_ASSIGN(const std::vector<Address> addresses, resolve(host, port, reach(options)));
    const std::string name = host + " port " + std::to_string(port);
    std::array<Fd, wire::kLanes> sockets;
    LYNX_ASSIGN(std::size_t at, connect_any(addresses, name, deadline, sockets[0]));
    // The other lane goes to the same machine.
    LYNX_ASSIGN(sockets[1], connect_one(addresses[at], name, deadline));
    std::array<std::unique_ptr<Stream>, wire::kLanes> streams;
    for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
        if (options.tls == nullptr) {
            streams[lane] = plain_stream(std::move(sockets[lane]));
        } else {
            LYNX_ASSIGN(streams[lane], options.tls->connecting(std::move(sockets[lane]), host));
        }
    }
    LYNX_TRY(prove(streams, deadline).with_context("connect to " + name));
    LYNX_ASSIGN(std::unique_ptr<TcpLink> link, TcpLink::make(std::move(streams), {}, options));
    return std::unique_ptr<Link>(std::move(link));
}

}  // namespace lynx::transport
