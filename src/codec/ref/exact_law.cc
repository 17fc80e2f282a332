#include "codec/ref/exact_law.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "codec/math/scalar_math.h"

namespace lynx::codec {
namespace {

/// 2^30 * P(|y| >= i / 16 sigma) for a generalised Gaussian of exponent 5/2. Errors of lynxt's transform are normal, those of cells between
/// normal and uniform; one law costs either at most 0.03 bits (docs/exact.md).
constexpr std::int64_t kTails[] = {
    1073741824, 1025084105, 976468346, 927965653, 879668202, 831684088, 784133855, 737147571, 690862094, 645418404,
    600958943,  557624975,  515553971, 474877074, 435716677, 398184182, 362377971, 328381665, 296262700, 266071259,
    237839601,  211581777,  187293772, 164954030, 144524354, 125951153, 109166971, 94092257,  80637323,  68704393,
    58189723,   48985685,   40982790,  34071574,  28144314,  23096546,  18828334,  15245317,  12259494,  9789770,
    7762278,    6110492,    4775154,   3704054,   2851683,   2178786,   1651862,   1242611,   927376,    686584,
    504204,     367242,     265272,    190013,    134954,    95030,     66339,     45906,     31487,     21405,
    14420,      9626,       6367,      4173,      2709,      1742,      1110,      700,       438,       271,
    166,        101,        60,        36,        21,        12,        7,         4,         2,
};
constexpr std::int64_t kLastTail = std::size(kTails) - 1;
/// 2^16 * 2^(-i / 4)
constexpr std::int64_t kRoot[] = {65536, 55109, 46341, 38968};

constexpr std::int32_t kRatioMin = -8;  // 4 log2 of sigma over a cell's width
constexpr std::int32_t kRatioMax = 7;
constexpr std::uint32_t kPlaceBits = 3;  // of where in its cell a reconstruction lies
constexpr std::uint32_t kPlaces = 1U << kPlaceBits;

/// 2^31 * P(y < sixteenths / 16 cells).
std::int64_t below(std::int32_t sixteenths, std::int32_t ratio) noexcept {
    const std::int64_t distance = sixteenths < 0 ? -std::int64_t{sixteenths} : sixteenths;
    const std::int32_t octave = (ratio - kRatioMin) / 4 + kRatioMin / 4;
    const std::int64_t position = (distance * kRoot[(ratio - kRatioMin) % 4]) >> (8 + octave);  // in 2^-12 sigma
    const std::int64_t i = position >> 8;
    const std::int64_t tail =
        i >= kLastTail ? kTails[kLastTail] : kTails[i] + (((kTails[i + 1] - kTails[i]) * (position & 255)) >> 8);
    return sixteenths < 0 ? tail : (std::int64_t{1} << 31) - tail;
}

RansTable make_table(std::int32_t ratio, std::uint32_t place) {
    std::array<std::uint64_t, kExactEscape + 1> weights{};
    const auto edge = [&](std::int32_t cell) {
        return below(16 * cell - 2 * static_cast<std::int32_t>(place) - 1, ratio);
    };
    for (std::int32_t z = -kExactReach; z <= kExactReach; ++z) {
        weights[static_cast<std::size_t>(z + kExactReach)] = static_cast<std::uint64_t>(edge(z + 1) - edge(z));
    }
    weights[kExactEscape] =
        static_cast<std::uint64_t>(edge(-kExactReach) + (std::int64_t{1} << 31) - edge(kExactReach + 1));
    return RansTable::from_weights(weights);
}

/// A finite magnitude as n * 2^ulp.
struct Magnitude {
    std::uint32_t n = 0;
    std::int32_t ulp = 0;
};
Magnitude magnitude_of(const FloatLayout& layout, std::uint32_t pattern) noexcept {
    const std::uint32_t field = pattern >> layout.fraction;
    const std::uint32_t rest = pattern & ((1U << layout.fraction) - 1);
    return {field == 0 ? rest : rest | 1U << layout.fraction,
            layout.ulp_min + static_cast<std::int32_t>(field == 0 ? 0 : field - 1)};
}

/// The least pattern whose magnitude is at least m * 2^exponent; infinity beyond the finite ones. Precondition: exponent >= ulp_min.
std::uint32_t first_pattern(const FloatLayout& layout, std::uint32_t m, std::int32_t exponent) noexcept {
    if (m == 0) {
        return 0;
    }
    const std::int32_t top = exponent + static_cast<std::int32_t>(std::bit_width(m)) - 1;
    const std::int32_t ulp = std::max(top - static_cast<std::int32_t>(layout.fraction), layout.ulp_min);
    const std::int32_t shift = exponent - ulp;
    const std::uint64_t n = shift >= 0 ? std::uint64_t{m} << shift : (m + (std::uint64_t{1} << -shift) - 1) >> -shift;
    const std::uint64_t pattern = n + (static_cast<std::uint64_t>(ulp - layout.ulp_min) << layout.fraction);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(pattern, layout.infinity()));
}

}  // namespace

FloatLayout float_layout(kv::DType dtype) noexcept {
    switch (dtype) {
        case kv::DType::f16: return {};
        case kv::DType::bf16: return {.bits = 16, .fraction = 7, .ulp_min = -133, .max = 0x1.FEp127F};
        case kv::DType::f32: return {.bits = 32, .fraction = 23, .ulp_min = -149, .max = kF32Max};
    }
    return {};
}

ExactPlace exact_place(const FloatLayout& layout, float x, std::int32_t scale) noexcept {
    constexpr std::uint32_t kFraction = 23;  // of float32
    const float limited_x = saturated(x, layout.max);
    const auto bits = std::bit_cast<std::uint32_t>(magnitude(limited_x));
    const std::uint32_t field = bits >> kFraction;
    const std::uint32_t n = (bits & ((1U << kFraction) - 1)) | (field == 0 ? 0 : 1U << kFraction);
    const std::int32_t unit = static_cast<std::int32_t>(std::max(field, 1U)) - 150;  // the magnitude is n * 2^unit
    std::int32_t ulp = layout.ulp_min;
    if (n != 0) {
        const std::int32_t top = unit + static_cast<std::int32_t>(std::bit_width(n)) - 1;
        ulp = std::max(ulp, top - static_cast<std::int32_t>(layout.fraction));
    }
    ExactPlace at;
    at.negative = limited_x < 0;
    at.exponent = std::max((scale >> 2) - 1, ulp);
    // In eighths of a cell; an element's rounding interval begins half an ulp below it.
    const std::int32_t shift = unit + static_cast<std::int32_t>(kPlaceBits) - at.exponent;
    std::uint32_t eighths = shift >= 0 ? n << shift : (shift > -32 ? n >> -shift : 0);
    eighths += (kPlaces / 2) >> std::min(at.exponent - ulp, 8);
    at.cell = static_cast<std::int32_t>(eighths >> kPlaceBits);
    const std::int32_t ratio = limited(scale - 4 * at.exponent, kRatioMin, kRatioMax);
    at.table = static_cast<std::uint32_t>(ratio - kRatioMin) << kPlaceBits | (eighths & (kPlaces - 1));
    return at;
}

std::uint32_t exact_symbol(const FloatLayout& layout, const ExactPlace& at, std::uint32_t element) noexcept {
    constexpr std::int32_t kShiftMax = 6;  // a larger one leads beyond any place's reach
    const std::uint32_t pattern = element & ~layout.sign();
    if (pattern >= layout.infinity()) {
        return kExactEscape;
    }
    const Magnitude x = magnitude_of(layout, pattern);
    const std::int32_t shift = x.ulp - at.exponent;
    if (shift > kShiftMax) {
        return kExactEscape;
    }
    const auto m = static_cast<std::int32_t>(shift >= 0 ? x.n << shift : (shift > -32 ? x.n >> -shift : 0));
    const bool same_sign = ((element & layout.sign()) != 0) == at.negative;
    const std::int32_t z = (same_sign ? m : -1 - m) - at.cell;
    return z < -kExactReach || z > kExactReach ? kExactEscape : static_cast<std::uint32_t>(z + kExactReach);
}

ExactElements exact_elements(const FloatLayout& layout, const ExactPlace& at, std::uint32_t symbol) noexcept {
    const std::int32_t cell = at.cell + static_cast<std::int32_t>(symbol) - kExactReach;
    const auto m = static_cast<std::uint32_t>(cell >= 0 ? cell : -1 - cell);
    const std::uint32_t first = first_pattern(layout, m, at.exponent);
    const std::uint32_t count = first_pattern(layout, m + 1, at.exponent) - first;
    return {first | (at.negative == (cell >= 0) ? layout.sign() : 0), count};
}

const RansTable& exact_table(std::uint32_t table) noexcept {
    static const std::vector<RansTable> kTables = [] {
        std::vector<RansTable> all;
        for (std::int32_t ratio = kRatioMin; ratio <= kRatioMax; ++ratio) {
            for (std::uint32_t place = 0; place < kPlaces; ++place) {
                all.push_back(make_table(ratio, place));
            }
        }
        return all;
    }();
    return kTables[table];
}

}  // namespace lynx::codec
