// CRC-32 (zlib's) as arithmetic modulo its polynomial over GF(2), so that pieces of a message can be taken in any order.
//
// Numbers are in the checksum's bit order: the highest bit is the coefficient of x^0. The *remainder* of bytes is what the
// register holds after them when it started at 0; it is linear: leading zeros do not change it, and
//     remainder(a ++ b) = remainder(a) * x^(8 |b|) + remainder(b),    + being xor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"

namespace lynx::codec::cuda {

inline constexpr std::uint32_t kCrcPolynomial = 0xEDB88320U;
inline constexpr std::uint32_t kCrcOne = 0x80000000U;    ///< x^0
inline constexpr std::uint64_t kCrcOrder = 0xFFFFFFFFU;  ///< x^kCrcOrder = 1

[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t crc_multiply(std::uint32_t a, std::uint32_t b) noexcept {
    std::uint32_t product = 0;
    for (std::uint32_t i = 0; i < 32; ++i) {
        product ^= b & (0U - (a >> 31U));
        a <<= 1U;
        b = (b >> 1U) ^ (kCrcPolynomial & (0U - (b & 1U)));
    }
    return product;
}

/// x^(8 * bytes); a negative count is taken back.
[[nodiscard]] constexpr std::uint32_t crc_shift(std::int64_t bytes) noexcept {
    const std::int64_t order = static_cast<std::int64_t>(kCrcOrder);
    auto exponent = static_cast<std::uint64_t>(((bytes * 8) % order + order) % order);
    std::uint32_t power = kCrcOne >> 1U;  // x
    std::uint32_t result = kCrcOne;
    for (; exponent > 0; exponent >>= 1U) {
        result = (exponent & 1U) != 0 ? crc_multiply(result, power) : result;
        power = crc_multiply(power, power);
    }
    return result;
}

/// The register after `bytes`, from `state`, a bit at a time: for a few bytes.
[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t crc_update(std::uint32_t state, const std::byte* bytes,
                                                                  std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        state ^= static_cast<std::uint32_t>(bytes[i]);
        for (std::uint32_t bit = 0; bit < 8; ++bit) {
            state = (state >> 1U) ^ (kCrcPolynomial & (0U - (state & 1U)));
        }
    }
    return state;
}

/// The checksum of a message from its first bytes, whose register is `head` (begun at all ones), and the remainder of the rest,
/// which x^(8 |rest|) shifts past.
[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t crc_joined(std::uint32_t head, std::uint32_t shift,
                                                                  std::uint32_t rest) noexcept {
    return ~(crc_multiply(head, shift) ^ rest);
}

/// Multiplication by a constant, four bits at a time.
struct CrcTable {
    std::uint32_t product[8][16];

    [[nodiscard]] static constexpr CrcTable of(std::uint32_t constant) noexcept {
        CrcTable t{};
        for (std::uint32_t place = 0; place < 8; ++place) {
            for (std::uint32_t digit = 0; digit < 16; ++digit) {
                t.product[place][digit] = crc_multiply(digit << (4 * place), constant);
            }
        }
        return t;
    }
    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE constexpr std::uint32_t times(std::uint32_t v) const noexcept {
        std::uint32_t r = 0;
        for (std::uint32_t place = 0; place < 8; ++place) {
            r ^= product[place][(v >> (4 * place)) & 15U];
        }
        return r;
    }
};

}  // namespace lynx::codec::cuda
