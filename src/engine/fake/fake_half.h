// binary16 <-> binary32 without F16C, for the fake model only: branch-free enough for the compiler to vectorise.
// Rounds to nearest even; NaN stays NaN, overflow becomes infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace lynx::engine {

[[nodiscard]] inline float half_to_float(std::uint16_t h) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
    const std::uint32_t magnitude = static_cast<std::uint32_t>(h & 0x7FFFU) << 13;
    // Rebiasing by a multiplication also normalises denormals.
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
    const std::uint32_t special =
        magnitude >= 0x0F800000U ? 0x7F800000U : 0U;  // infinity and NaN keep the top exponent
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

[[nodiscard]] inline std::uint16_t float_to_half(float f) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(f);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) {
        return static_cast<std::uint16_t>(sign | 0x7E00U);
    }
    if (magnitude >= 0x477FF000U) {  // 65520 and up round to infinity
        return static_cast<std::uint16_t>(sign | 0x7C00U);
    }
    if (magnitude < 0x38800000U) {  // below 2^-14: adding 0.5 aligns the last denormal bit with the float's last bit
        const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3F000000U));
    }
    const std::uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
}

}  // namespace lynx::engine
