// lynx44: the alpha-law with 120 levels, whose anchor symbols fill exactly 4 bits, and anchor values that are the centroids of
// the page's own magnitudes (FORMAT, "lynx44").
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

inline constexpr int kLynx44Levels = 120;  ///< (2^3 - 1) * 2^4 + 2^3: the most that 4 + 4 bits carry

[[nodiscard]] std::unique_ptr<PageCoder> make_lynx44(const CodecParams& params);

}  // namespace lynx::codec
