// The alpha-law codecs, element by element (FORMAT, "Alpha-law tables" and "Alpha metadata"): what every backend computes. Tables
// are built once on the host (ref/alpha_law.h); loops, packing and memory are the backend's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "base/host_device.h"
#include "codec/codec.h"
#include "codec/math/scalar_math.h"

namespace lynx::codec {

inline constexpr int kAlphaLevelsMax = 127;
inline constexpr int kAlg1Levels = 127;
inline constexpr int kLynx44Levels = 120;  ///< (2^3 - 1) * 2^4 + 2^3: the most that 4 + 4 bits carry
/// Anchor digits per 64-bit word of alg1: 18^15 < 2^63, 4.27 bits a symbol where log2(18) = 4.17 is ideal.
inline constexpr std::uint32_t kAlphaDigitsPerWord = 15;
/// The anchor of the top magnitude V = 8 of 127 levels stands for level 128, beyond the last one.
inline constexpr int kAlphaMagnitudes = 129;
inline constexpr double kAlphaEpsilon = 1e-12;  ///< Algorithm 1's guard against division by zero

struct AlphaSymbols {
    int q_anc = 0;  ///< -9..8 for 127 levels and 4 residual bits, -8..7 for 120
    int q_res = 0;  ///< of 4 bits: -8..7
};

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr AlphaSymbols split_level(int level, bool negative,
                                                                                     int residual_bits = 4) noexcept {
    const int v = (level + (1 << (residual_bits - 1)) - 1) >> residual_bits;
    return {negative ? -v - 1 : v, (v << residual_bits) - level};
}

/// The level of a symbol pair; outside 0..levels when no level splits into that pair.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr int join_level(AlphaSymbols s,
                                                                           int residual_bits = 4) noexcept {
    return ((s.q_anc < 0 ? -s.q_anc - 1 : s.q_anc) << residual_bits) - s.q_res;
}

/// I of a magnitude a in 0..1: the number of decision thresholds [kAlphaLevelsMax + 1] that a reaches, the first not counted.
/// A binary search without branches: its outcomes are close to random, and a mispredicted one costs more than all steps.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint32_t alpha_level(const float* threshold,
                                                                                      float a) noexcept {
    std::uint32_t k = 0;
    for (std::uint32_t step = (kAlphaLevelsMax + 1) / 2; step > 0; step /= 2) {
        k += step & (0U - static_cast<std::uint32_t>(a >= threshold[k + step]));
    }
    return k;
}

/// The same, beginning at any guess in 0..kAlphaLevelsMax, which decides how long it takes. Precondition: a >= 0, and
/// threshold[kAlphaLevelsMax + 1] exists and is infinite.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint32_t alpha_level_from(const float* threshold,
                                                                                           std::int32_t guess,
                                                                                           float a) noexcept {
    std::int32_t k = guess;
    while (k > 0 && a < threshold[k]) {
        --k;
    }
    while (a >= threshold[k + 1]) {
        ++k;
    }
    return static_cast<std::uint32_t>(k);
}

/// Byte offsets of the four metadata arrays and the sizes of their elements; gamma_min lies at 0.
struct AlphaMetaLayout {
    std::size_t gamma_bytes = 0;
    std::size_t chunk_bytes = 0;
    std::size_t gamma_scale = 0;
    std::size_t mu = 0;
    std::size_t sigma = 0;
    std::size_t end = 0;
};

[[nodiscard]] LYNX_HOST_DEVICE constexpr AlphaMetaLayout alpha_meta_layout(MetaFormat format, std::uint32_t chunks,
                                                                           std::uint32_t channels) noexcept {
    AlphaMetaLayout l;
    l.gamma_bytes = format == MetaFormat::f32 ? 4 : 2;
    l.chunk_bytes = format == MetaFormat::f32 ? 4 : (format == MetaFormat::f16 ? 2 : 1);
    const std::size_t per_chunk = std::size_t{chunks} * channels * l.chunk_bytes;
    l.gamma_scale = channels * l.gamma_bytes;
    l.mu = 2 * l.gamma_scale;
    l.sigma = l.mu + per_chunk;
    l.end = l.sigma + per_chunk;
    return l;
}

/// Unaligned elements of little-endian arrays.
template <class T>
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void put_element(std::byte* array, std::size_t index, T value) noexcept {
    __builtin_memcpy(array + index * sizeof(T), &value, sizeof(T));
}
template <class T>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE T get_element(const std::byte* array, std::size_t index) noexcept {
    T value{};
    __builtin_memcpy(&value, array + index * sizeof(T), sizeof(T));
    return value;
}

/// To float32, saturated at its largest value.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float narrow(double x) noexcept {
    return static_cast<float>(limited(x, -double{kF32Max}, double{kF32Max}));
}

/// What the encoder multiplies by: the inverse of the stored value, or for float32 of the exact one plus epsilon.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr double inverse_or_zero(double x) noexcept {
    return x > 0 ? 1.0 / x : 0.0;
}

/// One channel's gammas as the encoder normalises with them.
struct AlphaGamma {
    double min = 0;
    double scale = 0;
};

/// Stores the gammas of a channel with these extremes. Precondition: finite, min <= max.
LYNX_HOST_DEVICE inline AlphaGamma put_alpha_gamma(MetaFormat format, const AlphaMetaLayout& l, std::byte* meta,
                                                   std::size_t channel, float min, float max) noexcept {
    if (format == MetaFormat::f32) {
        const double range = static_cast<double>(max) - static_cast<double>(min);
        put_element(meta, channel, min);
        put_element(meta + l.gamma_scale, channel, narrow(range));
        return {static_cast<double>(min), range + kAlphaEpsilon};
    }
    // Half the range is stored: max - min of float16 data can pass float16's largest value, half of it cannot.
    const std::uint16_t low = base::f32_to_f16_down(min);
    const double covered = larger(0.0, static_cast<double>(max) - static_cast<double>(base::f16_to_f32(low)));
    const float half_range = narrow(covered * 0.5);
    const std::uint16_t half =
        base::f32_to_f16_up(static_cast<double>(half_range) < covered * 0.5 ? next_above(half_range) : half_range);
    put_element(meta, channel, low);
    put_element(meta + l.gamma_scale, channel, half);
    return {static_cast<double>(base::f16_to_f32(low)), 2.0 * static_cast<double>(base::f16_to_f32(half))};
}

/// Extremes and sum (in float64, in token order) of one chunk and channel.
struct AlphaChunk {
    float min = 0;
    float max = 0;
    double sum = 0;
    std::uint32_t rows = 0;
};

/// Normalisation that the encoder applies: t = (x - center) * inverse_spread.
struct AlphaNormaliser {
    double center = 0;
    double inverse_spread = 0;
};

/// Stores mu and sigma of a chunk; `at` is its place in the arrays [chunks][channels].
LYNX_HOST_DEVICE inline AlphaNormaliser put_alpha_chunk(MetaFormat format, const AlphaMetaLayout& l, std::byte* meta,
                                                        std::size_t at, const AlphaGamma& gamma,
                                                        const AlphaChunk& chunk) noexcept {
    const double per_scale = inverse_or_zero(gamma.scale);
    double mu = (chunk.sum / chunk.rows - gamma.min) * per_scale;
    const double top = (static_cast<double>(chunk.max) - gamma.min) * per_scale;
    const double bottom = (static_cast<double>(chunk.min) - gamma.min) * per_scale;
    double sigma = 0;
    switch (format) {
        case MetaFormat::f32:
            sigma = larger(larger(top - mu, mu - bottom), 0.0);
            put_element(meta + l.mu, at, narrow(mu));
            put_element(meta + l.sigma, at, narrow(sigma));
            sigma += kAlphaEpsilon;
            break;
        case MetaFormat::f16: {
            const std::uint16_t m = base::f32_to_f16(limited(narrow(mu), -base::kF16Max, base::kF16Max));
            mu = static_cast<double>(base::f16_to_f32(m));
            sigma = larger(larger(top - mu, mu - bottom), 0.0);
            const std::uint16_t d = base::f32_to_f16_up(next_above(narrow(sigma)));
            sigma = static_cast<double>(base::f16_to_f32(d));
            put_element(meta + l.mu, at, m);
            put_element(meta + l.sigma, at, d);
            break;
        }
        case MetaFormat::q8: {
            const std::int32_t m = floor_to_int(limited(mu * 255.0 + 0.5, 0.0, 255.0));
            mu = static_cast<double>(static_cast<float>(m) / 255.0F);
            sigma = larger(larger(top - mu, mu - bottom), 0.0);
            const std::int32_t d = ceil_to_int(limited(sigma * 255.0, 0.0, 255.0));
            sigma = static_cast<double>(static_cast<float>(d) / 255.0F);
            put_element(meta + l.mu, at, static_cast<std::uint8_t>(m));
            put_element(meta + l.sigma, at, static_cast<std::uint8_t>(d));
            break;
        }
    }
    return {gamma.min + mu * gamma.scale, inverse_or_zero(gamma.scale * sigma)};
}

/// Metadata of one chunk and channel, dequantised; x = (gamma_min + gamma_scale*mu) + (gamma_scale*sigma) * t.
struct AlphaElementMeta {
    float gamma_min = 0;
    float gamma_scale = 0;
    float mu = 0;
    float sigma = 0;
};

LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void get_alpha_gamma(MetaFormat format, const AlphaMetaLayout& l,
                                                         const std::byte* meta, std::size_t channel,
                                                         AlphaElementMeta& m) noexcept {
    if (format == MetaFormat::f32) {
        m.gamma_min = get_element<float>(meta, channel);
        m.gamma_scale = get_element<float>(meta + l.gamma_scale, channel);
    } else {
        m.gamma_min = base::f16_to_f32(get_element<std::uint16_t>(meta, channel));
        m.gamma_scale = 2.0F * base::f16_to_f32(get_element<std::uint16_t>(meta + l.gamma_scale, channel));
    }
}

LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void get_alpha_chunk(MetaFormat format, const AlphaMetaLayout& l,
                                                         const std::byte* meta, std::size_t at,
                                                         AlphaElementMeta& m) noexcept {
    switch (format) {
        case MetaFormat::f32:
            m.mu = get_element<float>(meta + l.mu, at);
            m.sigma = get_element<float>(meta + l.sigma, at);
            break;
        case MetaFormat::f16:
            m.mu = base::f16_to_f32(get_element<std::uint16_t>(meta + l.mu, at));
            m.sigma = base::f16_to_f32(get_element<std::uint16_t>(meta + l.sigma, at));
            break;
        case MetaFormat::q8:
            m.mu = static_cast<float>(get_element<std::uint8_t>(meta + l.mu, at)) / 255.0F;
            m.sigma = static_cast<float>(get_element<std::uint8_t>(meta + l.sigma, at)) / 255.0F;
            break;
    }
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE AlphaElementMeta get_alpha_meta(
    MetaFormat format, const AlphaMetaLayout& l, const std::byte* meta, std::size_t channel, std::size_t at) noexcept {
    AlphaElementMeta m;
    get_alpha_gamma(format, l, meta, channel, m);
    get_alpha_chunk(format, l, meta, at, m);
    return m;
}

/// False when a stored number is NaN, infinite or out of its range.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr bool alpha_meta_valid(const AlphaElementMeta& m) noexcept {
    return is_finite(m.gamma_min) && is_finite(m.mu) && m.gamma_scale >= 0 && m.gamma_scale <= kF32Max &&
           m.sigma >= 0 && m.sigma <= kF32Max;
}

/// t of an element; its magnitude passes 1 by rounding only, and is then cut to 1.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr double alpha_normalised(float x, double center,
                                                                                    double inverse_spread) noexcept {
    return (static_cast<double>(x) - center) * inverse_spread;
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float alpha_magnitude(double t) noexcept {
    const double m = magnitude(t);
    return static_cast<float>(m < 1.0 ? m : 1.0);
}
/// The magnitude in 2^-24, whose sums are integers, so that the order of adding is free.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint32_t alpha_fixed(float a) noexcept {
    return static_cast<std::uint32_t>(a * 0x1p24F);
}

/// lynx44's stored anchor magnitude, in 2^-16: the mean of `count` magnitudes, or `otherwise` where there are none.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint16_t alpha_centroid(std::uint64_t fixed_sum,
                                                                                         std::uint64_t count,
                                                                                         float otherwise) noexcept {
    const std::uint64_t mean = count == 0 ? alpha_fixed(otherwise) : fixed_sum / count;
    return static_cast<std::uint16_t>(smaller<std::uint64_t>((mean + 128) >> 8U, 0xFFFF));
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr float centroid_magnitude(std::uint16_t centroid) noexcept {
    return static_cast<float>(centroid) * 0x1p-16F;
}

}  // namespace lynx::codec
