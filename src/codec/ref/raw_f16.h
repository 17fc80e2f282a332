// The baseline `f16`: every element as a float16, one tier (FORMAT, "f16"). Exact for float16 sources; others are rounded
// and saturate at 65504.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

[[nodiscard]] std::unique_ptr<PageCoder> make_raw_f16();

}  // namespace lynx::codec
