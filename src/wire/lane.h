// The two lanes between a pair of peers (docs/format/WIRE.md): one connection each, strict priority of high over low.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lynx::wire {

enum class Lane : std::uint8_t {
    high = 0,  ///< control frames and tier 0
    low = 1,   ///< tiers above 0
};
inline constexpr std::size_t kLanes = 2;

}  // namespace lynx::wire
