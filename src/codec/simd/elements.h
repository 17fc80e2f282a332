// Element types of pages as the kernels see them: the raw integer, and the order-preserving signed integer that stands for
// it. Sign-and-magnitude patterns compare like their values once the magnitude bits of negative ones are flipped, so minima and
// maxima need no conversion, and a NaN or an infinity is whatever lies beyond the largest finite pattern.
#pragma once

#include <cstdint>

#include "kv/geometry.h"

namespace lynx::codec::simd {

struct F16 {
    using Raw = std::uint16_t;
    using Ordered = std::int16_t;
    static constexpr kv::DType kDType = kv::DType::f16;
    static constexpr Ordered kLargestFinite = 0x7BFF;
    static constexpr float kMax = 65504.0F;
};

struct BF16 {
    using Raw = std::uint16_t;
    using Ordered = std::int16_t;
    static constexpr kv::DType kDType = kv::DType::bf16;
    static constexpr Ordered kLargestFinite = 0x7F7F;
    static constexpr float kMax = 0x1.FEp127F;
};

struct F32 {
    using Raw = std::uint32_t;
    using Ordered = std::int32_t;
    static constexpr kv::DType kDType = kv::DType::f32;
    static constexpr Ordered kLargestFinite = 0x7F7FFFFF;
    static constexpr float kMax = 0x1.FFFFFEp127F;
};

}  // namespace lynx::codec::simd
