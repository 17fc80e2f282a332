// Packing of a tile row of 4-bit symbols: channel 2i in the low nibble of byte i, channel 2i + 1 in the high one
// (FORMAT, "Symbol rows").
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/coder.h"
#include "codec/tile.h"

namespace lynx::codec {

/// Writes the low nibbles of `symbols` [kTileChannels] for the span's channels into the page's row.
inline void pack_nibbles(const std::uint8_t* __restrict symbols, ChannelSpan span, std::byte* row) noexcept {
    std::uint8_t packed[kTileChannels / 2];
    for (std::uint32_t i = 0; i < kTileChannels / 2; ++i) {
        packed[i] = static_cast<std::uint8_t>((symbols[2 * i] & 15U) | unsigned{symbols[2 * i + 1]} << 4U);
    }
    if (span.count % 2 != 0) {
        packed[span.count / 2] &= 15U;
    }
    std::memcpy(row + span.first / 2, packed, nibble_row_bytes(span.count));
}

/// The reverse; channels beyond the span read as 0.
inline void unpack_nibbles(const std::byte* row, ChannelSpan span, std::uint8_t* __restrict symbols) noexcept {
    std::uint8_t packed[kTileChannels / 2] = {};
    std::memcpy(packed, row + span.first / 2, nibble_row_bytes(span.count));
    for (std::uint32_t i = 0; i < kTileChannels / 2; ++i) {
        symbols[2 * i] = packed[i] & 15U;
        symbols[2 * i + 1] = static_cast<std::uint8_t>(packed[i] >> 4U);
    }
}

/// A nibble as a two's complement number, -8..7.
[[nodiscard]] constexpr std::int8_t signed_nibble(std::uint8_t nibble) noexcept {
    return static_cast<std::int8_t>(((nibble & 15U) ^ 8U) - 8);
}

}  // namespace lynx::codec
