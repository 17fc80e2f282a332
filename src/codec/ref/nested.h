// The nested codecs, the default nested44 among them: every element is an embedded linear index of 8 bits between the minimum
// and the maximum of its chunk; each tier adds its next bits (FORMAT, "Nested codecs"). The arithmetic is in
// codec/math/nested_math.h.
#pragma once

#include <array>
#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

struct NestedSpec {
    CodecId id = CodecId::nested44;
    std::uint8_t tiers = 2;
    std::array<std::uint8_t, 3> bits{4, 4, 0};  ///< per tier, highest first; 8 in all
};

[[nodiscard]] std::unique_ptr<PageCoder> make_nested(const NestedSpec& spec, const CodecParams& params);

}  // namespace lynx::codec
