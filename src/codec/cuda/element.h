// Elements of a page in kernels: eight of them at a time as 32-bit words, to and from float32, and the search for NaN and
// infinity. The device uses its conversion instructions, which are IEEE 754's and so give the bits of base/half.h.
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "base/half.h"
#include "base/host_device.h"
#include "codec/math/scalar_math.h"
#include "kv/geometry.h"

namespace lynx::codec::cuda {

inline constexpr std::uint32_t kVectorElements = 8;

struct alignas(16) Words4 {
    std::uint32_t w[4];
};

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE Words4 load16(const std::byte* aligned) noexcept {
#ifdef __CUDA_ARCH__
    return *reinterpret_cast<const Words4*>(aligned);
#else
    Words4 v;
    __builtin_memcpy(&v, aligned, sizeof v);
    return v;
#endif
}
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void store16(std::byte* aligned, const Words4& v) noexcept {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<Words4*>(aligned) = v;
#else
    __builtin_memcpy(aligned, &v, sizeof v);
#endif
}
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::uint32_t load4(const std::byte* aligned) noexcept {
#ifdef __CUDA_ARCH__
    return *reinterpret_cast<const std::uint32_t*>(aligned);
#else
    std::uint32_t v = 0;
    __builtin_memcpy(&v, aligned, sizeof v);
    return v;
#endif
}
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void store4(std::byte* aligned, std::uint32_t v) noexcept {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<std::uint32_t*>(aligned) = v;
#else
    __builtin_memcpy(aligned, &v, sizeof v);
#endif
}

/// The same at any address.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::uint32_t get_bytes(const std::byte* p) noexcept {
    std::uint32_t v = 0;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void put_bytes(std::byte* p, std::uint32_t v) noexcept {
    __builtin_memcpy(p, &v, sizeof v);
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE bool is_aligned(const void* p, std::size_t bytes) noexcept {
    return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

#ifdef __CUDACC__
/// The bits of a pair of 16-bit floats, a type that bit casts refuse.
template <class Pair>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::uint32_t word_of(const Pair& pair) noexcept {
    static_assert(sizeof(Pair) == sizeof(std::uint32_t));
    std::uint32_t word = 0;
    __builtin_memcpy(&word, &pair, sizeof word);
    return word;
}
#endif

/// A 16-bit dtype: two elements a word, the first in the low half.
struct F16 {
    using Raw = std::uint16_t;
    static constexpr kv::DType kDType = kv::DType::f16;
    static constexpr std::uint32_t kWords = 4;
    static constexpr std::uint32_t kExponent = 0x7C007C00U;
    static constexpr std::uint32_t kExponentUnit = 0x04000400U;
    static constexpr std::uint32_t kCarry = 0x80008000U;
    static constexpr float kMax = base::kF16Max;

    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static float to_float(Raw r) noexcept {
#ifdef __CUDA_ARCH__
        return __half2float(__ushort_as_half(r));
#else
        return base::f16_to_f32(r);
#endif
    }
    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static std::uint32_t pack(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
        return word_of(__floats2half2_rn(a, b));
#else
        return base::f32_to_f16(a) | static_cast<std::uint32_t>(base::f32_to_f16(b)) << 16U;
#endif
    }
};

struct BF16 {
    using Raw = std::uint16_t;
    static constexpr kv::DType kDType = kv::DType::bf16;
    static constexpr std::uint32_t kWords = 4;
    static constexpr std::uint32_t kExponent = 0x7F807F80U;
    static constexpr std::uint32_t kExponentUnit = 0x00800080U;
    static constexpr std::uint32_t kCarry = 0x80008000U;
    static constexpr float kMax = base::kBf16Max;

    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static float to_float(Raw r) noexcept {
        return base::bf16_to_f32(r);
    }
    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static std::uint32_t pack(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
        return word_of(__floats2bfloat162_rn(a, b));
#else
        return base::f32_to_bf16(a) | static_cast<std::uint32_t>(base::f32_to_bf16(b)) << 16U;
#endif
    }
};

struct F32 {
    using Raw = float;
    static constexpr kv::DType kDType = kv::DType::f32;
    static constexpr std::uint32_t kWords = 8;
    static constexpr std::uint32_t kExponent = 0x7F800000U;
    static constexpr std::uint32_t kExponentUnit = 0x00800000U;
    static constexpr std::uint32_t kCarry = 0x80000000U;
    static constexpr float kMax = kF32Max;

    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static float to_float(Raw r) noexcept { return r; }
};

/// Nonzero when one of the word's elements is NaN or infinite: its exponent, all ones, carries into the sign's place.
template <class E>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint32_t non_finite(std::uint32_t word) noexcept {
    return ((word & E::kExponent) + E::kExponentUnit) & E::kCarry;
}
template <class E>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE bool raw_is_finite(typename E::Raw raw) noexcept {
    if constexpr (sizeof(raw) == 4) {
        return non_finite<E>(__builtin_bit_cast(std::uint32_t, raw)) == 0;
    } else {
        return non_finite<E>(raw) == 0;
    }
}

/// Elements 2i and 2i + 1 of a row of a tile.
template <class E>
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void load_pair(const std::byte* tile, std::size_t pair, float& a,
                                                   float& b) noexcept {
    if constexpr (E::kWords == 4) {
        const std::uint32_t w = load4(tile + pair * 4);
        a = E::to_float(static_cast<std::uint16_t>(w & 0xFFFFU));
        b = E::to_float(static_cast<std::uint16_t>(w >> 16U));
    } else {
        a = __builtin_bit_cast(float, load4(tile + pair * 8));
        b = __builtin_bit_cast(float, load4(tile + pair * 8 + 4));
    }
}

template <class E>
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void load_vector(const std::byte* aligned, float* x) noexcept {
    for (std::uint32_t h = 0; h < E::kWords / 4; ++h) {
        const Words4 v = load16(aligned + h * 16);
        if constexpr (E::kWords == 4) {
            for (std::uint32_t i = 0; i < 4; ++i) {
                x[2 * i] = E::to_float(static_cast<std::uint16_t>(v.w[i] & 0xFFFFU));
                x[2 * i + 1] = E::to_float(static_cast<std::uint16_t>(v.w[i] >> 16U));
            }
        } else {
            for (std::uint32_t i = 0; i < 4; ++i) {
                x[h * 4 + i] = __builtin_bit_cast(float, v.w[i]);
            }
        }
    }
}

/// Rounds eight decoded values (FORMAT, "Rounding") and stores them.
template <class E>
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void store_vector(std::byte* aligned, const float* x) noexcept {
    float y[kVectorElements];
    for (std::uint32_t i = 0; i < kVectorElements; ++i) {
        y[i] = saturated(x[i], E::kMax);
    }
    for (std::uint32_t h = 0; h < E::kWords / 4; ++h) {
        Words4 v;
        for (std::uint32_t i = 0; i < 4; ++i) {
            if constexpr (E::kWords == 4) {
                v.w[i] = E::pack(y[2 * i], y[2 * i + 1]);
            } else {
                v.w[i] = __builtin_bit_cast(std::uint32_t, y[h * 4 + i]);
            }
        }
        store16(aligned + h * 16, v);
    }
}

}  // namespace lynx::codec::cuda
