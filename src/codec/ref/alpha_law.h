// The alpha-law of Algorithm 1 (arXiv:2607.01831) and its cut into anchor and residual symbols, as tables.
//
//     y = levels * log(1 + alpha*a) / log(1 + alpha),   I = rint(y),   V = (I + 7) >> 4,   Q_res = 16V - I,
//     Q_anc = V for sign +, -V - 1 for sign -;          a' = ((1 + alpha)^(I / levels) - 1) / alpha
// No logarithm or power is ever taken: the tables come from multiplications, divisions and a square root, which IEEE 754
// defines to the bit, so every machine builds the same ones (FORMAT, "Alpha-law tables").
#pragma once

#include <array>
#include <cstdint>

#include "codec/math/alpha_math.h"

namespace lynx::codec {

/// How levels are spaced. `linear` and `log` are there to show what the alpha-law is worth: a' = I / levels, and
/// a' = (1 + alpha)^(I / levels - 1) with 0 for level 0.
enum class AlphaCurve : std::uint8_t { alpha, linear, log };

/// Immutable after construction.
class AlphaLaw {
public:
    /// Preconditions: alpha in kAlphaMin..kAlphaMax, levels in 1..127.
    AlphaLaw(float alpha, int levels, AlphaCurve curve = AlphaCurve::alpha) noexcept;

    /// a' of level I, 0 <= level < kAlphaMagnitudes; a level above levels() stands for a magnitude above 1.
    [[nodiscard]] float magnitude(int level) const noexcept { return magnitude_[static_cast<std::size_t>(level)]; }

    /// I of each of `count` magnitudes a in 0..1: the number of decision thresholds that a reaches.
    void quantise(const float* a, std::uint32_t count, std::uint8_t* level) const noexcept;

    [[nodiscard]] int levels() const noexcept { return levels_; }
    [[nodiscard]] const std::array<float, kAlphaMagnitudes>& magnitudes() const noexcept { return magnitude_; }
    [[nodiscard]] const std::array<float, kAlphaLevelsMax + 1>& thresholds() const noexcept { return threshold_; }

private:
    int levels_;
    std::array<float, kAlphaMagnitudes> magnitude_{};
    std::array<float, kAlphaLevelsMax + 1> threshold_{};  ///< [k]: least a with I >= k; +infinity above `levels`
};

}  // namespace lynx::codec
