#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "transport/tcp/half_open.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_link.h"
#include "transport/tcp/tls.h"

namespace lynx::transport {
namespace {

constexpr int kBacklog = 64;
/// How long nobody is accepted when this machine has no descriptor or memory for it: others may give some back.
constexpr Nanos kPause = std::chrono::milliseconds(100);
/// A free port of a name's first address may be taken on another of its addresses.
constexpr int kPortTriesMax = 16;

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

/// accept(2) hands on what went wrong with the connection it was about to return; that is not the listener's end.
bool concerns_one_connection(int error) {
    switch (error) {
        case EAGAIN:
        case EINTR:
        case ECONNABORTED:
        case EPROTO:
        case EPERM:
        case ENOPROTOOPT:
        case EOPNOTSUPP:
        case ENETDOWN:
        case ENETUNREACH:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ENONET: return true;
        default: return false;
    }
}

bool not_of_this_machine(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

/// A bound, listening socket, and in `address` where. An errno when there is none.
Result<Fd> listen_at(Address& address, bool among_others, int& error) {
    Fd socket(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int one = 1;
    auto* raw = reinterpret_cast<sockaddr*>(address.bytes);
    bool good = socket.valid();
    if (good) {
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (among_others && address.family == AF_INET6) {  // "::" must leave the port to "0.0.0.0"
            ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
        }
        socklen_t size = sizeof address.bytes;
        good = ::bind(socket.get(), raw, address.size) == 0 && ::listen(socket.get(), kBacklog) == 0 &&
               ::getsockname(socket.get(), raw, &size) == 0;
    }
    if (!good) {
        error = errno;
        return os_error("listen", error);
    }
    return socket;
}

/// A socket on every address that this machine has, all on one port. `error`: errno of the failure.
Result<std::vector<Fd>> listen_at_all(std::vector<Address>& addresses, int& error) {
    std::vector<Fd> sockets;
    std::uint16_t port = 0;
    Status elsewhere;
    for (Address& address : addresses) {
        if (address.port() == 0) {
            address.set_port(port);
        }
        Result<Fd> socket = listen_at(address, addresses.size() > 1, error);
        if (socket.ok()) {
            port = address.port();
            sockets.push_back(std::move(socket).value());
        } else if (not_of_this_machine(error)) {
            elsewhere = socket.status();
        } else {
            return socket.status();
        }
    }
    if (sockets.empty()) {
        return elsewhere;
    }
    return sockets;
}

}  // namespace

struct TcpListener::State {
    explicit State(const TcpOptions& tcp) : options(tcp), half_open(tcp) {}

    TcpOptions options;
    std::vector<Fd> sockets;
    Fd event;
    std::uint16_t port = 0;
    HalfOpenTable half_open;
    Nanos accept_again{0};  ///< not before

    [[nodiscard]] Status take_new(const Fd& socket, Nanos now);
    [[nodiscard]] Result<bool> wait_once(Nanos deadline);
    std::vector<pollfd> entries;
};

TcpListener::TcpListener(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TcpListener::~TcpListener() = default;
std::uint16_t TcpListener::port() const noexcept { return state_->port; }
std::size_t TcpListener::half_open() const noexcept { return state_->half_open.size(); }
void TcpListener::wake() noexcept { signal_event(state_->event); }

Result<std::unique_ptr<TcpListener>> TcpListener::listen(const std::string& host, std::uint16_t port,
                                                         const TcpOptions& options) {
    LYNX_ASSIGN(const std::vector<Address> addresses, resolve(host, port, reach(options)));
    auto state = std::make_unique<State>(options);
    for (int tries = 1; state->sockets.empty(); ++tries) {
        int error = 0;
        std::vector<Address> bound = addresses;
        Result<std::vector<Fd>> sockets = listen_at_all(bound, error);
        if (sockets.ok()) {
            state->sockets = std::move(sockets).value();
            const auto at = std::ranges::find_if(bound, [](const Address& a) { return a.port() != 0; });
            state->port = at->port();
        } else if (error != EADDRINUSE || port != 0 || tries == kPortTriesMax) {
            return os_error("listen on " + host + " port " + std::to_string(port), error);
        }
    }
    LYNX_ASSIGN(state->event, make_event());
    return std::unique_ptr<TcpListener>(new TcpListener(std::move(state)));
}

/// Accepts what is waiting, within the bound on half-open connections.
Status TcpListener::State::take_new(const Fd& socket, Nanos now) {
    for (std::size_t i = 0; i < options.half_open_max; ++i) {
        Address from;
        socklen_t size = sizeof from.bytes;
        Fd accepted(
            ::accept4(socket.get(), reinterpret_cast<sockaddr*>(from.bytes), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!accepted.valid()) {
            const int error = errno;
            if (!out_of_resources(error)) {
                return concerns_one_connection(error) ? Status{} : os_error("accept", error);
            }
            if (half_open.empty()) {
                accept_again = now + kPause;
                return {};
            }
            half_open.drop_one();
            continue;
        }
        from.family = reinterpret_cast<const sockaddr*>(from.bytes)->sa_family;
        Result<std::unique_ptr<Stream>> stream =
            options.tls == nullptr ? plain_stream(std::move(accepted)) : options.tls->accepting(std::move(accepted));
        if (stream.ok()) {
            half_open.add(std::move(stream).value(), source_of(from), now);
        } else if (options.on_refused) {
            options.on_refused(stream.status());
        }
    }
    return {};
}

/// Waits once and takes what came of it. False when it was woken.
Result<bool> TcpListener::State::wait_once(Nanos deadline) {
    const base::SteadyClock clock;
    const bool paused = clock.now() < accept_again;
    Nanos until = paused ? std::min(deadline, accept_again) : deadline;
    entries.clear();
    entries.push_back({event.get(), POLLIN, 0});
    for (const Fd& socket : sockets) {
        entries.push_back({paused ? -1 : socket.get(), POLLIN, 0});
    }
    half_open.watch(entries, until);
    LYNX_ASSIGN(const int ready, poll_until(entries, until));
    if (ready > 0 && entries[0].revents != 0) {
        drain_event(event);
        return false;
    }
    half_open.advance(std::span(entries).subspan(1 + sockets.size()), clock.now());
    for (std::size_t i = 0; i < sockets.size(); ++i) {
        if (entries[1 + i].revents != 0) {
            LYNX_TRY(take_new(sockets[i], clock.now()));
        }
    }
    return true;
}

Result<std::optional<Accepted>> TcpListener::accept(Nanos deadline) {
    State& s = *state_;
    const base::SteadyClock clock;
    // Each pass waits; the loop ends at the deadline at the latest.
    while (true) {
        if (std::optional<Accepted> paired = s.half_open.take_pair()) {
            return paired;
        }
        s.half_open.expire(clock.now());
        LYNX_ASSIGN(const bool go_on, s.wait_once(deadline));
        if (!go_on) {
            return std::optional<Accepted>();
        }
        if (clock.now() >= deadline) {
            return s.half_open.take_pair();
        }
    }
}

}  // namespace lynx::transport
