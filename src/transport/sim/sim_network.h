// A network between two ends under a virtual clock: rate, delay, random segments, clogs, a stall, a disconnect or one
// flipped bit, all from a seed. Drives the same session and pump as TCP does. Single-threaded: wait() advances the
// clock instead of blocking. Only wake() may come from another thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/rng.h"
#include "transport/link.h"

namespace lynx::transport {

struct SimOptions {
    std::uint64_t seed = 1;
    double rate_bits_per_s = 0;  ///< per direction, shared by its lanes; 0: not limited
    Nanos delay{0};
    std::size_t buffer_bytes = 65536;       ///< per lane and direction: accepted and not yet read
    std::size_t segment_bytes_max = 65536;  ///< a write accepts and a read returns 1..this many bytes, at random
    double clog_chance = 0;                 ///< per write: the lane delivers nothing more for up to clog_max
    Nanos clog_max{0};
    // Faults, by the count of bytes accepted in both directions. At most one byte is touched.
    std::optional<std::uint64_t> disconnect_at = std::nullopt;  ///< both lanes break, what is in flight is lost
    std::optional<std::uint64_t> stall_at = std::nullopt;    ///< from here on nothing is delivered, nothing is reported
    std::optional<std::uint64_t> corrupt_at = std::nullopt;  ///< one bit of this byte flips
};

class SimNetwork {
public:
    /// `clock` must outlive the network, and the network its links.
    SimNetwork(base::VirtualClock& clock, SimOptions options);

    /// Link of end 0 or 1. Call once per end.
    [[nodiscard]] std::unique_ptr<Link> end(std::size_t which);

    /// When the next byte becomes readable at an end that is open; Nanos::max() when none is under way.
    [[nodiscard]] Nanos next_arrival() const noexcept;
    /// Bytes accepted so far, both directions.
    [[nodiscard]] std::uint64_t carried() const noexcept { return carried_; }
    /// The largest number of bytes any lane of any direction has held.
    [[nodiscard]] std::size_t held_peak() const noexcept { return held_peak_; }
    /// Both lanes break now.
    void disconnect() noexcept { broken_ = true; }

private:
    friend class SimLink;
    struct Segment {
        base::Bytes bytes;
        std::size_t offset = 0;
        Nanos due{0};
    };
    /// One lane in one direction.
    struct Pipe {
        std::deque<Segment> segments;
        std::size_t held = 0;
        Nanos last_due{0};
        Nanos clogged_until{0};
    };
    struct End {
        std::array<Pipe, wire::kLanes> pipes;  ///< towards this end
        Nanos busy_until{0};                   ///< the wire towards this end
        Nanos ended_at = Nanos::max();         ///< when the other end has written its last, that arrives here then
        bool shut = false;                     ///< this end writes no more
        bool closed = false;
        std::atomic<bool> woken{false};
    };

    [[nodiscard]] Result<std::size_t> write(std::size_t from, Lane lane, base::ByteView bytes);
    [[nodiscard]] Result<std::size_t> read(std::size_t at, Lane lane, std::span<std::byte> buffer);
    [[nodiscard]] Status wait(std::size_t at, Interest interest, Nanos deadline);
    /// This end writes no more: the other one sees it after everything that is under way.
    void end_writing(std::size_t from) noexcept;

    base::VirtualClock& clock_;
    SimOptions options_;
    base::Rng rng_;
    std::array<End, 2> ends_;
    std::uint64_t carried_ = 0;
    std::size_t held_peak_ = 0;
    bool broken_ = false;
    bool stalled_ = false;
};

}  // namespace lynx::transport
