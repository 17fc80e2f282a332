#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/try.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_link.h"
#include "wire/frame.h"

namespace lynx::transport {
namespace {

constexpr int kBacklog = 64;

/// A connection that has not found its other lane yet.
struct HalfOpen {
    Fd socket;
    Nanos deadline{0};
    base::Bytes bytes;  ///< of the hello header; read here, replayed into the link
    bool dead = false;
    bool named = false;  ///< the header is whole and good
    std::uint64_t connection_id = 0;
    Lane lane = Lane::high;
};

/// Reads what is missing of the header. Marks the connection dead when it is not a hello.
void read_header(HalfOpen& half) {
    std::array<std::byte, wire::kHeaderBytes> buffer;
    const std::size_t missing = wire::kHeaderBytes - half.bytes.size();
    const ssize_t n = ::recv(half.socket.get(), buffer.data(), missing, 0);
    if (n <= 0) {
        half.dead = n == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    half.bytes.insert(half.bytes.end(), buffer.begin(), buffer.begin() + n);
    if (half.bytes.size() < wire::kHeaderBytes) {
        return;
    }
    const Result<wire::FrameHeader> header = wire::decode_header(half.bytes);
    if (!header.ok() || header.value().type != wire::FrameType::hello || header.value().key.request == 0) {
        half.dead = true;
        return;
    }
    half.named = true;
    half.connection_id = header.value().key.request;
    half.lane = header.value().lane;
}

}  // namespace

struct TcpListener::State {
    TcpOptions options;
    Fd socket;
    Fd event;
    std::uint16_t port = 0;
    std::vector<HalfOpen> half_open;  ///< oldest first

    [[nodiscard]] Status take_new(Nanos now);
    [[nodiscard]] std::optional<Accepted> pair_up();
};

TcpListener::TcpListener(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TcpListener::~TcpListener() = default;
std::uint16_t TcpListener::port() const noexcept { return state_->port; }
std::size_t TcpListener::half_open() const noexcept { return state_->half_open.size(); }
void TcpListener::wake() noexcept { signal_event(state_->event); }

Result<std::unique_ptr<TcpListener>> TcpListener::listen(const std::string& host, std::uint16_t port,
                                                         const TcpOptions& options) {
    LYNX_ASSIGN(Address address, loopback_address(host, port));
    const std::string name = host + " port " + std::to_string(port);
    auto state = std::make_unique<State>();
    state->options = options;
    state->socket = Fd(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!state->socket.valid()) {
        return os_error("socket", errno);
    }
    const int one = 1;
    ::setsockopt(state->socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    auto* raw = reinterpret_cast<sockaddr*>(address.bytes);
    if (::bind(state->socket.get(), raw, address.size) != 0 || ::listen(state->socket.get(), kBacklog) != 0) {
        return os_error("listen on " + name, errno);
    }
    socklen_t size = sizeof address.bytes;
    if (::getsockname(state->socket.get(), raw, &size) != 0) {
        return os_error("getsockname", errno);
    }
    state->port = address.port();
    LYNX_ASSIGN(state->event, make_event());
    return std::unique_ptr<TcpListener>(new TcpListener(std::move(state)));
}

/// Accepts what is waiting, within the bound on half-open connections: the oldest give way, so that silent ones cannot
/// keep a peer out.
Status TcpListener::State::take_new(Nanos now) {
    for (std::size_t i = 0; i < options.half_open_max; ++i) {
        Fd accepted(::accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!accepted.valid()) {
            const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (exhausted && !half_open.empty()) {
                half_open.erase(half_open.begin());
                continue;
            }
            const bool transient = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || errno == EPROTO;
            return transient ? Status{} : os_error("accept", errno);
        }
        if (half_open.size() >= options.half_open_max) {
            half_open.erase(half_open.begin());
        }
        HalfOpen half;
        half.socket = std::move(accepted);
        half.deadline = now + options.pairing_timeout;
        half_open.push_back(std::move(half));
    }
    return {};
}

std::optional<Accepted> TcpListener::State::pair_up() {
    for (std::size_t i = 0; i < half_open.size(); ++i) {
        for (std::size_t j = i + 1; j < half_open.size(); ++j) {
            HalfOpen& a = half_open[i];
            HalfOpen& b = half_open[j];
            if (!a.named || !b.named || a.connection_id != b.connection_id) {
                continue;
            }
            if (a.lane == b.lane) {
                half_open.erase(half_open.begin() + static_cast<std::ptrdiff_t>(j--));  // who comes second is wrong
                continue;
            }
            HalfOpen& high = a.lane == Lane::high ? a : b;
            HalfOpen& low = a.lane == Lane::high ? b : a;
            Result<std::unique_ptr<TcpLink>> link =
                TcpLink::make({std::move(high.socket), std::move(low.socket)},
                              {std::move(high.bytes), std::move(low.bytes)}, options);
            const std::uint64_t id = a.connection_id;
            half_open.erase(half_open.begin() + static_cast<std::ptrdiff_t>(j));
            half_open.erase(half_open.begin() + static_cast<std::ptrdiff_t>(i));
            if (!link.ok()) {
                return pair_up();  // this pair is gone, closed with its sockets; bounded by the half-open ones left
            }
            return Accepted{std::move(link).value(), id};
        }
    }
    return std::nullopt;
}

Result<std::optional<Accepted>> TcpListener::accept(Nanos deadline) {
    State& s = *state_;
    const base::SteadyClock clock;
    std::vector<pollfd> entries;
    // Each pass waits; the loop ends at the deadline at the latest.
    while (true) {
        if (std::optional<Accepted> paired = s.pair_up()) {
            return paired;
        }
        const Nanos now = clock.now();
        std::erase_if(s.half_open, [now](const HalfOpen& half) { return half.dead || now >= half.deadline; });
        entries.clear();
        entries.push_back({s.event.get(), POLLIN, 0});
        entries.push_back({s.socket.get(), POLLIN, 0});
        Nanos until = deadline;
        for (const HalfOpen& half : s.half_open) {
            // A named one has said all that is read here; only its end matters, and its deadline bounds that.
            entries.push_back({half.named ? -1 : half.socket.get(), POLLIN, 0});
            until = std::min(until, half.deadline);
        }
        LYNX_ASSIGN(const int ready, poll_until(entries, until));
        if (ready > 0 && entries[0].revents != 0) {
            drain_event(s.event);
            return std::optional<Accepted>();
        }
        for (std::size_t i = 0; i < s.half_open.size(); ++i) {
            if (entries[i + 2].revents != 0) {
                read_header(s.half_open[i]);
            }
        }
        if (entries[1].revents != 0) {
            LYNX_TRY(s.take_new(clock.now()));
        }
        if (clock.now() >= deadline && ready == 0) {
            return std::optional<Accepted>();
        }
    }
}

}  // namespace lynx::transport
