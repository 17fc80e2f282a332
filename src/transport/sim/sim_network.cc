#include "transport/sim/sim_network.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace lynx::transport {

class SimLink final : public Link {
public:
    SimLink(SimNetwork& network, std::size_t end) noexcept : network_(network), end_(end) {}
    ~SimLink() override { close(); }
    SimLink(const SimLink&) = delete;
    SimLink& operator=(const SimLink&) = delete;

    Result<std::size_t> write(Lane lane, base::ByteView bytes) override { return network_.write(end_, lane, bytes); }
    Result<std::size_t> read(Lane lane, std::span<std::byte> buffer) override {
        return network_.read(end_, lane, buffer);
    }
    Status wait(Interest interest, Nanos deadline) override { return network_.wait(end_, interest, deadline); }
    void wake() noexcept override { network_.ends_[end_].woken = true; }
    void shutdown() noexcept override { network_.end_writing(end_); }
    void close() noexcept override {
        network_.end_writing(end_);
        network_.ends_[end_].closed = true;
    }

private:
    SimNetwork& network_;
    std::size_t end_;
};

SimNetwork::SimNetwork(base::VirtualClock& clock, SimOptions options)
    : clock_(clock), options_(options), rng_(options.seed) {}

std::unique_ptr<Link> SimNetwork::end(std::size_t which) { return std::make_unique<SimLink>(*this, which); }

Nanos SimNetwork::next_arrival() const noexcept {
    Nanos next = Nanos::max();
    for (const End& e : ends_) {
        if (!e.closed && e.ended_at > clock_.now()) {
            next = std::min(next, e.ended_at);
        }
        for (const Pipe& pipe : e.pipes) {
            if (!e.closed && !broken_ && !pipe.segments.empty()) {
                next = std::min(next, pipe.segments.front().due);
            }
        }
    }
    return next;
}

void SimNetwork::end_writing(std::size_t from) noexcept {
    if (ends_[from].shut) {
        return;
    }
    ends_[from].shut = true;
    End& there = ends_[1 - from];
    there.ended_at = stalled_ ? Nanos::max() : std::max(there.busy_until, clock_.now()) + options_.delay;
    for (const Pipe& pipe : there.pipes) {
        there.ended_at = std::max(there.ended_at, pipe.last_due);
    }
}

Result<std::size_t> SimNetwork::write(std::size_t from, Lane lane, base::ByteView bytes) {
    End& here = ends_[from];
    End& there = ends_[1 - from];
    if (here.closed || here.shut) {
        return Status{ErrorCode::io, "the link is closed"};
    }
    if (broken_ || (there.closed && clock_.now() >= here.ended_at)) {
        return Status{ErrorCode::peer_lost, "the connection broke: simulated"};
    }
    if (there.closed) {
        return bytes.size();  // into the void: this end does not know yet
    }
    Pipe& pipe = there.pipes[static_cast<std::size_t>(lane)];
    const std::size_t n = std::min({bytes.size(), options_.buffer_bytes - std::min(options_.buffer_bytes, pipe.held),
                                    std::size_t{1} + static_cast<std::size_t>(rng_.below(options_.segment_bytes_max))});
    if (n == 0) {
        return std::size_t{0};
    }
    const Nanos now = clock_.now();
    if (options_.clog_chance > 0 && rng_.unit() < options_.clog_chance) {
        pipe.clogged_until = now + base::from_seconds(base::to_seconds(options_.clog_max) * rng_.unit());
    }
    there.busy_until = std::max(there.busy_until, now);
    if (options_.rate_bits_per_s > 0) {
        there.busy_until +=
            Nanos{static_cast<Nanos::rep>(std::ceil(static_cast<double>(n) * 8e9 / options_.rate_bits_per_s))};
    }
    Segment segment{base::Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)), 0, Nanos{0}};
    const auto inside = [&](const std::optional<std::uint64_t>& at) {
        return at && *at >= carried_ && *at < carried_ + n;
    };
    if (inside(options_.corrupt_at)) {
        segment.bytes[static_cast<std::size_t>(*options_.corrupt_at - carried_)] ^= std::byte{1}
                                                                                    << static_cast<int>(rng_.below(8));
    }
    stalled_ = stalled_ || inside(options_.stall_at);
    broken_ = broken_ || inside(options_.disconnect_at);
    carried_ += n;
    segment.due =
        stalled_ ? Nanos::max() : std::max({there.busy_until + options_.delay, pipe.clogged_until, pipe.last_due});
    pipe.last_due = segment.due;
    pipe.segments.push_back(std::move(segment));
    pipe.held += n;
    held_peak_ = std::max(held_peak_, pipe.held);
    return n;
}

Result<std::size_t> SimNetwork::read(std::size_t at, Lane lane, std::span<std::byte> buffer) {
    End& here = ends_[at];
    if (here.closed) {
        return Status{ErrorCode::io, "the link is closed"};
    }
    if (broken_) {
        return Status{ErrorCode::peer_lost, "the connection broke: simulated"};
    }
    Pipe& pipe = here.pipes[static_cast<std::size_t>(lane)];
    if (pipe.segments.empty()) {
        if (clock_.now() >= here.ended_at) {
            return Status{ErrorCode::peer_lost, "the peer closed the connection"};
        }
        return std::size_t{0};
    }
    Segment& segment = pipe.segments.front();
    if (segment.due > clock_.now() || buffer.empty()) {
        return std::size_t{0};
    }
    const std::size_t n = std::min({buffer.size(), segment.bytes.size() - segment.offset,
                                    std::size_t{1} + static_cast<std::size_t>(rng_.below(options_.segment_bytes_max))});
    std::memcpy(buffer.data(), segment.bytes.data() + segment.offset, n);
    segment.offset += n;
    pipe.held -= n;
    if (segment.offset == segment.bytes.size()) {
        pipe.segments.pop_front();
    }
    return n;
}

Status SimNetwork::wait(std::size_t at, Interest interest, Nanos deadline) {
    End& here = ends_[at];
    const End& there = ends_[1 - at];
    if (here.closed) {
        return {ErrorCode::io, "the link is closed"};
    }
    if (here.woken.exchange(false) || broken_) {
        return {};
    }
    Nanos until = deadline;
    for (std::size_t l = 0; l < wire::kLanes; ++l) {
        const bool wants = l == 0 ? interest.write_high : interest.write_low;
        if (wants && there.pipes[l].held < options_.buffer_bytes) {
            return {};
        }
        if (!here.pipes[l].segments.empty()) {
            until = std::min(until, here.pipes[l].segments.front().due);
        }
    }
    until = std::min(until, here.ended_at);
    // Nobody else runs while we wait: only the arrivals under way can happen before the deadline.
    if (until != Nanos::max()) {
        clock_.advance_to(until);
    }
    return {};
}

}  // namespace lynx::transport
