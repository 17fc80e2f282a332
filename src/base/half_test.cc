// The conversions against the definition of the formats, over every float16, and against the CPU's own where it has F16C.
#include "base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/rng.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lynx::base {
namespace {

constexpr std::uint32_t kAllHalves = 1U << 16;

/// The value of a finite float16 straight from IEEE 754's definition.
double half_value(std::uint16_t h) {
    const int exponent = (h >> 10) & 31;
    const int mantissa = h & 1023;
    const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
    return (h & 0x8000U) != 0 ? -magnitude : magnitude;
}

bool is_nan(std::uint16_t h) { return (h & 0x7FFFU) > 0x7C00U; }

/// The nearest of two adjacent float16 magnitudes, ties to even.
std::uint16_t nearest_by_search(float x) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000U : 0U);
    const double a = std::fabs(static_cast<double>(x));
    if (a >= 65520.0) {
        return sign | 0x7C00U;
    }
    std::uint16_t lo = 0;
    std::uint16_t hi = 0x7C00U;
    while (hi - lo > 1) {
        const auto middle = static_cast<std::uint16_t>((lo + hi) / 2);
        (half_value(middle) <= a ? lo : hi) = middle;
    }
    const double below = a - half_value(lo);
    const double above = (hi == 0x7C00U ? 65536.0 : half_value(hi)) - a;
    const bool up = above < below || (above == below && lo % 2 != 0);
    return static_cast<std::uint16_t>(sign | (up ? hi : lo));
}

TEST(Half, EveryHalfToFloatIsItsValueAndComesBack) {
    for (std::uint32_t i = 0; i < kAllHalves; ++i) {
        const auto h = static_cast<std::uint16_t>(i);
        const float f = f16_to_f32(h);
        if (is_nan(h)) {
            ASSERT_TRUE(std::isnan(f)) << i;
            ASSERT_EQ(f32_to_f16(f), h | 0x200U) << i;
            continue;
        }
        if ((h & 0x7FFFU) == 0x7C00U) {
            ASSERT_TRUE(std::isinf(f)) << i;
        } else {
            ASSERT_EQ(static_cast<double>(f), half_value(h)) << i;
        }
        ASSERT_EQ(std::signbit(f), (h & 0x8000U) != 0) << i;
        ASSERT_EQ(f32_to_f16(f), h) << i;
    }
}

TEST(Half, FloatToHalfRoundsToNearestEvenAroundEveryMidpoint) {
    for (std::uint32_t i = 0; i < 0x7C00U; ++i) {
        const double low = half_value(static_cast<std::uint16_t>(i));
        const double high = i == 0x7BFFU ? 65536.0 : half_value(static_cast<std::uint16_t>(i + 1));
        const auto middle = static_cast<float>((low + high) / 2);
        for (const float x : {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, 1e9F)}) {
            ASSERT_EQ(f32_to_f16(x), nearest_by_search(x)) << x;
            ASSERT_EQ(f32_to_f16(-x), nearest_by_search(-x)) << x;
        }
    }
}

TEST(Half, RandomFloatsAgreeWithTheSearch) {
    Rng rng(1);
    for (int i = 0; i < 200000; ++i) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
        if (!std::isnan(x)) {
            ASSERT_EQ(f32_to_f16(x), nearest_by_search(x)) << x;
        }
    }
}

TEST(Half, UpAndDownBracketTheValue) {
    Rng rng(2);
    for (int i = 0; i < 100000; ++i) {
        const float x = static_cast<float>((rng.unit() - 0.5) * std::ldexp(1.0, static_cast<int>(rng.below(40)) - 23));
        const std::uint16_t down = f32_to_f16_down(x);
        ASSERT_LE(f16_to_f32(down), x);
        ASSERT_GE(f16_to_f32(down), x - std::fabs(x) * 0x1p-10F - 0x1p-24F);
        const float a = std::fabs(x);
        const std::uint16_t up = f32_to_f16_up(a);
        ASSERT_GE(f16_to_f32(up), a);
        ASSERT_TRUE(up == 0 || f16_to_f32(static_cast<std::uint16_t>(up - 1)) < a);
    }
    EXPECT_EQ(f32_to_f16_up(1e9F), 0x7BFFU);
    EXPECT_EQ(f32_to_f16_down(-1e9F), 0xFBFFU);
    EXPECT_EQ(f32_to_f16_down(-1e-30F), 0x8001U);
}

TEST(Half, BfloatIsTheUpperHalfOfFloatRoundedToEven) {
    for (std::uint32_t i = 0; i < kAllHalves; ++i) {
        const auto b = static_cast<std::uint16_t>(i);
        const float f = bf16_to_f32(b);
        ASSERT_EQ(f32_to_bf16(f), std::isnan(f) ? b | 0x40U : b);
        if (std::isfinite(f)) {
            const std::uint32_t even = (i + (i & 1U)) & 0xFFFFU;
            ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(i << 16 | 0x8000U)), even) << i;
            ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(i << 16 | 0x7FFFU)), i) << i;
            ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(i << 16 | 0x8001U)), i + 1) << i;
        }
    }
}

#if defined(__x86_64__)
[[gnu::target("f16c")]] std::uint16_t hardware_to_half(float x) {
    return static_cast<std::uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(x), _MM_FROUND_TO_NEAREST_INT), 0));
}
[[gnu::target("f16c")]] float hardware_to_float(std::uint16_t h) {
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(h))));
}

TEST(Half, AgreesWithTheProcessor) {
    if (!__builtin_cpu_supports("avx2")) {
        GTEST_SKIP() << "no AVX2, so F16C is not certain";
    }
    for (std::uint32_t i = 0; i < kAllHalves; ++i) {
        const auto h = static_cast<std::uint16_t>(i);
        ASSERT_EQ(std::bit_cast<std::uint32_t>(f16_to_f32(h)), std::bit_cast<std::uint32_t>(hardware_to_float(h))) << i;
    }
    Rng rng(3);
    for (int i = 0; i < 2000000; ++i) {
        const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
        ASSERT_EQ(f32_to_f16(x), hardware_to_half(x)) << x;
    }
}
#endif

}  // namespace
}  // namespace lynx::base
