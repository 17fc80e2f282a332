// alg1: Algorithm 1 of arXiv:2607.01831 as printed: 127 levels, 18 anchor symbols and 4-bit residuals (FORMAT, "alg1").
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

inline constexpr int kAlg1Levels = 127;
inline constexpr std::uint32_t kDigitsPerWord =
    15;  ///< 18^15 < 2^63: 4.27 bits a symbol where log2(18) = 4.17 is ideal

[[nodiscard]] std::unique_ptr<PageCoder> make_alg1(const CodecParams& params);

}  // namespace lynx::codec
