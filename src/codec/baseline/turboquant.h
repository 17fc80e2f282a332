// TurboQuant (Zandieh, Daliri, Hadian, Mirrokni: "TurboQuant: Online Vector Quantization with Near-optimal Distortion Rate",
// arXiv:2504.19874), its variant for squared error: rotate a vector at random, quantise every coordinate with the Lloyd-Max
// levels of its distribution, rotate back (FORMAT, "turboquant"). Lossy.
//
// What differs: the rotation is a Hadamard transform of blocks of 64 channels behind pseudo-random signs, so that decoding is
// integer arithmetic, where the paper draws a dense rotation of the whole head; the levels are those of the normal
// distribution, the limit of the paper's Beta for long vectors; the second stage for inner products (QJL) is left out.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

/// Precondition: bits is 3 or 4.
[[nodiscard]] std::unique_ptr<PageCoder> make_turboquant(CodecId id, unsigned bits);

}  // namespace lynx::codec
