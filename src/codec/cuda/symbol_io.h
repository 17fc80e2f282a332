// Eight symbols of one token at a time, between registers and the rows of a body (FORMAT, "Symbol rows"): eight symbols of b
// bits are b bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "codec/cuda/element.h"

namespace lynx::codec::cuda {

/// The symbol rows of one tier's body.
struct SymbolRows {
    std::byte* data = nullptr;
    std::size_t row_bytes = 0;
    bool words = false;  ///< every group of eight 4-bit symbols starts at a multiple of 4 bytes

    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::byte* at(std::uint32_t token,
                                                                    std::uint32_t channel) const noexcept {
        return data + token * row_bytes + channel / 2;
    }
};

[[nodiscard]] LYNX_HOST_DEVICE inline SymbolRows nibble_rows(std::byte* data, std::uint32_t channels) noexcept {
    const std::size_t row_bytes = (channels + 1U) / 2U;
    return {data, row_bytes, row_bytes % 4 == 0 && is_aligned(data, 4)};
}

/// Writes `count` (at least 8: all) nibbles of `packed`; the unused half of an odd row's last byte is 0.
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void store_nibbles(const SymbolRows& rows, std::uint32_t token,
                                                       std::uint32_t channel, std::uint32_t count,
                                                       std::uint32_t packed) noexcept {
    std::byte* p = rows.at(token, channel);
    if (rows.words && count >= kVectorElements) {
        store4(p, packed);
        return;
    }
    const std::uint32_t n = count < kVectorElements ? count : kVectorElements;
    packed = n < kVectorElements ? packed & ((1U << (4 * n)) - 1) : packed;
    for (std::uint32_t i = 0; i < (n + 1) / 2; ++i) {
        p[i] = static_cast<std::byte>(packed >> (8 * i));
    }
}

[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::uint32_t load_nibbles(const SymbolRows& rows,
                                                                             std::uint32_t token, std::uint32_t channel,
                                                                             std::uint32_t count) noexcept {
    const std::byte* p = rows.at(token, channel);
    if (rows.words && count >= kVectorElements) {
        return load4(p);
    }
    std::uint32_t packed = 0;
    for (std::uint32_t i = 0; i < (smaller(count, kVectorElements) + 1) / 2; ++i) {
        packed |= static_cast<std::uint32_t>(p[i]) << (8 * i);
    }
    return packed;
}

/// anchor << 4 | residual of eight channels: a byte each, the even channels in one word, the odd ones in another.
struct PairedNibbles {
    std::uint32_t even = 0;
    std::uint32_t odd = 0;

    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::uint32_t get(std::uint32_t i) const noexcept {
        return ((i % 2 == 0 ? even : odd) >> (i / 2 * 8)) & 0xFFU;
    }
};
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE PairedNibbles pair_nibbles(std::uint32_t anchor,
                                                                             std::uint32_t residual) noexcept {
    return {(anchor & 0x0F0F0F0FU) << 4U | (residual & 0x0F0F0F0FU),
            (anchor & 0xF0F0F0F0U) | ((residual >> 4U) & 0x0F0F0F0FU)};
}

}  // namespace lynx::codec::cuda
