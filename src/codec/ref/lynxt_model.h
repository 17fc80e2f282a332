// The static probability model of lynxt: frequency tables of every class, tier and context, derived in integers from one survival
// function (FORMAT, "lynxt: model"). A class says how a coefficient's standard deviation relates to the finest step.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "codec/ref/rans.h"

namespace lynx::codec {

inline constexpr std::uint32_t kLynxtClasses = 56;  ///< sigma = step * 2^((class - 4) / 4)
inline constexpr std::uint8_t kLynxtTiers = 3;
inline constexpr std::int32_t kLynxtLevelMax = 4095;  ///< of the finest index
inline constexpr std::uint8_t kLynxtShiftMax = 6;
inline constexpr std::uint32_t kLynxtGapMax[kLynxtTiers] = {0, 2, 4};  ///< bits that a refining tier adds

/// Which cells of finest indices each tier tells apart (FORMAT, "lynxt: cells"). Magnitudes; signs are a mirror.
struct LynxtCuts {
    std::uint8_t shift[kLynxtTiers] = {5, 4, 0};

    [[nodiscard]] bool valid() const noexcept {
        return shift[0] <= kLynxtShiftMax && shift[0] > shift[1] && shift[1] >= 1 && gap(1) <= kLynxtGapMax[1] &&
               gap(2) <= kLynxtGapMax[2] && shift[2] == 0;
    }
    [[nodiscard]] std::uint32_t gap(std::uint32_t tier) const noexcept {
        return shift[tier - 1] - std::uint32_t{shift[tier]};
    }
    /// First finest index that the anchor does not take for zero: 5/8 of its step.
    [[nodiscard]] std::int32_t zero() const noexcept { return (5 << shift[0]) >> 3; }
    /// First finest index of a tier's cell.
    [[nodiscard]] std::int32_t lower(std::uint32_t tier, std::int32_t cell) const noexcept {
        const std::int32_t inner = tier == 0 ? 1 : 1 << gap(1);  // cells below zero()
        if (tier + 1 == kLynxtTiers) {
            return cell;
        }
        return cell < inner ? zero() * cell / inner : zero() + (cell - inner) * (1 << shift[tier]);
    }
    /// The cell of a finest index.
    [[nodiscard]] std::int32_t cell(std::uint32_t tier, std::int32_t index) const noexcept {
        const std::int32_t inner = tier == 0 ? 1 : 1 << gap(1);
        if (tier + 1 == kLynxtTiers) {
            return index;
        }
        return index < zero() ? ((index + 1) * inner - 1) / zero() : inner + ((index - zero()) >> shift[tier]);
    }
    /// Cells of the tier before that have a refinement table of their own; the last one serves all above.
    [[nodiscard]] std::uint32_t contexts(std::uint32_t tier) const noexcept {
        return tier == 1 ? 4U : (1U << gap(1)) + 2U;
    }
};

inline constexpr std::uint32_t kLynxtContextsMax = 6;
inline constexpr std::int32_t kLynxtSmall = 7;  ///< symbols 0..14 stand for -7..7, 15 escapes
inline constexpr std::uint32_t kLynxtEscape = 15;
/// Of the differences between neighbouring coefficients' classes, as small symbols.
inline constexpr std::array<std::uint64_t, kLynxtEscape + 1> kLynxtClassWeights{8,   16,  32,  64, 128, 256, 512, 1024,
                                                                                512, 256, 128, 64, 32,  16,  8,   8};

/// Symbol of a small signed number, or the escape.
[[nodiscard]] constexpr std::uint32_t small_symbol(std::int32_t x) noexcept {
    return x < -kLynxtSmall || x > kLynxtSmall ? kLynxtEscape : static_cast<std::uint32_t>(x + kLynxtSmall);
}
[[nodiscard]] constexpr std::int32_t small_value(std::uint32_t symbol) noexcept {
    return static_cast<std::int32_t>(symbol) - kLynxtSmall;
}

class LynxtModel {
public:
    explicit LynxtModel(LynxtCuts cuts);

    /// Symbols of floor(cell / 2^anchor_raw_bits) in the anchor.
    [[nodiscard]] const RansTable& anchor(std::uint32_t of_class) const noexcept { return anchor_[of_class]; }
    [[nodiscard]] std::uint32_t anchor_raw_bits(std::uint32_t of_class) const noexcept;
    /// Whether an anchor says of a coefficient of that class if all its cells are zero.
    [[nodiscard]] bool has_zero_flag(std::uint32_t of_class) const noexcept;
    /// Symbols of tier 1 or 2 given the cell of the tier before.
    [[nodiscard]] const RansTable& refinement(std::uint32_t tier, std::uint32_t of_class,
                                              std::int32_t before) const noexcept {
        const auto magnitude = static_cast<std::uint32_t>(before < 0 ? -before : before);
        const std::uint32_t last = cuts_.contexts(tier) - 1;
        return refinement_[((tier - 1) * kLynxtClasses + of_class) * kLynxtContextsMax +
                           (magnitude < last ? magnitude : last)];
    }
    [[nodiscard]] const RansTable& class_delta() const noexcept { return class_delta_; }
    [[nodiscard]] const RansTable& page_mean() const noexcept { return page_mean_; }

private:
    LynxtCuts cuts_;
    std::vector<RansTable> anchor_;
    std::vector<RansTable> refinement_;
    RansTable class_delta_;
    RansTable page_mean_;
};

}  // namespace lynx::codec
