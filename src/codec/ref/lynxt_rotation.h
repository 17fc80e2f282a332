// Taking the rotary position embedding off keys and putting it back, with angles in 1/1024 of a turn and cosines as integers
// (FORMAT, "lynxt: rotation"). What matters is that encoder and decoder use the same angles, not that they are the model's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codec/codec.h"

namespace lynx::codec {

/// The rotations of one head for a range of positions.
class LynxtRotation {
public:
    /// Of `tokens` positions from context.first_token on. Precondition: validate_context. No rotation when rope.dims is 0.
    LynxtRotation(const PageContext& context, std::uint32_t tokens);

    [[nodiscard]] bool identity() const noexcept { return pairs_ == 0; }
    /// Undoes the rotation of row `token` [channels], exactly short of float32's rounding.
    void remove(std::uint32_t token, std::span<float> row) const noexcept;
    /// Rotates row `token` [channels] of integers, |x| <= 2^30, saturating there.
    void apply(std::uint32_t token, std::span<std::int32_t> row) const noexcept;

private:
    std::uint32_t head_channels_;
    std::uint32_t pairs_;
    std::uint32_t step_;                ///< from one pair's first channel to the next's
    std::uint32_t partner_;             ///< from a pair's first channel to its second
    std::vector<std::int16_t> cosine_;  ///< [tokens][pairs], times 16384
    std::vector<std::int16_t> sine_;
};

inline constexpr std::int32_t kLynxtFixedMax = 1 << 30;  ///< of a decoded element before its exponent

[[nodiscard]] inline std::int32_t lynxt_saturate(std::int64_t x) noexcept {
    return static_cast<std::int32_t>(x < -kLynxtFixedMax ? -kLynxtFixedMax : (x > kLynxtFixedMax ? kLynxtFixedMax : x));
}

}  // namespace lynx::codec
