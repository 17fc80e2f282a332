// A link of stated rate and delay in front of any other link: a token bucket and a delay line at the sender. What the
// sender says leaves at most at `rate` and not before `delay`; the other direction is the other node's business.
//
// Both lanes share the bucket, so whoever writes the high lane first (the pump does) lets it overtake at once: what a
// new anchor waits for is at most the bucket's queue. Exact in the long run whatever the caller's wake-up jitter: bytes
// are stamped with the time at which a wire of that rate would have carried them. Non-goals: loss, jitter, reordering
// (sim/ does those).
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>

#include "base/bytes.h"
#include "base/clock.h"
#include "lynx/status.h"
#include "transport/link.h"

namespace lynx::transport {

inline constexpr std::size_t kQueueBytesMin = std::size_t{32} << 10;  ///< two frames' first pieces
inline constexpr Nanos kQueueTime = std::chrono::milliseconds(1);     ///< and at least so much of the rate
inline constexpr Nanos kBurstTime = std::chrono::milliseconds(1);     ///< what an idle sender may catch up
/// What a sender that waits for room may catch up: a real wire would have gone on out of the kernel's queue while the
/// sender's thread was late.
inline constexpr Nanos kCatchUpTime = std::chrono::milliseconds(50);
inline constexpr std::size_t kUnlimitedHeldBytesMax = std::size_t{64} << 20;  ///< delay line without a rate

/// Token bucket that queues: accepts up to queue_bytes() ahead of the wire and says when each byte has left. A pure
/// function of the times it is given. Not thread-safe.
class TokenBucket {
public:
    /// rate 0: everything leaves at once.
    explicit TokenBucket(double rate_bits_per_s) noexcept;

    /// Bytes that may be taken now without queueing more than queue_bytes().
    [[nodiscard]] std::size_t room(Nanos now) const noexcept;
    /// Takes n bytes; returns when the last of them has left, which may be up to `catch_up` before `now` (then: now).
    /// Precondition: n <= room(now).
    Nanos take(std::size_t n, Nanos now, Nanos catch_up = kBurstTime) noexcept;
    /// The earliest time with room(t) >= min(n, queue_bytes()).
    [[nodiscard]] Nanos room_at(std::size_t n, Nanos now) const noexcept;
    [[nodiscard]] std::size_t queue_bytes() const noexcept { return queue_bytes_; }

private:
    double nanos_per_byte_ = 0;
    std::size_t queue_bytes_ = kUnlimitedHeldBytesMax;
    double free_at_ = -1e18;  ///< ns: when the wire has carried everything taken so far; fractions matter at high rates
};

class EmulatedLink final : public Link {
public:
    /// `clock` must outlive the link and be the one that inner->wait() takes its deadlines from.
    EmulatedLink(std::unique_ptr<Link> inner, Emulation emulation, const base::Clock& clock);

    [[nodiscard]] Result<std::size_t> write(Lane lane, base::ByteView bytes) override;
    [[nodiscard]] Result<std::size_t> read(Lane lane, std::span<std::byte> buffer) override;
    [[nodiscard]] Status wait(Interest interest, Nanos deadline) override;
    void wake() noexcept override;
    void shutdown() noexcept override;
    void close() noexcept override;
    [[nodiscard]] std::size_t held_bytes() const noexcept override { return held_; }
    /// The largest held_bytes() can be.
    [[nodiscard]] std::size_t held_bytes_max() const noexcept { return held_max_; }

private:
    struct Piece {
        base::Bytes bytes;
        std::size_t offset = 0;
        Nanos due{0};
    };
    /// Hands on what is due; notes which lanes of the inner link are full, and its failure, which the next write()
    /// returns.
    void forward(Nanos now);

    std::unique_ptr<Link> inner_;
    const base::Clock& clock_;
    Emulation emulation_;
    TokenBucket bucket_;
    std::array<std::deque<Piece>, wire::kLanes> line_;
    std::array<bool, wire::kLanes> blocked_{};
    std::size_t held_ = 0;
    std::size_t held_max_;
    std::size_t piece_bytes_;
    bool backlogged_ = false;  ///< the caller waits for room: it has more to write
    bool shutdown_ = false;
    Status failed_;
};

/// `link` itself when nothing is to be emulated.
[[nodiscard]] std::unique_ptr<Link> emulate(std::unique_ptr<Link> link, Emulation emulation, const base::Clock& clock);

}  // namespace lynx::transport
