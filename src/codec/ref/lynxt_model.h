// The static probability model of lynxt: frequency tables of every class, tier and context, derived in integers from one survival
// function (FORMAT, "lynxt: model"). A class says how a coefficient's standard deviation relates to the finest step.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/ref/rans.h"

namespace lynx::codec {

inline constexpr std::uint32_t kLynxtClasses = 56;  ///< sigma = step * 2^((class - 4) / 4)
inline constexpr std::uint8_t kLynxtTiers = 3;
inline constexpr std::int32_t kLynxtLevelMax = 4095;  ///< of the finest index
inline constexpr std::uint8_t kLynxtShiftMax = 8;
inline constexpr std::uint8_t kLynxtGapMax = 4;  ///< bits that one refining tier adds

/// How many low bits of the finest index each tier lacks. Valid: shift[2] == 0, and each tier adds 1..kLynxtGapMax bits.
struct LynxtCuts {
    std::uint8_t shift[kLynxtTiers] = {5, 4, 0};
    [[nodiscard]] std::uint32_t gap(std::uint32_t tier) const noexcept {
        return shift[tier - 1] - std::uint32_t{shift[tier]};
    }
};

inline constexpr std::uint32_t kLynxtContexts = 4;  ///< magnitude in the tier before: 0, 1, 2, 3 or more
inline constexpr std::int32_t kLynxtSmall = 7;      ///< symbols 0..14 stand for -7..7, 15 escapes
inline constexpr std::uint32_t kLynxtEscape = 15;

class LynxtModel {
public:
    explicit LynxtModel(LynxtCuts cuts);

    /// Symbols of floor(index / 2^anchor_raw_bits) in the anchor.
    [[nodiscard]] const RansTable& anchor(std::uint32_t of_class) const noexcept { return anchor_[of_class]; }
    [[nodiscard]] std::uint32_t anchor_raw_bits(std::uint32_t of_class) const noexcept;
    /// Whether an anchor says of a coefficient of that class if all its indices are zero.
    [[nodiscard]] bool has_zero_flag(std::uint32_t of_class) const noexcept;
    /// Symbols of tier 1 or 2 given the index of the tier before.
    [[nodiscard]] const RansTable& refinement(std::uint32_t tier, std::uint32_t of_class,
                                              std::int32_t before) const noexcept {
        const auto magnitude = static_cast<std::uint32_t>(before < 0 ? -before : before);
        const std::uint32_t context = magnitude < kLynxtContexts ? magnitude : kLynxtContexts - 1;
        return refinement_[((tier - 1) * kLynxtClasses + of_class) * kLynxtContexts + context];
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
