// Vector pieces that the kernels share: elements to float32 lanes and back, nibbles, transposes. Included once per target by
// foreach_target, hence no #pragma once.
#include "codec/simd/elements.h"

#if defined(LYNX_CODEC_SIMD_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LYNX_CODEC_SIMD_LANES_INL_H
#undef LYNX_CODEC_SIMD_LANES_INL_H
#else
#define LYNX_CODEC_SIMD_LANES_INL_H
#endif

#include <hwy/highway.h>

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128  // the scalar backend is the fallback
HWY_BEFORE_NAMESPACE();
namespace lynx::codec::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
using VI = hn::Vec<DI>;
using VU = hn::Vec<DU>;
template <class E>
using RawTag = hn::Rebind<typename E::Raw, DF>;
template <class E>
using RawVec = hn::Vec<RawTag<E>>;

/// Whether the target converts float16 in hardware; elsewhere base/half.h's arithmetic, in lanes.
inline constexpr bool kHasF16 = HWY_ARCH_X86 != 0 && HWY_TARGET <= HWY_AVX2;

// ---- Elements to float32. NaN and infinity may come out as any number: encoders refuse such pages by their patterns.

template <class E>
HWY_INLINE VF ToFloat(RawVec<E> raw) {
    const DF df;
    const DU du;
    if constexpr (E::kDType == kv::DType::f32) {
        return hn::BitCast(df, raw);
    } else if constexpr (E::kDType == kv::DType::bf16) {
        return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, raw)));
    } else if constexpr (kHasF16) {
        return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), raw));
    } else {
        const VU h = hn::PromoteTo(du, raw);
        const VU sign = hn::ShiftLeft<16>(hn::And(h, hn::Set(du, 0x8000U)));
        const VU magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(du, 0x7FFFU)));
        const VU normal = hn::Add(magnitude, hn::Set(du, 112U << 23U));
        const VU subnormal = hn::BitCast(
            du, hn::Sub(hn::BitCast(df, hn::Add(magnitude, hn::Set(du, 113U << 23U))), hn::Set(df, 0x1p-14F)));
        const auto is_subnormal = hn::Eq(hn::And(h, hn::Set(du, 0x7C00U)), hn::Zero(du));
        return hn::BitCast(df, hn::Or(sign, hn::IfThenElse(is_subnormal, subnormal, normal)));
    }
}

template <class E>
HWY_INLINE VF LoadFloat(const typename E::Raw* p) {
    return ToFloat<E>(hn::LoadU(RawTag<E>(), p));
}

// ---- float32 to elements: nearest, ties to even.

/// FORMAT 5's saturation; a NaN becomes the maximum.
template <class E>
HWY_INLINE VF Saturate(VF x) {
    const DF df;
    const VF max = hn::Set(df, E::kMax);
    x = hn::IfThenElse(hn::Lt(x, max), x, max);
    const VF min = hn::Set(df, -E::kMax);
    return hn::IfThenElse(hn::Gt(x, min), x, min);
}

/// Precondition: |x| <= E::kMax.
template <class E>
HWY_INLINE RawVec<E> FromFloat(VF x) {
    const DF df;
    const DU du;
    const DI di;
    const RawTag<E> raw;
    if constexpr (E::kDType == kv::DType::f32) {
        return hn::BitCast(raw, x);
    } else if constexpr (E::kDType == kv::DType::bf16) {
        const VU bits = hn::BitCast(du, x);
        const VU even = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
        const VU rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), even));
        return hn::DemoteTo(raw, hn::BitCast(di, rounded));
    } else if constexpr (kHasF16) {
        return hn::BitCast(raw, hn::DemoteTo(hn::Rebind<hwy::float16_t, DF>(), x));
    } else {
        const VU bits = hn::BitCast(du, x);
        const VU sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000U));
        const VU a = hn::And(bits, hn::Set(du, 0x7FFFFFFFU));
        const VU even = hn::And(hn::ShiftRight<13>(a), hn::Set(du, 1U));
        const VU normal =
            hn::ShiftRight<13>(hn::Add(hn::Add(hn::Sub(a, hn::Set(du, 112U << 23U)), hn::Set(du, 0xFFFU)), even));
        const VU subnormal =
            hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, a), hn::Set(df, 0.5F))), hn::Set(du, 0x3F000000U));
        const auto is_subnormal = hn::RebindMask(du, hn::Lt(hn::BitCast(df, a), hn::Set(df, 0x1p-14F)));
        return hn::DemoteTo(raw, hn::BitCast(di, hn::Or(sign, hn::IfThenElse(is_subnormal, subnormal, normal))));
    }
}

// ---- The order-preserving integer of a raw pattern, and back: the map is its own inverse.

template <class D, class V = hn::Vec<D>>
HWY_INLINE V FlipOrder(D d, V v) {
    using T = hn::TFromD<D>;
    constexpr int kSignBit = sizeof(T) * 8 - 1;
    return hn::Xor(v, hn::And(hn::ShiftRight<kSignBit>(v), hn::Set(d, hwy::LimitsMax<T>())));
}

// ---- Integers and bytes

/// Truncation to int32. Precondition: |x| < 2^31, or the lane's result is not used.
HWY_INLINE VI TruncateToInt(VF x) {
#if HWY_TARGET == HWY_AVX2
    return VI{_mm256_cvttps_epi32(x.raw)};
#elif HWY_TARGET <= HWY_AVX3
    return VI{_mm512_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_SSE4
    return VI{_mm_cvttps_epi32(x.raw)};
#else
    return hn::ConvertTo(DI(), x);
#endif
}

using DBytes = hn::Repartition<std::uint8_t, DF>;
using VBytes = hn::Vec<DBytes>;

/// Four vectors of int32 as one of bytes, in order, limited to 0..255.
HWY_INLINE VBytes PackBytes(VI a, VI b, VI c, VI d) {
    const DBytes d8;
#if HWY_TARGET == HWY_AVX2
    // Packing works within 128 bits: dword v * 2 + k of the result lies at k * 4 + v.
    const __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(a.raw, b.raw), _mm256_packs_epi32(c.raw, d.raw));
    (void)d8;
    return VBytes{_mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))};
#elif HWY_TARGET <= HWY_AVX3
    const __m512i packed = _mm512_packus_epi16(_mm512_packs_epi32(a.raw, b.raw), _mm512_packs_epi32(c.raw, d.raw));
    (void)d8;
    return VBytes{
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed)};
#else
    const hn::Half<DBytes> half;
    const hn::Half<decltype(half)> quarter;
    const auto ab = hn::Combine(half, hn::DemoteTo(quarter, b), hn::DemoteTo(quarter, a));
    const auto cd = hn::Combine(half, hn::DemoteTo(quarter, d), hn::DemoteTo(quarter, c));
    return hn::Combine(d8, cd, ab);
#endif
}

using DPairs = hn::Repartition<std::uint16_t, DBytes>;  // two neighbouring bytes as one lane
using DHalfBytes = hn::Half<DBytes>;

/// The low bytes of 16-bit lanes, which must be below 256, in order.
HWY_INLINE hn::Vec<DHalfBytes> NarrowPairs(hn::Vec<DPairs> v) {
    return hn::DemoteTo(DHalfBytes(), hn::BitCast(hn::RebindToSigned<DPairs>(), v));
}

/// Bytes x0 x1 to x0 | x1 << 4 of their low nibbles.
HWY_INLINE hn::Vec<DHalfBytes> PackLowNibbles(VBytes x) {
    const DPairs d16;
    const auto v = hn::And(hn::BitCast(d16, x), hn::Set(d16, std::uint16_t{0x0F0F}));
    return NarrowPairs(hn::And(hn::Or(v, hn::ShiftRight<4>(v)), hn::Set(d16, std::uint16_t{0xFF})));
}

/// The same of their high nibbles.
HWY_INLINE hn::Vec<DHalfBytes> PackHighNibbles(VBytes x) {
    const DPairs d16;
    const auto v = hn::And(hn::BitCast(d16, x), hn::Set(d16, std::uint16_t{0xF0F0}));
    return NarrowPairs(hn::Or(hn::ShiftRight<8>(v), hn::And(hn::ShiftRight<4>(v), hn::Set(d16, std::uint16_t{0xF}))));
}

/// The reverse: 4-bit symbols of a row as bytes, Lanes(DBytes) of them from half as many bytes.
HWY_INLINE VBytes UnpackNibbles(const std::uint8_t* row) {
    const DPairs d16;
    const auto packed = hn::PromoteTo(d16, hn::LoadU(DHalfBytes(), row));
    return hn::BitCast(DBytes(),
                       hn::And(hn::Or(packed, hn::ShiftLeft<4>(packed)), hn::Set(d16, std::uint16_t{0x0F0F})));
}

// ---- Transposes between the layouts of a view, whose elements need not be aligned

template <class T>
HWY_INLINE void CopyElement(const T* from, T* to) {
    __builtin_memcpy(to, from, sizeof(T));
}

/// dst[t * dst_stride + c] = src[c * src_stride + t] for `rows` x `columns` source elements.
HWY_INLINE void Transpose(const std::uint16_t* src, std::ptrdiff_t src_stride, std::uint32_t rows,
                          std::uint32_t columns, std::uint16_t* dst, std::ptrdiff_t dst_stride) {
    const hn::FixedTag<std::uint16_t, 8> d;
    const hn::Repartition<std::uint32_t, decltype(d)> d32;
    const hn::Repartition<std::uint64_t, decltype(d)> d64;
    std::uint32_t r = 0;
    for (; r + 8 <= rows; r += 8) {
        std::uint32_t c = 0;
        for (; c + 8 <= columns; c += 8) {
            const std::uint16_t* p = src + static_cast<std::ptrdiff_t>(r) * src_stride + c;
            hn::Vec<decltype(d)> x[8];
            for (int i = 0; i < 8; ++i, p += src_stride) {
                x[i] = hn::LoadU(d, p);
            }
            hn::Vec<decltype(d32)> y[8];
            for (int i = 0; i < 4; ++i) {
                y[i] = hn::BitCast(d32, hn::InterleaveLower(d, x[2 * i], x[2 * i + 1]));      // columns 0..3
                y[4 + i] = hn::BitCast(d32, hn::InterleaveUpper(d, x[2 * i], x[2 * i + 1]));  // columns 4..7
            }
            std::uint16_t* q = dst + static_cast<std::ptrdiff_t>(c) * dst_stride + r;
            for (int half = 0; half < 8; half += 4) {
                const auto a = hn::BitCast(d64, hn::InterleaveLower(d32, y[half], y[half + 1]));
                const auto b = hn::BitCast(d64, hn::InterleaveUpper(d32, y[half], y[half + 1]));
                const auto e = hn::BitCast(d64, hn::InterleaveLower(d32, y[half + 2], y[half + 3]));
                const auto f = hn::BitCast(d64, hn::InterleaveUpper(d32, y[half + 2], y[half + 3]));
                hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, e)), d, q);
                hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, e)), d, q + dst_stride);
                hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, b, f)), d, q + 2 * dst_stride);
                hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, b, f)), d, q + 3 * dst_stride);
                q += 4 * dst_stride;
            }
        }
        for (; c < columns; ++c) {
            for (std::uint32_t i = r; i < r + 8; ++i) {
                CopyElement(src + static_cast<std::ptrdiff_t>(i) * src_stride + c,
                            dst + static_cast<std::ptrdiff_t>(c) * dst_stride + i);
            }
        }
    }
    for (; r < rows; ++r) {
        for (std::uint32_t c = 0; c < columns; ++c) {
            CopyElement(src + static_cast<std::ptrdiff_t>(r) * src_stride + c,
                        dst + static_cast<std::ptrdiff_t>(c) * dst_stride + r);
        }
    }
}

HWY_INLINE void Transpose(const std::uint32_t* src, std::ptrdiff_t src_stride, std::uint32_t rows,
                          std::uint32_t columns, std::uint32_t* dst, std::ptrdiff_t dst_stride) {
    for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t c = 0; c < columns; ++c) {
            CopyElement(src + static_cast<std::ptrdiff_t>(r) * src_stride + c,
                        dst + static_cast<std::ptrdiff_t>(c) * dst_stride + r);
        }
    }
}

}  // namespace lynx::codec::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // LYNX_CODEC_SIMD_LANES_INL_H
