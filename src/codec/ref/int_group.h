// The integer baselines: symmetric integers with one float16 scale per group (FORMAT, "Baselines"). A group is a token's 32 or
// 128 consecutive channels, a whole token, or a whole page. `int8-split` cuts the 8-bit integer into two tiers of 4 bits.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

inline constexpr std::uint32_t kGroupChannels = 32;

struct IntGroupSpec {
    CodecId id = CodecId::int8;
    int bits = 8;                                   ///< 8 or 4
    std::uint32_t group_channels = kGroupChannels;  ///< a multiple of kGroupChannels; 0: all channels of a token
    bool whole_page = false;                        ///< one scale for the page; group_channels is 0 then
    bool split = false;                             ///< two tiers of 4 bits; bits is 8 then
};

[[nodiscard]] std::unique_ptr<PageCoder> make_int_group(const IntGroupSpec& spec);

}  // namespace lynx::codec
