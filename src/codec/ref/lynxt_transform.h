// From a page's elements to coefficients and back: rotation, mean, the profile's matrix, fixed point (FORMAT, "lynxt: values"). Decoding
// is integers up to the float32 that section "Rounding" takes; encoding may use floats, in a fixed order.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/profile.h"
#include "codec/ref/lynxt_rotation.h"
#include "codec/ref/lynxt_stream.h"
#include "kv/view.h"

namespace lynx::codec {

/// The inverse of a profile's basis, row scales included: [block's coefficient][channel in block] for every block. Empty when a block
/// is singular. The order of its float64 operations is fixed.
[[nodiscard]] std::vector<float> invert_basis(const ProfileMatrix& matrix);

/// Coefficients [T][H] in units of 2^exponent.
struct LynxtCoefficients {
    std::int32_t exponent = 0;
    std::vector<float> y;
};
/// `matrix` null: the elements themselves, un-rotated. Otherwise `inverse` is invert_basis(*matrix), not empty.
[[nodiscard]] LynxtCoefficients lynxt_forward(kv::ConstView core, const LynxtRotation& rotation,
                                              const ProfileMatrix* matrix, const std::vector<float>& inverse);

/// Decodes a page whose index is that of a tier with `shift` low bits missing. `matrix` as in lynxt_forward.
void lynxt_restore(const LynxtPage& page, std::uint32_t tier, LynxtCuts cuts, const LynxtRotation& rotation,
                   const ProfileMatrix* matrix, kv::View dst);

}  // namespace lynx::codec
