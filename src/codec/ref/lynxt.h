// The codec lynxt: un-rotated keys, a calibrated transform, one embedded dead-zone index per coefficient, and an entropy code in three
// tiers (FORMAT, "lynxt"). docs/lynxt.md says why and what it measured.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

/// Precondition: params are valid, and their profile is 0 or kept (profile.h).
[[nodiscard]] std::unique_ptr<PageCoder> make_lynxt(const CodecParams& params);

/// The cuts that parameters stand for: 0 is the default. Empty when no codec could have them.
[[nodiscard]] bool lynxt_cuts_valid(std::uint8_t cuts) noexcept;

}  // namespace lynx::codec
