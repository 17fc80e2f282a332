// CRC-32 through libdeflate, which folds 128 bits at a time; where the CPU multiplies 256 bits without carries at once, long
// inputs are first folded to 128 bytes of the same checksum, at twice the speed. The checksum is a third of decoding's time.
// Source of the method: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009.
#include <libdeflate.h>

#include "base/bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lynx::base {
namespace {

#if defined(__x86_64__)

constexpr std::size_t kFoldedBytes = 128;  // four vectors
constexpr std::size_t kFoldBytesMin = 1024;

/// x^n modulo the polynomial, bits reflected, times x: the factor that moves 64 bits by n - 32 places.
constexpr std::uint64_t fold_factor(unsigned n) noexcept {
    std::uint32_t r = 0x80000000U;  // x^0
    for (unsigned i = 0; i < n; ++i) {
        r = (r >> 1U) ^ ((r & 1U) != 0 ? 0xEDB88320U : 0U);
    }
    return std::uint64_t{r} << 1U;
}

/// Folds whole multiples of kFoldedBytes, at least one, into `folded`, whose checksum from a register of 0 is theirs from ~crc.
__attribute__((target("avx2,pclmul,vpclmulqdq"))) void fold(const std::byte* p, std::size_t bytes, std::uint32_t crc,
                                                            std::byte* folded) noexcept {
    constexpr std::uint64_t kLow = fold_factor(8 * kFoldedBytes + 32);
    constexpr std::uint64_t kHigh = fold_factor(8 * kFoldedBytes - 32);
    const __m256i factors = _mm256_set_epi64x(static_cast<long long>(kHigh), static_cast<long long>(kLow),
                                              static_cast<long long>(kHigh), static_cast<long long>(kLow));
    const auto* in = reinterpret_cast<const __m256i*>(p);
    __m256i x0 =
        _mm256_xor_si256(_mm256_loadu_si256(in), _mm256_setr_epi32(static_cast<int>(~crc), 0, 0, 0, 0, 0, 0, 0));
    __m256i x1 = _mm256_loadu_si256(in + 1);
    __m256i x2 = _mm256_loadu_si256(in + 2);
    __m256i x3 = _mm256_loadu_si256(in + 3);
    for (std::size_t done = kFoldedBytes; done < bytes; done += kFoldedBytes) {
        in += 4;
        const __m256i low0 = _mm256_clmulepi64_epi128(x0, factors, 0x00);
        const __m256i low1 = _mm256_clmulepi64_epi128(x1, factors, 0x00);
        const __m256i low2 = _mm256_clmulepi64_epi128(x2, factors, 0x00);
        const __m256i low3 = _mm256_clmulepi64_epi128(x3, factors, 0x00);
        x0 = _mm256_xor_si256(_mm256_clmulepi64_epi128(x0, factors, 0x11), low0);
        x1 = _mm256_xor_si256(_mm256_clmulepi64_epi128(x1, factors, 0x11), low1);
        x2 = _mm256_xor_si256(_mm256_clmulepi64_epi128(x2, factors, 0x11), low2);
        x3 = _mm256_xor_si256(_mm256_clmulepi64_epi128(x3, factors, 0x11), low3);
        x0 = _mm256_xor_si256(x0, _mm256_loadu_si256(in));
        x1 = _mm256_xor_si256(x1, _mm256_loadu_si256(in + 1));
        x2 = _mm256_xor_si256(x2, _mm256_loadu_si256(in + 2));
        x3 = _mm256_xor_si256(x3, _mm256_loadu_si256(in + 3));
    }
    auto* out = reinterpret_cast<__m256i*>(folded);
    _mm256_storeu_si256(out, x0);
    _mm256_storeu_si256(out + 1, x1);
    _mm256_storeu_si256(out + 2, x2);
    _mm256_storeu_si256(out + 3, x3);
}

bool can_fold() noexcept {
    static const bool kCan = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("vpclmulqdq") != 0;
    return kCan;
}

#endif

}  // namespace

std::uint32_t crc32(ByteView bytes, std::uint32_t crc) noexcept {
#if defined(__x86_64__)
    if (bytes.size() >= kFoldBytesMin && can_fold()) {
        const std::size_t whole = bytes.size() / kFoldedBytes * kFoldedBytes;
        std::byte folded[kFoldedBytes];
        fold(bytes.data(), whole, crc, folded);
        crc = libdeflate_crc32(0xFFFFFFFFU, folded, kFoldedBytes);
        bytes = bytes.subspan(whole);
    }
#endif
    return libdeflate_crc32(crc, bytes.data(), bytes.size());
}

}  // namespace lynx::base
