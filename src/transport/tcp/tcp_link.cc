#include "transport/tcp/tcp_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/try.h"

namespace lynx::transport {
namespace {

/// What an errno of a connected socket means for the peer.
Status socket_error(int error) {
    switch (error) {
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
        case ETIMEDOUT:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ENETDOWN: return {ErrorCode::peer_lost, "the connection broke: " + std::generic_category().message(error)};
        default: return os_error("socket", error);
    }
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Result<int> poll_until(std::span<pollfd> entries, Nanos deadline) {
    timespec limit{};
    timespec* timeout = nullptr;
    if (deadline != Nanos::max()) {
        const Nanos left = std::max(Nanos{0}, deadline - base::SteadyClock().now());
        limit.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000);
        limit.tv_nsec = static_cast<long>(left.count() % 1'000'000'000);
        timeout = &limit;
    }
    const int n = ::ppoll(entries.data(), static_cast<nfds_t>(entries.size()), timeout, nullptr);
    if (n < 0) {
        if (errno == EINTR) {
            for (pollfd& entry : entries) {
                entry.revents = 0;
            }
            return 0;
        }
        return os_error("poll", errno);
    }
    return n;
}

Result<Fd> make_event() {
    Fd event(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!event.valid()) {
        return os_error("eventfd", errno);
    }
    return event;
}

void signal_event(const Fd& event) noexcept {
    const std::uint64_t one = 1;
    // Fails only when the counter is full, and then the event is signalled anyway.
    [[maybe_unused]] const ssize_t n = ::write(event.get(), &one, sizeof one);
}

bool drain_event(const Fd& event) noexcept {
    std::uint64_t count = 0;
    return ::read(event.get(), &count, sizeof count) == static_cast<ssize_t>(sizeof count);
}

TcpLink::TcpLink(std::array<Fd, wire::kLanes> sockets, std::array<base::Bytes, wire::kLanes> replay, Fd event) noexcept
    : sockets_(std::move(sockets)), replay_(std::move(replay)), event_(std::move(event)) {}

Result<std::unique_ptr<TcpLink>> TcpLink::make(std::array<Fd, wire::kLanes> sockets,
                                               std::array<base::Bytes, wire::kLanes> replay,
                                               const TcpOptions& options) {
    for (const Lane lane : {Lane::high, Lane::low}) {
        LYNX_TRY(set_lane_options(sockets[static_cast<std::size_t>(lane)].get(), lane, options));
    }
    LYNX_ASSIGN(Fd event, make_event());
    return std::unique_ptr<TcpLink>(new TcpLink(std::move(sockets), std::move(replay), std::move(event)));
}

Result<std::size_t> TcpLink::write(Lane lane, base::ByteView bytes) {
    const Fd& socket = sockets_[static_cast<std::size_t>(lane)];
    if (!socket.valid()) {
        return Status{ErrorCode::io, "the link is closed"};
    }
    if (bytes.empty()) {
        return std::size_t{0};
    }
    const ssize_t n = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
        return static_cast<std::size_t>(n);
    }
    if (would_block(errno)) {
        return std::size_t{0};
    }
    return socket_error(errno);
}

Result<std::size_t> TcpLink::read(Lane lane, std::span<std::byte> buffer) {
    const auto l = static_cast<std::size_t>(lane);
    if (!sockets_[l].valid()) {
        return Status{ErrorCode::io, "the link is closed"};
    }
    if (buffer.empty()) {
        return std::size_t{0};
    }
    if (replayed_[l] < replay_[l].size()) {
        const std::size_t n = std::min(buffer.size(), replay_[l].size() - replayed_[l]);
        std::memcpy(buffer.data(), replay_[l].data() + replayed_[l], n);
        replayed_[l] += n;
        return n;
    }
    const ssize_t n = ::recv(sockets_[l].get(), buffer.data(), buffer.size(), 0);
    if (n > 0) {
        return static_cast<std::size_t>(n);
    }
    if (n == 0) {
        return Status{ErrorCode::peer_lost, "the peer closed the connection"};
    }
    if (would_block(errno)) {
        return std::size_t{0};
    }
    return socket_error(errno);
}

Status TcpLink::wait(Interest interest, Nanos deadline) {
    const bool open = sockets_[0].valid() && sockets_[1].valid();
    if (!open) {
        return {ErrorCode::io, "the link is closed"};
    }
    if (replayed_[0] < replay_[0].size() || replayed_[1] < replay_[1].size()) {
        return {};
    }
    const auto events = [](bool write) { return static_cast<short>(write ? POLLIN | POLLOUT : POLLIN); };
    std::array<pollfd, 3> entries{{{sockets_[0].get(), events(interest.write_high), 0},
                                   {sockets_[1].get(), events(interest.write_low), 0},
                                   {event_.get(), POLLIN, 0}}};
    LYNX_ASSIGN(const int ready, poll_until(entries, deadline));
    if (ready > 0 && entries[2].revents != 0) {
        drain_event(event_);
    }
    return {};
}

void TcpLink::wake() noexcept { signal_event(event_); }

void TcpLink::shutdown() noexcept {
    for (const Fd& socket : sockets_) {
        if (socket.valid()) {
            ::shutdown(socket.get(), SHUT_WR);
        }
    }
}

void TcpLink::close() noexcept {
    for (Fd& socket : sockets_) {
        socket.reset();
    }
}

}  // namespace lynx::transport
