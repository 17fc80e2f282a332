// Rates and durations as users write them on a command line: the syntax of tc(8). Pure functions.
#pragma once

#include <string_view>

#include "base/clock.h"
#include "lynx/status.h"

namespace lynx::base {

inline constexpr double kRateBitsMax = 1e13;  ///< 10 tbit/s
inline constexpr Nanos kDurationMax = std::chrono::hours(1);

/// "250mbit", "1gbit", "500kbit", "2.5mbps", "1e6": bits per second. Units: bit, kbit, mbit, gbit, tbit (powers of
/// 1000), kibit, mibit, gibit, tibit (of 1024), and the same with bps for bytes per second; none means bits. Case does
/// not matter. invalid_argument: not a number above 0, or an unknown unit; limit_exceeded: above kRateBitsMax.
[[nodiscard]] Result<double> parse_rate(std::string_view text);

/// "5ms", "100us", "1s", "1.5ms", "250ns", "0". A unit is needed (tc would take a bare number for microseconds).
/// invalid_argument: not a number of at least 0, no or an unknown unit; limit_exceeded: above kDurationMax.
[[nodiscard]] Result<Nanos> parse_duration(std::string_view text);

}  // namespace lynx::base
