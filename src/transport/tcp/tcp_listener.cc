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
#include "transport/tcp/tls.h"
#include "wire/frame.h"

namespace lynx::transport {
namespace {

constexpr int kBacklog = 64;

/// How long, and for how many bytes, a refused connection is read on: a close with bytes unread is a reset, which can
/// overtake the alert that tells the peer why.
constexpr Nanos kRefusalLinger = std::chrono::milliseconds(500);
constexpr std::size_t kRefusalBytesMax = std::size_t{1} << 16;

/// A connection that has not found its other lane yet.
struct HalfOpen {
    enum class Stage : std::uint8_t {
        unnamed,  ///< the handshake or the hello header is not whole
        named,    ///< waits for its other lane
        refused,  ///< lingers until the peer has heard
        dead,
    };
    std::unique_ptr<Stream> stream;
    Nanos deadline{0};
    Stage stage = Stage::unnamed;
    base::Bytes bytes;  ///< of the hello header; read here, replayed into the link
    std::uint64_t connection_id = 0;
    Lane lane = Lane::high;
    std::string identity;
    std::size_t discarded = 0;

    /// Whether bytes or room for them would move it on.
    [[nodiscard]] bool waits() const noexcept { return stage == Stage::unnamed || stage == Stage::refused; }
};

void refuse(HalfOpen& half, const Status& why, Nanos now, const TcpOptions& options) {
    if (options.on_refused) {
        options.on_refused(why);
    }
    half.stream->shutdown();
    half.stage = HalfOpen::Stage::refused;
    half.deadline = std::min(half.deadline, now + kRefusalLinger);
}

/// Goes on with the handshake and the header. Refuses what does not prove who it is, drops what is not a hello.
void read_header(HalfOpen& half, Nanos now, const TcpOptions& options) {
    std::array<std::byte, wire::kHeaderBytes> buffer;
    // Until the socket is empty: a poll does not see what TLS has read ahead. Each pass takes a byte at least.
    while (half.bytes.size() < wire::kHeaderBytes) {
        const std::size_t missing = wire::kHeaderBytes - half.bytes.size();
        const Result<std::size_t> n = half.stream->read(std::span(buffer).first(missing));
        if (!n.ok()) {
            if (options.tls != nullptr && n.status().code() != ErrorCode::peer_lost) {
                refuse(half, n.status(), now, options);
            } else {
                half.stage = HalfOpen::Stage::dead;
            }
            return;
        }
        if (n.value() == 0) {
            return;
        }
        half.bytes.insert(half.bytes.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(n.value()));
    }
    const Result<wire::FrameHeader> header = wire::decode_header(half.bytes);
    if (!header.ok() || header.value().type != wire::FrameType::hello || header.value().key.request == 0) {
        half.stage = HalfOpen::Stage::dead;
        return;
    }
    half.stage = HalfOpen::Stage::named;
    half.connection_id = header.value().key.request;
    half.lane = header.value().lane;
    half.identity = half.stream->identity();
}

/// Reads and forgets what a refused peer still says.
void discard(HalfOpen& half) {
    std::array<std::byte, 4096> buffer;
    const ssize_t n = ::recv(half.stream->descriptor(), buffer.data(), buffer.size(), 0);
    if (n < 0 && would_block(errno)) {
        return;
    }
    half.discarded += n > 0 ? static_cast<std::size_t>(n) : 0;
    if (n <= 0 || half.discarded > kRefusalBytesMax) {
        half.stage = HalfOpen::Stage::dead;
    }
}

}  // namespace

struct TcpListener::State {
    TcpOptions options;
    Fd socket;
    Fd event;
    std::uint16_t port = 0;
    std::vector<HalfOpen> half_open;  ///< oldest first

    [[nodiscard]] Status take_new(Nanos now);
    void make_room();
    void read_one(HalfOpen& half, Nanos now) const;
    [[nodiscard]] std::optional<Accepted> pair_up();
};

TcpListener::TcpListener(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
TcpListener::~TcpListener() = default;
std::uint16_t TcpListener::port() const noexcept { return state_->port; }
std::size_t TcpListener::half_open() const noexcept { return state_->half_open.size(); }
void TcpListener::wake() noexcept { signal_event(state_->event); }

Result<std::unique_ptr<TcpListener>> TcpListener::listen(const std::string& host, std::uint16_t port,
                                                         const TcpOptions& options) {
    LYNX_ASSIGN(const std::vector<Address> addresses, resolve(host, port, reach(options)));
    Address address = addresses.front();
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

/// Drops the oldest half-open connection; one that has not proven or named itself before one that has, so that silent
/// ones cannot keep a peer out.
void TcpListener::State::make_room() {
    const auto unnamed =
        std::ranges::find_if(half_open, [](const HalfOpen& half) { return half.stage != HalfOpen::Stage::named; });
    half_open.erase(unnamed != half_open.end() ? unnamed : half_open.begin());
}

/// Accepts what is waiting, within the bound on half-open connections.
Status TcpListener::State::take_new(Nanos now) {
    for (std::size_t i = 0; i < options.half_open_max; ++i) {
        Fd accepted(::accept4(socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!accepted.valid()) {
            const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (exhausted && !half_open.empty()) {
                make_room();
                continue;
            }
            const bool transient = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED || errno == EPROTO;
            return transient ? Status{} : os_error("accept", errno);
        }
        if (half_open.size() >= options.half_open_max) {
            make_room();
        }
        HalfOpen half;
        if (options.tls == nullptr) {
            half.stream = plain_stream(std::move(accepted));
        } else {
            LYNX_ASSIGN(half.stream, options.tls->accepting(std::move(accepted)));
        }
        half.deadline = now + options.pairing_timeout;
        half_open.push_back(std::move(half));
    }
    return {};
}

void TcpListener::State::read_one(HalfOpen& half, Nanos now) const {
    half.stream->flush();
    if (half.stage == HalfOpen::Stage::refused) {
        discard(half);
    } else {
        read_header(half, now, options);
    }
}

std::optional<Accepted> TcpListener::State::pair_up() {
    for (std::size_t i = 0; i < half_open.size(); ++i) {
        for (std::size_t j = i + 1; j < half_open.size(); ++j) {
            HalfOpen& a = half_open[i];
            HalfOpen& b = half_open[j];
            const bool named = a.stage == HalfOpen::Stage::named && b.stage == HalfOpen::Stage::named;
            if (!named || a.connection_id != b.connection_id || a.identity != b.identity) {
                continue;
            }
            if (a.lane == b.lane) {
                half_open.erase(half_open.begin() + static_cast<std::ptrdiff_t>(j--));  // who comes second is wrong
                continue;
            }
            HalfOpen& high = a.lane == Lane::high ? a : b;
            HalfOpen& low = a.lane == Lane::high ? b : a;
            Result<std::unique_ptr<TcpLink>> link =
                TcpLink::make({std::move(high.stream), std::move(low.stream)},
                              {std::move(high.bytes), std::move(low.bytes)}, options);
            Accepted accepted{nullptr, a.connection_id, std::move(a.identity)};
            half_open.erase(half_open.begin() + static_cast<std::ptrdiff_t>(j));
            half_open.erase(half_open.begin() + static_cast<std::ptrdiff_t>(i));
            if (!link.ok()) {
                return pair_up();  // this pair is gone, closed with its sockets; bounded by the half-open ones left
            }
            accepted.link = std::move(link).value();
            return accepted;
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
        std::erase_if(s.half_open, [now](const HalfOpen& half) {
            return half.stage == HalfOpen::Stage::dead || now >= half.deadline;
        });
        entries.clear();
        entries.push_back({s.event.get(), POLLIN, 0});
        entries.push_back({s.socket.get(), POLLIN, 0});
        Nanos until = deadline;
        for (const HalfOpen& half : s.half_open) {
            // A named one has said all that is read here; only its end matters, and its deadline bounds that.
            const short events = half.stream->held_bytes() > 0 ? POLLIN | POLLOUT : POLLIN;
            entries.push_back({half.waits() ? half.stream->descriptor() : -1, events, 0});
            until = std::min(until, half.deadline);
        }
        LYNX_ASSIGN(const int ready, poll_until(entries, until));
        if (ready > 0 && entries[0].revents != 0) {
            drain_event(s.event);
            return std::optional<Accepted>();
        }
        for (std::size_t i = 0; i < s.half_open.size(); ++i) {
            if (entries[i + 2].revents != 0) {
                s.read_one(s.half_open[i], clock.now());
            }
        }
        if (entries[1].revents != 0) {
            LYNX_TRY(s.take_new(clock.now()));
        }
        if (clock.now() >= deadline) {
            return s.pair_up();
        }
    }
}

}  // namespace lynx::transport
