// Rotary positions as the formats define them (FORMAT, "Rotation"): angles are 64-bit fractions of a turn, sine and cosine are
// polynomials in float64, so that every machine turns a page by the same numbers. Nothing of the standard library's functions.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"

namespace lynx::codec {

struct SineCosine {
    double sine = 0;
    double cosine = 1;
};

/// Of a phase in 2^-64 of a turn.
[[nodiscard]] SineCosine sine_cosine(std::uint64_t phase) noexcept;

/// Turns pages of one context's keys forth and back. Precondition: the context is valid for the pages' channels.
class Rotation {
public:
    explicit Rotation(const PageContext& context);

    /// x [tokens][channels] of the tokens from context.first_token on; nothing happens where nothing is rotated.
    void apply(std::vector<float>& x, std::uint32_t tokens, std::uint32_t channels) const;
    void undo(std::vector<float>& x, std::uint32_t tokens, std::uint32_t channels) const;

private:
    template <bool kBack>
    void turn(std::vector<float>& x, std::uint32_t tokens, std::uint32_t channels) const;

    PageContext context_;
    std::vector<std::uint64_t> step_;  ///< per pair: phase per position
};

}  // namespace lynx::codec
