// Time as the library sees it: nanoseconds from an arbitrary origin, read from a Clock that may be real or virtual.
//
// Sans-IO code takes a Nanos argument and never reads a clock itself.
#pragma once

#include <chrono>

namespace lynx::base {

using Nanos = std::chrono::nanoseconds;

[[nodiscard]] constexpr double to_seconds(Nanos t) noexcept { return std::chrono::duration<double>(t).count(); }
[[nodiscard]] constexpr Nanos from_seconds(double s) noexcept {
    return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(s));
}

/// Where "now" comes from. Thread-safe.
class Clock {
public:
    virtual ~Clock() = default;
    [[nodiscard]] virtual Nanos now() const noexcept = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
public:
    [[nodiscard]] Nanos now() const noexcept override { return std::chrono::steady_clock::now().time_since_epoch(); }
};

/// Moves only when told to; the simulator's clock. Not thread-safe.
class VirtualClock final : public Clock {
public:
    [[nodiscard]] Nanos now() const noexcept override { return now_; }
    void advance_to(Nanos t) noexcept { now_ = t > now_ ? t : now_; }

private:
    Nanos now_{0};
};

}  // namespace lynx::base
