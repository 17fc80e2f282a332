// float16 and bfloat16 to float32 and back, in integer arithmetic: the same bits on every machine, and loops over these
// functions vectorise. Rounding is to nearest, ties to even. Source of the number formats: IEEE 754-2008, 3.6.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace lynx::base {

inline constexpr float kF16Max = 65504.0F;
inline constexpr float kBf16Max = 0x1.FEp127F;

/// Exact for every input; NaN keeps its payload and becomes quiet.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float f16_to_f32(std::uint16_t h) noexcept {
    const std::uint32_t sign = (h & 0x8000U) << 16;
    const std::uint32_t magnitude = (h & 0x7FFFU) << 13;  // exponent and mantissa in float32's places, bias 15
    const std::uint32_t normal = magnitude + (112U << 23);
    const std::uint32_t special = normal + (112U << 23) + ((h & 0x3FFU) != 0 ? 0x400000U & ~magnitude : 0U);
    // A subnormal is mantissa * 2^-24: attach the exponent of 2^-14 and take 2^-14 away again, which is exact.
    const std::uint32_t subnormal =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude + (113U << 23)) - 0x1p-14F);
    const std::uint32_t exponent = h & 0x7C00U;
    const std::uint32_t bits = exponent == 0 ? subnormal : (exponent == 0x7C00U ? special : normal);
    return __builtin_bit_cast(float, sign | bits);
}

/// Beyond 65520 in magnitude the result is infinite; NaN stays NaN.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint16_t f32_to_f16(float value) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t a = bits & 0x7FFFFFFFU;
    const std::uint32_t normal = (a - (112U << 23) + 0xFFFU + ((a >> 13) & 1U)) >> 13;
    // Below 2^-14 the result counts 2^-24: adding 0.5, whose ulp is 2^-24, makes the hardware round.
    const std::uint32_t subnormal =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, a) + 0.5F) - 0x3F000000U;
    const std::uint32_t special = a > 0x7F800000U ? 0x7E00U | ((a >> 13) & 0x3FFU) : 0x7C00U;
    std::uint32_t r = a < 0x38800000U ? subnormal : normal;
    r = a >= 0x477FF000U ? special : r;
    return static_cast<std::uint16_t>(sign | r);
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float bf16_to_f32(std::uint16_t b) noexcept {
    return __builtin_bit_cast(float, std::uint32_t{b} << 16);
}

/// NaN stays NaN (quiet).
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint16_t f32_to_bf16(float value) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    const std::uint32_t nan = (bits >> 16) | 0x40U;
    return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? nan : rounded);
}

/// The smallest float16 that is not below `value`, saturated at 65504. Precondition: value >= 0 and not NaN.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint16_t f32_to_f16_up(float value) noexcept {
    if (!(value < kF16Max)) {
        return 0x7BFFU;
    }
    const std::uint16_t h = f32_to_f16(value);
    return f16_to_f32(h) < value ? static_cast<std::uint16_t>(h + 1) : h;
}

/// The largest float16 that is not above `value`, saturated at +-65504. Precondition: not NaN.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint16_t f32_to_f16_down(float value) noexcept {
    if (value >= kF16Max) {
        return 0x7BFFU;
    }
    if (value <= -kF16Max) {
        return 0xFBFFU;
    }
    const std::uint16_t h = f32_to_f16(value);
    if (f16_to_f32(h) <= value) {
        return h;
    }
    const bool negative = (h & 0x8000U) != 0;
    return h == 0 ? std::uint16_t{0x8001U} : static_cast<std::uint16_t>(negative ? h + 1 : h - 1);
}

}  // namespace lynx::base
