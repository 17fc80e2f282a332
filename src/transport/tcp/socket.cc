#include "transport/tcp/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
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

void Address::set_port(std::uint16_t port) noexcept {
    const std::uint16_t there = htons(port);
    std::memcpy(bytes + (family == AF_INET ? offsetof(sockaddr_in, sin_port) : offsetof(sockaddr_in6, sin6_port)),
                &there, sizeof there);
}

Reach reach(const TcpOptions& options) noexcept {
    return options.tls != nullptr || options.allow_plaintext ? Reach::anywhere : Reach::loopback;
}

Status os_error(const std::string& what, int error) {
    return {ErrorCode::io, what + ": " + std::generic_category().message(error)};
}

namespace {

bool is_loopback(const Address& address) {
    if (address.family == AF_INET) {
        sockaddr_in a{};
        std::memcpy(&a, address.bytes, sizeof a);
        return (ntohl(a.sin_addr.s_addr) >> 24) == 127;
    }
    sockaddr_in6 a{};
    std::memcpy(&a, address.bytes, sizeof a);
    return IN6_IS_ADDR_LOOPBACK(&a.sin6_addr) != 0;
}

}  // namespace

bool is_numeric(const std::string& host) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* list = nullptr;
    const bool numeric = ::getaddrinfo(host.c_str(), nullptr, &hints, &list) == 0;
    if (numeric) {
        ::freeaddrinfo(list);
    }
    return numeric;
}

Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port, Reach reach) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | (reach == Reach::loopback ? AI_NUMERICHOST : 0);
    const std::string name = host == "localhost" && reach == Reach::loopback ? "127.0.0.1" : host;
    addrinfo* list = nullptr;
    // An empty name would mean "any interface".
    const int error =
        name.empty() ? EAI_NONAME : ::getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (error != 0) {
        return reach == Reach::loopback ? Status{ErrorCode::invalid_argument,
                                                 "address '" + host + "': expected a loopback address; others need TLS"}
                                        : Status{name.empty() ? ErrorCode::invalid_argument : ErrorCode::io,
                                                 "address '" + host + "': " + ::gai_strerror(error)};
    }
    std::vector<Address> found;
    for (const addrinfo* at = list; at != nullptr && found.size() < kAddressesMax; at = at->ai_next) {
        Address address;
        if ((at->ai_family == AF_INET || at->ai_family == AF_INET6) && at->ai_addrlen <= sizeof address.bytes) {
            address.family = at->ai_family;
            address.size = at->ai_addrlen;
            std::memcpy(address.bytes, at->ai_addr, at->ai_addrlen);
            found.push_back(address);
        }
    }
    ::freeaddrinfo(list);
    if (found.empty()) {
        return Status{ErrorCode::io, "address '" + host + "': neither IPv4 nor IPv6"};
    }
    if (reach == Reach::loopback && !is_loopback(found.front())) {
        return Status{ErrorCode::invalid_argument,
                      "address '" + host + "': only loopback is allowed without TLS: nothing would be encrypted and " +
                          "nobody would be asked who they are"};
    }
    return found;
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
