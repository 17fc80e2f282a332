// bf16-split: the naive progressive code, bfloat16 cut through the middle of its bits (FORMAT, "bf16-split"). Its anchor holds
// the sign and all but the last bit of the exponent; both tiers together keep every bit of a bfloat16 source.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

[[nodiscard]] std::unique_ptr<PageCoder> make_bf16_split();

}  // namespace lynx::codec
