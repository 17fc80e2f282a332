// The integer baselines: symmetric integers per token in groups of 32 channels with one float16 scale per group
// (FORMAT, "int8, int4, int8-split"). `int8` and `int4` have one tier; `int8-split` cuts the 8-bit integer into two tiers of 4.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

inline constexpr std::uint32_t kGroupChannels = 32;

/// Precondition: id is int8, int4 or int8_split.
[[nodiscard]] std::unique_ptr<PageCoder> make_int_group(CodecId id);

}  // namespace lynx::codec
