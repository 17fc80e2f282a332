#include "transport/tcp/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <system_error>

namespace lynx::transport {

void Fd::reset() noexcept {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

std::uint16_t Address::port() const noexcept {
    if (family == AF_INET) {
        sockaddr_in a{};
        std::memcpy(&a, bytes, sizeof a);
        return ntohs(a.sin_port);
    }
    sockaddr_in6 a{};
    std::memcpy(&a, bytes, sizeof a);
    return ntohs(a.sin6_port);
}

Status os_error(const std::string& what, int error) {
    return {ErrorCode::io, what + ": " + std::generic_category().message(error)};
}

Result<Address> loopback_address(const std::string& host, std::uint16_t port) {
    const std::string name = host == "localhost" ? "127.0.0.1" : host;
    Address out;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    bool loopback = false;
    if (::inet_pton(AF_INET, name.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        loopback = (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
        out.family = AF_INET;
        out.size = sizeof v4;
        std::memcpy(out.bytes, &v4, sizeof v4);
    } else if (::inet_pton(AF_INET6, name.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        loopback = IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
        out.family = AF_INET6;
        out.size = sizeof v6;
        std::memcpy(out.bytes, &v6, sizeof v6);
    } else {
        return Status{ErrorCode::invalid_argument,
                      "address '" + host + "': expected a numeric IPv4 or IPv6 address or localhost"};
    }
    if (!loopback) {
        return Status{
            ErrorCode::invalid_argument,
            "address '" + host + "': only loopback is allowed, the protocol neither encrypts nor authenticates"};
    }
    return out;
}

Status set_lane_options(int fd, wire::Lane lane, const TcpOptions& options) {
    const auto set = [fd](int level, int name, int value) {
        return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
    };
    const bool high = lane == wire::Lane::high;
    // Both lanes: a frame's last piece must not wait for an acknowledgement; the session already writes in large
    // pieces.
    if (!set(IPPROTO_TCP, TCP_NODELAY, 1)) {
        return os_error("TCP_NODELAY", errno);
    }
    const std::uint32_t not_sent = high ? options.not_sent_high_bytes : options.not_sent_low_bytes;
    if (!set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(not_sent))) {
        return os_error("TCP_NOTSENT_LOWAT", errno);
    }
    const auto timeout_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options.user_timeout).count();
    if (timeout_ms > 0 && !set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(timeout_ms))) {
        return os_error("TCP_USER_TIMEOUT", errno);
    }
    const int tos = (high ? options.dscp_high : options.dscp_low) << 2;
    set(IPPROTO_IP, IP_TOS, tos);
    set(IPPROTO_IPV6, IPV6_TCLASS, tos);
    // After IP_TOS: that derives a priority of its own and would overwrite this one.
    set(SOL_SOCKET, SO_PRIORITY, high ? options.priority_high : options.priority_low);
    return {};
}

}  // namespace lynx::transport
