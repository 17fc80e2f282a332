#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <utility>

#include "base/try.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_link.h"

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

}  // namespace

std::uint64_t make_connection_id() {
    std::random_device device;
    const std::uint64_t id = (std::uint64_t{device()} << 32) | device();
    return id == 0 ? 1 : id;
}

Result<std::unique_ptr<Link>> tcp_connect(const std::string& host, std::uint16_t port, const TcpOptions& options,
                                          Nanos deadline) {
    LYNX_ASSIGN(const Address address, loopback_address(host, port));
    const std::string name = host + " port " + std::to_string(port);
    std::array<Fd, wire::kLanes> sockets;
    for (Fd& socket : sockets) {
        LYNX_ASSIGN(socket, connect_one(address, name, deadline));
    }
    LYNX_ASSIGN(std::unique_ptr<TcpLink> link, TcpLink::make(std::move(sockets), {}, options));
    return std::unique_ptr<Link>(std::move(link));
}

}  // namespace lynx::transport
