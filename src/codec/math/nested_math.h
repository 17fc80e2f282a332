// The nested codecs, element by element (FORMAT, "Nested codecs"): what every backend computes. Loops, packing and memory
// are the backend's.
//
// Decoding is integer arithmetic and one rounding. Per channel of a page one 32-bit word holds a unit 2^e, a base B and a
// range S; per chunk and channel two bytes hold where in that range the chunk lies. For an index I of 2^b cells
//     fixed = (B << 10) + ((S * (512*lo + w*t)) >> 5),  w = hi - lo + 1,  t = (2I + 1) * 2^(8-b)
//     x     = round(fixed * 2^(e-10))
// with |fixed| < 2^24, so the product is exact in float32.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "codec/math/scalar_math.h"

namespace lynx::codec {

/// Channel word of the page metadata: value range [B, B + 4S] * 2^e.
struct NestedChannel {
    std::int32_t exponent = 0;  ///< e, kNestedExponentMin..Max
    std::int32_t base = 0;      ///< B, -4096..4095
    std::int32_t range = 0;     ///< S, 0..2047
};

inline constexpr std::int32_t kNestedExponentMin = -100;
inline constexpr std::int32_t kNestedExponentMax = 117;
inline constexpr float kNestedCellsPerRangeUnit = 1.0F / 64.0F;  ///< one chunk cell is 4S/256 = S/64 units

/// The word that covers [min, max] most tightly. Precondition: finite, min <= max.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr NestedChannel nested_channel(float min,
                                                                                         float max) noexcept {
    constexpr float kMantissaMax = 4094.0F;  // 2047 * 2: any float16 lies on the grid, and 4S of S = 2047 still covers
    const float largest = larger(magnitude(min), magnitude(max));
    NestedChannel c;
    c.exponent = kNestedExponentMin;
    if (largest > 0.0F) {
        const auto exponent = static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, largest) >> 23U) - 127 - 11;
        c.exponent = larger(exponent, kNestedExponentMin);
        c.exponent += largest * power_of_two(-c.exponent) > kMantissaMax ? 1 : 0;
    }
    const float scaled_min = min * power_of_two(-c.exponent);
    const float scaled_max = max * power_of_two(-c.exponent);
    c.base = floor_to_int(scaled_min);
    // The difference is rounded once; nudging the quotient up by the comparison keeps the cover exact.
    c.range = ceil_to_int((scaled_max - static_cast<float>(c.base)) * 0.25F);
    c.range += static_cast<float>(c.base + 4 * c.range) < scaled_max ? 1 : 0;
    return c;
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint32_t pack_nested_channel(
    const NestedChannel& c) noexcept {
    return (static_cast<std::uint32_t>(c.base) & 0x1FFFU) | static_cast<std::uint32_t>(c.range) << 13U |
           static_cast<std::uint32_t>(c.exponent) << 24U;
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr NestedChannel unpack_nested_channel(
    std::uint32_t word) noexcept {
    NestedChannel c;
    c.base = static_cast<std::int32_t>(word << 19U) >> 19;
    c.range = static_cast<std::int32_t>((word >> 13U) & 0x7FFU);
    c.exponent = static_cast<std::int32_t>(word) >> 24;
    return c;
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr bool nested_channel_valid(const NestedChannel& c) noexcept {
    return c.exponent >= kNestedExponentMin && c.exponent <= kNestedExponentMax;
}

/// Where a chunk lies inside its channel's range: cells [lo, hi] of 256.
struct NestedCells {
    std::uint8_t lo = 0;
    std::uint8_t hi = 0;
};

/// The fewest cells that cover [min, max] (in units of 2^e). Every edge is exact in float32 (19 significant bits), so the
/// comparisons decide exactly and the estimate may be off by one either way.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr NestedCells nested_cells(const NestedChannel& c, float min,
                                                                                     float max) noexcept {
    if (c.range == 0) {
        return {};
    }
    const float base = static_cast<float>(c.base);
    const float cell = static_cast<float>(c.range) * kNestedCellsPerRangeUnit;
    std::int32_t lo = limited(static_cast<std::int32_t>((min - base) / cell), 0, 255);
    lo -= lo > 0 && base + static_cast<float>(lo) * cell > min ? 1 : 0;
    std::int32_t hi = limited(static_cast<std::int32_t>((max - base) / cell), 0, 255);
    hi += hi < 255 && base + static_cast<float>(hi + 1) * cell < max ? 1 : 0;
    hi -= hi > lo && base + static_cast<float>(hi) * cell >= max ? 1 : 0;
    return {static_cast<std::uint8_t>(lo), static_cast<std::uint8_t>(larger(lo, hi))};
}

/// What the encoder needs per chunk and channel; in units of 2^e.
struct NestedQuantiser {
    float low = 0;    ///< the chunk's lower edge
    float scale = 0;  ///< indices per unit
};

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr NestedQuantiser nested_quantiser(
    const NestedChannel& c, NestedCells cells) noexcept {
    const std::int32_t width = (cells.hi - cells.lo + 1) * c.range;
    return {static_cast<float>(c.base) + static_cast<float>(cells.lo * c.range) * kNestedCellsPerRangeUnit,
            width > 0 ? 256.0F / kNestedCellsPerRangeUnit / static_cast<float>(width) : 0.0F};
}

/// The 8-bit index of x: floor((x / 2^e - low) * scale), limited to 0..255.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::int32_t nested_index(float x, float inverse_unit,
                                                                                      float low, float scale) noexcept {
    float y = (x * inverse_unit - low) * scale;
    y = y > 0.0F ? y : 0.0F;
    y = y < 255.0F ? y : 255.0F;
    return static_cast<std::int32_t>(y);
}

/// Integer constants of one chunk and channel: fixed = base + ((low + width * t) >> 5).
struct NestedScale {
    std::int32_t base = 0;
    std::int32_t low = 0;
    std::int32_t width = 0;
};

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr NestedScale nested_scale(const NestedChannel& c,
                                                                                     NestedCells cells) noexcept {
    return {c.base * 1024, c.range * 512 * cells.lo, c.range * (cells.hi - cells.lo + 1)};
}

/// t of the upper `bits` bits of an index: the middle of what they leave open.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::int32_t nested_t(std::int32_t symbol,
                                                                                  std::int32_t bits) noexcept {
    return (2 * symbol + 1) << (8 - bits);
}

/// The decoded value before the final rounding; `unit` is 2^(e-10).
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float nested_value(std::int32_t t, std::int32_t base,
                                                                               std::int32_t low, std::int32_t width,
                                                                               float unit) noexcept {
    return static_cast<float>(base + ((low + width * t) >> 5)) * unit;
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float nested_unit(const NestedChannel& c) noexcept {
    return power_of_two(c.exponent - 10);
}

}  // namespace lynx::codec
