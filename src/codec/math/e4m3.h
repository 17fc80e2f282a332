// The 8-bit float E4M3 of "FP8 Formats for Deep Learning" (arXiv:2209.05433): 4 exponent bits with bias 7, 3 mantissa bits, no
// infinity, one NaN pattern per sign, largest number 448.
#pragma once

#include <cstdint>

#include "codec/math/scalar_math.h"

namespace lynx::codec {

inline constexpr float kE4m3Max = 448.0F;

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr bool e4m3_is_nan(std::uint8_t b) noexcept {
    return (b & 0x7FU) == 0x7FU;
}

/// Exact. Precondition: not a NaN.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float e4m3_to_f32(std::uint8_t b) noexcept {
    // Exponent and mantissa in float32's places are off by the difference of the biases, 120, also where they are subnormal.
    const float m = __builtin_bit_cast(float, (b & 0x7FU) << 20U) * 0x1p120F;
    return (b & 0x80U) != 0 ? -m : m;
}

/// To nearest, ties to even, saturated at 448. Precondition: not a NaN.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint8_t f32_to_e4m3(float x) noexcept {
    const float m = smaller(magnitude(x), kE4m3Max);
    const auto bits = __builtin_bit_cast(std::uint32_t, m);
    const std::uint32_t normal = ((bits + 0x7FFFFU + ((bits >> 20U) & 1U)) >> 20U) - (120U << 3U);
    // Below 2^-6 the result counts 2^-9: adding 2^14, whose ulp is 2^-9, makes the hardware round.
    const std::uint32_t subnormal =
        __builtin_bit_cast(std::uint32_t, m + 0x1p14F) - __builtin_bit_cast(std::uint32_t, 0x1p14F);
    const std::uint32_t sign = __builtin_bit_cast(std::uint32_t, x) >> 24U & 0x80U;
    return static_cast<std::uint8_t>(sign | (m < 0x1p-6F ? subnormal : normal));
}

}  // namespace lynx::codec
