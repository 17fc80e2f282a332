// The arithmetic of the exact tier (FORMAT, "Exact tier"), one element at a time: where a lossy reconstruction lies among cells of a
// power of two, which bit patterns a cell holds, and how likely the cells around it are. Integers only, but for the reconstruction.
#pragma once

#include <cstdint>

#include "codec/ref/rans.h"
#include "kv/geometry.h"

namespace lynx::codec {

/// How a dtype lays out its numbers. A *pattern* is an element's bits without the sign; patterns ascend with magnitude.
struct FloatLayout {
    std::uint32_t bits = 16;      ///< of an element
    std::uint32_t fraction = 10;  ///< bits of the fraction
    std::int32_t ulp_min = -24;   ///< log2 of the least magnitude above 0
    float max = 65504;            ///< largest finite number

    [[nodiscard]] std::uint32_t sign() const noexcept { return 1U << (bits - 1); }
    [[nodiscard]] std::uint32_t infinity() const noexcept { return sign() - (1U << fraction); }
};
[[nodiscard]] FloatLayout float_layout(kv::DType dtype) noexcept;

/// Log2 of an error's standard deviation, in quarters, as the exact tier sends it per channel.
inline constexpr std::int32_t kExactScaleMax = 2047;  ///< and -2047 at least

inline constexpr std::int32_t kExactReach = 15;    ///< cells to either side that have a symbol, 0..30
inline constexpr std::uint32_t kExactEscape = 31;  ///< the element's bits follow as they are

/// Where a reconstruction lies. Cells are 2^exponent wide and counted in the direction of its sign: cell m >= 0 holds the magnitudes
/// m * 2^exponent .. below (m + 1) * 2^exponent of that sign, cell -1 - m those of the other one.
struct ExactPlace {
    bool negative = false;
    std::int32_t exponent = 0;  ///< at least the layout's ulp_min
    std::int32_t cell = 0;      ///< 0 .. 2^(fraction + 1) + 1
    std::uint32_t table = 0;    ///< of exact_table()
};
/// `x`: the float32 before its final rounding; the layout's largest number stands for all beyond.
[[nodiscard]] ExactPlace exact_place(const FloatLayout& layout, float x, std::int32_t scale) noexcept;

/// The symbol of an element given its reconstruction's place; kExactEscape where its cell is out of reach, or it is not finite.
[[nodiscard]] std::uint32_t exact_symbol(const FloatLayout& layout, const ExactPlace& at,
                                         std::uint32_t element) noexcept;

/// The elements of a cell: `first` .. `first` + `count` - 1, sign included. `count` 0: no number lies there.
struct ExactElements {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};
/// Precondition: symbol < kExactEscape.
[[nodiscard]] ExactElements exact_elements(const FloatLayout& layout, const ExactPlace& at,
                                           std::uint32_t symbol) noexcept;

/// Probabilities of the symbols.
[[nodiscard]] const RansTable& exact_table(std::uint32_t table) noexcept;

}  // namespace lynx::codec
