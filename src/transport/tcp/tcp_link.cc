#include "transport/tcp/tcp_link.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/try.h"

namespace lynx::transport {
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

TcpLink::TcpLink(std::array<std::unique_ptr<Stream>, wire::kLanes> streams,
                 std::array<base::Bytes, wire::kLanes> replay, Fd event) noexcept
    : streams_(std::move(streams)), replay_(std::move(replay)), event_(std::move(event)) {}

Result<std::unique_ptr<TcpLink>> TcpLink::make(std::array<std::unique_ptr<Stream>, wire::kLanes> streams,
                                               std::array<base::Bytes, wire::kLanes> replay,
                                               const TcpOptions& options) {
    for (const Lane lane : {Lane::high, Lane::low}) {
        LYNX_TRY(set_lane_options(streams[static_cast<std::size_t>(lane)]->descriptor(), lane, options));
    }
    LYNX_ASSIGN(Fd event, make_event());
    return std::unique_ptr<TcpLink>(new TcpLink(std::move(streams), std::move(replay), std::move(event)));
}

Result<std::size_t> TcpLink::write(Lane lane, base::ByteView bytes) {
    if (!open()) {
        return Status{ErrorCode::io, "the link is closed"};
    }
    return streams_[static_cast<std::size_t>(lane)]->write(bytes);
}

Result<std::size_t> TcpLink::read(Lane lane, std::span<std::byte> buffer) {
    const auto l = static_cast<std::size_t>(lane);
    if (!open()) {
        return Status{ErrorCode::io, "the link is closed"};
    }
    if (replayed_[l] < replay_[l].size()) {
        const std::size_t n = std::min(buffer.size(), replay_[l].size() - replayed_[l]);
        std::copy_n(replay_[l].begin() + static_cast<std::ptrdiff_t>(replayed_[l]), n, buffer.begin());
        replayed_[l] += n;
        return n;
    }
    return streams_[l]->read(buffer);
}

Status TcpLink::wait(Interest interest, Nanos deadline) {
    if (!open()) {
        return {ErrorCode::io, "the link is closed"};
    }
    std::array<pollfd, wire::kLanes + 1> entries{};
    for (std::size_t l = 0; l < wire::kLanes; ++l) {
        if (replayed_[l] < replay_[l].size() || streams_[l]->may_hold_input()) {
            return {};
        }
        const bool interested = l == static_cast<std::size_t>(Lane::high) ? interest.write_high : interest.write_low;
        const bool writing = interested || streams_[l]->held_bytes() > 0;
        entries[l] = {streams_[l]->descriptor(), static_cast<short>(writing ? POLLIN | POLLOUT : POLLIN), 0};
    }
    entries[wire::kLanes] = {event_.get(), POLLIN, 0};
    LYNX_ASSIGN(const int ready, poll_until(entries, deadline));
    if (ready > 0 && entries[wire::kLanes].revents != 0) {
        drain_event(event_);
    }
    for (std::size_t l = 0; l < wire::kLanes; ++l) {
        if ((entries[l].revents & POLLOUT) != 0) {
            streams_[l]->flush();
        }
    }
    return {};
}

void TcpLink::wake() noexcept { signal_event(event_); }

void TcpLink::shutdown() noexcept {
    for (const auto& stream : streams_) {
        if (stream != nullptr) {
            stream->shutdown();
        }
    }
}

void TcpLink::close() noexcept {
    for (auto& stream : streams_) {
        stream.reset();
    }
}

std::size_t TcpLink::held_bytes() const noexcept {
    std::size_t held = 0;
    for (const auto& stream : streams_) {
        held += stream != nullptr ? stream->held_bytes() : 0;
    }
    return held;
}

}  // namespace lynx::transport
