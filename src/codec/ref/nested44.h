// nested44, the default codec: every element is an embedded linear index between the minimum and the maximum of its chunk;
// its upper 4 bits are the anchor, its lower 4 bits the residual (FORMAT, "nested44").
//
// Decoding is integer arithmetic and one rounding. Per channel of a page one 32-bit word holds a unit 2^e, a base B and a
// range S; per chunk and channel two bytes hold where in that range the chunk lies. For an index I of 2^b cells
//     fixed = (B << 10) + ((S * (512*lo + w*t)) >> 5),  w = hi - lo + 1,  t = (2I + 1) * 2^(8-b)
//     x     = round(fixed * 2^(e-10))
// with |fixed| < 2^24, so the product is exact in float32.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

/// Channel word of the page metadata: value range [B, B + 4S] * 2^e.
struct NestedChannel {
    std::int32_t exponent = 0;  ///< e, kNestedExponentMin..Max
    std::int32_t base = 0;      ///< B, -4096..4095
    std::int32_t range = 0;     ///< S, 0..2047
};

inline constexpr std::int32_t kNestedExponentMin = -100;
inline constexpr std::int32_t kNestedExponentMax = 117;

/// The word that covers [min, max] most tightly. Precondition: finite, min <= max.
[[nodiscard]] NestedChannel nested_channel(float min, float max) noexcept;
[[nodiscard]] std::uint32_t pack_nested_channel(const NestedChannel& c) noexcept;
[[nodiscard]] NestedChannel unpack_nested_channel(std::uint32_t word) noexcept;

[[nodiscard]] std::unique_ptr<PageCoder> make_nested44(const CodecParams& params);

}  // namespace lynx::codec
