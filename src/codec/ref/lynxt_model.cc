#include "codec/ref/lynxt_model.h"

#include <algorithm>

namespace lynx::codec {
namespace {

/// 2^30 * P(|y| >= i / 16 sigma) for a generalised Gaussian of exponent 3/2, the one shape that fitted the coefficients of real KV
/// to 0.01 bits (docs/lynxt.md).
constexpr std::int64_t kSurvival[] = {
    1073741824, 1010175499, 947755152, 886951908, 828078212, 771358839, 716956042, 664983160, 615513542, 568587128,
    524215666,  482387068,  443069140, 406212860, 371755266, 339622037, 309729789, 281988121, 256301432, 232570534,
    210694058,  190569693,  172095250, 155169578, 139693331, 125569619, 112704529, 101007548, 90391886,  80774720,
    72077357,   64225334,   57148462,  50780821,  45060707,  39930556,  35336827,  31229871,  27563778,  24296207,
    21388217,   18804079,   16511093,  14479401,  12681805,  11093582,  9692306,   8457684,   7371382,   6416877,
    5579302,    4845307,    4202927,   3641458,   3151340,   2724053,   2352012,   2028480,   1747482,   1503725,
    1292532,    1109775,    951813,    815446,    697860,    596588,    509467,    434606,    370354,    315269,
    268098,     227748,     193271,    163846,    138759,    117394,    99218,     83773,     70661,     59542,
    50124,      42154,      35416,     29727,     24927,     20883,     17478,     14614,     12208,     10188,
    8495,       7076,       5889,      4896,      4067,      3376,      2799,      2319,      1919,      1587,
    1311,       1082,       893,       736,       606,       498,       409,       336,       276,       226,
    185,        152,        124,       101,       83,        67,        55,        45,        36,        30,
    24,         19,         16,        13,        10,        8,         7,         5,         4,
};
constexpr std::uint64_t kLastCell = std::size(kSurvival) - 1;
/// 2^16 * 2^(-i / 4)
constexpr std::uint64_t kRoot[] = {65536, 55109, 46341, 38968};

/// P(|y| >= index finest steps) for a class, times 2^30.
std::int64_t survival(std::int32_t index, std::uint32_t of_class) noexcept {
    // In cells of 1/16 sigma with 8 fractional bits. The class minus its bias is 4 * octave + quarter.
    const std::uint32_t octave = of_class / 4;  // plus 1
    const std::uint64_t position = (static_cast<std::uint64_t>(index) * kRoot[of_class % 4]) >> (3 + octave);
    const std::uint64_t cell = position >> 8U;
    if (cell >= kLastCell) {
        return kSurvival[kLastCell];
    }
    const auto fraction = static_cast<std::int64_t>(position & 255U);
    return kSurvival[cell] + (((kSurvival[cell + 1] - kSurvival[cell]) * fraction) >> 8);
}

/// Of a signed cell of a tier, zero counting both sides.
std::uint64_t weight(const LynxtCuts& cuts, std::uint32_t tier, std::int32_t cell, std::uint32_t of_class) noexcept {
    const std::int32_t magnitude = cell < 0 ? -cell : cell;
    const std::int64_t one_side =
        survival(cuts.lower(tier, magnitude), of_class) - survival(cuts.lower(tier, magnitude + 1), of_class);
    return static_cast<std::uint64_t>(cell == 0 ? 2 * one_side : one_side);
}

RansTable anchor_table(const LynxtCuts& cuts, std::uint32_t of_class, std::uint32_t raw_bits) {
    std::array<std::uint64_t, kLynxtEscape + 1> weights{};
    const std::int32_t first = -kLynxtSmall * (1 << raw_bits);
    const std::int32_t last = (kLynxtSmall + 1) * (1 << raw_bits);
    for (std::int32_t cell = first; cell < last; ++cell) {
        weights[static_cast<std::size_t>((cell >> raw_bits) + kLynxtSmall)] += weight(cuts, 0, cell, of_class);
    }
    weights[kLynxtEscape] = static_cast<std::uint64_t>(survival(cuts.lower(0, last), of_class) +
                                                       survival(cuts.lower(0, 1 - first), of_class));
    return RansTable::from_weights(weights);
}

RansTable refinement_table(const LynxtCuts& cuts, std::uint32_t tier, std::uint32_t of_class, std::int32_t before) {
    std::vector<std::uint64_t> weights;
    const std::int32_t first = cuts.cell(tier, cuts.lower(tier - 1, before));
    const std::int32_t last = cuts.cell(tier, cuts.lower(tier - 1, before + 1));
    for (std::int32_t cell = before == 0 ? 1 - last : first; cell < last; ++cell) {
        weights.push_back(weight(cuts, tier, cell, of_class));
    }
    return RansTable::from_weights(weights);
}

}  // namespace

LynxtModel::LynxtModel(LynxtCuts cuts)
    : cuts_(cuts),
      class_delta_(RansTable::from_weights(kLynxtClassWeights)),
      page_mean_(RansTable::from_weights(std::to_array<std::uint64_t>(
          {137, 182, 243, 324, 432, 576, 768, 1024, 768, 576, 432, 324, 243, 182, 137, 64}))) {
    for (std::uint32_t c = 0; c < kLynxtClasses; ++c) {
        anchor_.push_back(anchor_table(cuts, c, anchor_raw_bits(c)));
    }
    for (std::uint32_t tier = 1; tier < kLynxtTiers; ++tier) {
        for (std::uint32_t c = 0; c < kLynxtClasses; ++c) {
            for (std::uint32_t context = 0; context < kLynxtContextsMax; ++context) {
                const std::uint32_t before = std::min(context, cuts.contexts(tier) - 1);
                refinement_.push_back(refinement_table(cuts, tier, c, static_cast<std::int32_t>(before)));
            }
        }
    }
}

std::uint32_t LynxtModel::anchor_raw_bits(std::uint32_t of_class) const noexcept {
    const std::uint32_t octave = of_class / 4;  // of sigma in finest steps, plus 1
    const std::uint32_t anchor_octave = cuts_.shift[0] + 1U;
    return octave > anchor_octave ? octave - anchor_octave : 0;
}

bool LynxtModel::has_zero_flag(std::uint32_t of_class) const noexcept {
    return of_class < 4U * cuts_.shift[0];  // sigma below half of the anchor's step
}

}  // namespace lynx::codec
