// nested44, the default codec: every element is an embedded linear index between the minimum and the maximum of its chunk;
// its upper 4 bits are the anchor, its lower 4 bits the residual (FORMAT, "nested44").
// The arithmetic is in codec/math/nested_math.h.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

[[nodiscard]] std::unique_ptr<PageCoder> make_nested44(const CodecParams& params);

}  // namespace lynx::codec
