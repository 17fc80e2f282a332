// Small arithmetic that kernels can call where the standard library's cannot be.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace lynx::codec {

inline constexpr float kF32Max = 0x1.FFFFFEp127F;

template <class T>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr T smaller(T a, T b) noexcept {
    return b < a ? b : a;
}
template <class T>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr T larger(T a, T b) noexcept {
    return a < b ? b : a;
}
/// Precondition: low <= high.
template <class T>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr T limited(T x, T low, T high) noexcept {
    return x < low ? low : (high < x ? high : x);
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float magnitude(float x) noexcept {
    return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0x7FFFFFFFU);
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr double magnitude(double x) noexcept {
    return __builtin_bit_cast(double, __builtin_bit_cast(std::uint64_t, x) & 0x7FFFFFFFFFFFFFFFU);
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr bool is_finite(float x) noexcept {
    return (__builtin_bit_cast(std::uint32_t, x) & 0x7F800000U) != 0x7F800000U;
}

/// The last step before a decoded value is rounded to a dtype whose largest number is `max`; NaN becomes it.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float saturated(float x, float max) noexcept {
    const float y = x < max ? x : max;
    return y > -max ? y : -max;
}

/// 2^e as a float. Precondition: -126 <= e <= 127.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float power_of_two(std::int32_t e) noexcept {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(e + 127) << 23U);
}

/// Precondition: |x| < 2^31.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::int32_t floor_to_int(float x) noexcept {
    const auto i = static_cast<std::int32_t>(x);
    return i - (static_cast<float>(i) > x ? 1 : 0);
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::int32_t ceil_to_int(float x) noexcept {
    const auto i = static_cast<std::int32_t>(x);
    return i + (static_cast<float>(i) < x ? 1 : 0);
}
/// Precondition: |x| < 2^31.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::int32_t floor_to_int(double x) noexcept {
    const auto i = static_cast<std::int32_t>(x);
    return i - (static_cast<double>(i) > x ? 1 : 0);
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::int32_t ceil_to_int(double x) noexcept {
    const auto i = static_cast<std::int32_t>(x);
    return i + (static_cast<double>(i) < x ? 1 : 0);
}

/// The next float32 above `x`; the largest stays. Precondition: x >= 0 and finite.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float next_above(float x) noexcept {
    const auto bits = __builtin_bit_cast(std::uint32_t, x) & 0x7FFFFFFFU;
    return x < kF32Max ? __builtin_bit_cast(float, bits + 1) : x;
}

}  // namespace lynx::codec
