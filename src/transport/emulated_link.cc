#include "transport/emulated_link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace lynx::transport {
namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr Nanos kPieceTime = std::chrono::microseconds(125);  // of the rate: how finely bytes are stamped ...
constexpr std::size_t kPieceBytesMin = 1500;                  // ... within what a network would send as one packet
constexpr std::size_t kPieceBytesMax = 16384;

double bytes_in(double rate_bits_per_s, Nanos t) { return rate_bits_per_s / 8 * base::to_seconds(t); }

std::size_t held_bytes_limit(const Emulation& e, std::size_t queue_bytes) {
    if (e.rate_bits_per_s <= 0) {
        return kUnlimitedHeldBytesMax;
    }
    return queue_bytes + static_cast<std::size_t>(std::ceil(bytes_in(e.rate_bits_per_s, e.delay + kBurstTime)));
}

}  // namespace

TokenBucket::TokenBucket(double rate_bits_per_s) noexcept {
    if (rate_bits_per_s > 0) {
        nanos_per_byte_ = 8 * kNanosPerSecond / rate_bits_per_s;
        queue_bytes_ = std::max(kQueueBytesMin, static_cast<std::size_t>(bytes_in(rate_bits_per_s, kQueueTime)));
    }
}

std::size_t TokenBucket::room(Nanos now) const noexcept {
    const double behind = free_at_ - static_cast<double>(now.count());
    if (nanos_per_byte_ == 0 || behind <= 0) {
        return queue_bytes_;
    }
    const double queued = std::ceil(behind / nanos_per_byte_);
    return queued >= static_cast<double>(queue_bytes_) ? 0 : queue_bytes_ - static_cast<std::size_t>(queued);
}

Nanos TokenBucket::take(std::size_t n, Nanos now, Nanos catch_up) noexcept {
    const auto t = static_cast<double>(now.count());
    free_at_ = std::max(free_at_, t - static_cast<double>(catch_up.count())) + static_cast<double>(n) * nanos_per_byte_;
    return free_at_ <= t ? now : Nanos{static_cast<Nanos::rep>(std::ceil(free_at_))};
}

Nanos TokenBucket::room_at(std::size_t n, Nanos now) const noexcept {
    if (nanos_per_byte_ == 0) {
        return now;
    }
    const auto keep = static_cast<double>(queue_bytes_ - std::min(n, queue_bytes_));
    const double t = free_at_ - keep * nanos_per_byte_ + 1;
    return t <= static_cast<double>(now.count()) ? now : Nanos{static_cast<Nanos::rep>(std::ceil(t))};
}

EmulatedLink::EmulatedLink(std::unique_ptr<Link> inner, Emulation emulation, const base::Clock& clock)
    : inner_(std::move(inner)),
      clock_(clock),
      emulation_(emulation),
      bucket_(emulation.rate_bits_per_s),
      held_max_(held_bytes_limit(emulation, bucket_.queue_bytes())),
      piece_bytes_(emulation.rate_bits_per_s <= 0
                       ? kPieceBytesMax
                       : std::clamp(static_cast<std::size_t>(bytes_in(emulation.rate_bits_per_s, kPieceTime)),
                                    kPieceBytesMin, kPieceBytesMax)) {}

void EmulatedLink::forward(Nanos now) {
    for (const Lane lane : {Lane::high, Lane::low}) {
        const auto l = static_cast<std::size_t>(lane);
        blocked_[l] = false;
        while (failed_.ok() && !line_[l].empty() && line_[l].front().due <= now) {
            Piece& piece = line_[l].front();
            const Result<std::size_t> n = inner_->write(lane, base::ByteView(piece.bytes).subspan(piece.offset));
            if (!n.ok()) {
                failed_ = n.status();
                break;
            }
            if (n.value() == 0) {
                blocked_[l] = true;
                break;
            }
            held_ -= n.value();
            piece.offset += n.value();
            if (piece.offset == piece.bytes.size()) {
                line_[l].pop_front();
            }
        }
    }
    if (shutdown_ && held_ == 0) {
        inner_->shutdown();
        shutdown_ = false;
    }
}

Result<std::size_t> EmulatedLink::write(Lane lane, base::ByteView bytes) {
    const Nanos now = clock_.now();
    forward(now);
    if (!failed_.ok()) {
        return failed_;
    }
    const std::size_t room = std::min(bucket_.room(now), held_max_ - held_);
    // Not byte by byte as tokens trickle in: a quarter of the queue at a time.
    if (room < std::min(bytes.size(), bucket_.queue_bytes() / 4)) {
        return std::size_t{0};
    }
    const std::size_t taken = std::min(bytes.size(), room);
    for (std::size_t at = 0; at < taken; at += piece_bytes_) {
        const base::ByteView piece = bytes.subspan(at, std::min(piece_bytes_, taken - at));
        const Nanos due = bucket_.take(piece.size(), now, backlogged_ ? kCatchUpTime : kBurstTime) + emulation_.delay;
        line_[static_cast<std::size_t>(lane)].push_back({base::Bytes(piece.begin(), piece.end()), 0, due});
        held_ += piece.size();
    }
    LYNX_CHECK(held_ <= held_max_);
    forward(now);
    return taken;
}

Result<std::size_t> EmulatedLink::read(Lane lane, std::span<std::byte> buffer) {
    forward(clock_.now());  // a failure shows on the next write; what the peer still said can be read until then
    return inner_->read(lane, buffer);
}

Status EmulatedLink::wait(Interest interest, Nanos deadline) {
    const Nanos now = clock_.now();
    const bool held = held_ > 0;
    backlogged_ = interest.write_high || interest.write_low;
    forward(now);
    if (held && held_ == 0) {
        return {};  // the last byte has left: a caller that waits for just that must not wait on
    }
    Nanos until = deadline;
    for (std::size_t l = 0; l < wire::kLanes; ++l) {
        if (!line_[l].empty() && !blocked_[l] && failed_.ok()) {
            until = std::min(until, line_[l].front().due);
        }
    }
    if (backlogged_ && held_ < held_max_) {
        until = std::min(until, failed_.ok() ? bucket_.room_at(bucket_.queue_bytes() / 4, now) : now);
    }
    Status waited = inner_->wait({.write_high = blocked_[0], .write_low = blocked_[1]}, until);
    forward(clock_.now());
    return waited;
}

void EmulatedLink::wake() noexcept { inner_->wake(); }

void EmulatedLink::shutdown() noexcept {
    shutdown_ = true;
    forward(clock_.now());
}

void EmulatedLink::close() noexcept {
    for (auto& lane : line_) {
        lane.clear();
    }
    held_ = 0;
    failed_ = {ErrorCode::io, "the link is closed"};
    inner_->close();
}

std::unique_ptr<Link> emulate(std::unique_ptr<Link> link, Emulation emulation, const base::Clock& clock) {
    if (emulation.rate_bits_per_s <= 0 && emulation.delay <= Nanos{0}) {
        return link;
    }
    return std::make_unique<EmulatedLink>(std::move(link), emulation, clock);
}

}  // namespace lynx::transport
