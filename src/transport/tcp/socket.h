// One non-blocking TCP socket, owned. Linux only. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lynx/status.h"
#include "transport/tcp/tcp.h"
#include "wire/lane.h"

namespace lynx::transport {

/// A file descriptor that closes itself.
class Fd {
public:
    Fd() noexcept = default;
    explicit Fd(int fd) noexcept : fd_(fd) {}
    ~Fd() { reset(); }
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        if (this != &other) {
            reset();
            fd_ = std::exchange(other.fd_, -1);
        }
        return *this;
    }
    [[nodiscard]] int get() const noexcept { return fd_; }
    [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
    void reset() noexcept;

private:
    int fd_ = -1;
};

/// Where peers may be.
enum class Reach : std::uint8_t {
    loopback,  ///< on this machine, without asking a resolver: "127.0.0.1", "::1", "localhost"
    anywhere,  ///< also names and addresses of other machines
};

struct Address {
    int family = 0;
    std::uint32_t size = 0;  ///< of the sockaddr
    alignas(8) unsigned char bytes[128] = {};
    [[nodiscard]] std::uint16_t port() const noexcept;
    void set_port(std::uint16_t port) noexcept;
};

/// The addresses of `host`, at most kAddressesMax, in the resolver's order; at least one. invalid_argument: not a host,
/// or out of reach; io: the resolver does not know it. May block in the resolver.
inline constexpr std::size_t kAddressesMax = 8;
[[nodiscard]] Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port, Reach reach);

/// True for what resolve() answers without a resolver.
[[nodiscard]] bool is_numeric(const std::string& host);

/// Without TLS only loopback, unless plaintext is allowed.
[[nodiscard]] Reach reach(const TcpOptions& options) noexcept;

/// An io Status: "<what>: <strerror(error)>".
[[nodiscard]] Status os_error(const std::string& what, int error);

/// Options of a data socket of that lane, see TcpOptions. io when the kernel refuses one that correctness rests on;
/// marking (DSCP, priority) is a hint and may be refused silently.
[[nodiscard]] Status set_lane_options(int fd, wire::Lane lane, const TcpOptions& options);

}  // namespace lynx::transport
