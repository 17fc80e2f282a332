// Packing of a tile row of symbols of 1 to 8 bits (FORMAT, "Symbol rows"): the row is one little-endian bit string in which
// channel c has bits b*c .. b*c + b - 1. Eight symbols take b whole bytes, so a tile starts at a byte.
#pragma once

#include "codec/nibbles.h"

namespace lynx::codec {

[[nodiscard]] constexpr std::size_t symbol_row_bytes(std::uint32_t channels, unsigned bits) noexcept {
    return (std::size_t{channels} * bits + 7) / 8;
}

/// Writes the low `bits` bits of `symbols` [kTileChannels] for the span's channels into the page's row.
inline void pack_symbols(unsigned bits, const std::uint8_t* __restrict symbols, ChannelSpan span,
                         std::byte* row) noexcept {
    if (bits == 4) {
        pack_nibbles(symbols, span, row);
        return;
    }
    std::uint8_t kept[kTileChannels] = {};
    std::memcpy(kept, symbols, span.count);
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::byte packed[kTileChannels];
    for (std::uint32_t i = 0; i < kTileChannels; i += 8) {
        std::uint64_t word = 0;
        for (std::uint32_t j = 0; j < 8; ++j) {
            word |= (kept[i + j] & mask) << (bits * j);
        }
        std::memcpy(packed + i / 8 * bits, &word, bits);
    }
    std::memcpy(row + span.first / 8 * bits, packed, symbol_row_bytes(span.count, bits));
}

/// The reverse; channels beyond the span read as 0 or as the row's unused bits.
inline void unpack_symbols(unsigned bits, const std::byte* row, ChannelSpan span,
                           std::uint8_t* __restrict symbols) noexcept {
    if (bits == 4) {
        unpack_nibbles(row, span, symbols);
        return;
    }
    const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
    std::byte packed[kTileChannels] = {};
    std::memcpy(packed, row + span.first / 8 * bits, symbol_row_bytes(span.count, bits));
    for (std::uint32_t i = 0; i < kTileChannels; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, packed + i / 8 * bits, bits);
        for (std::uint32_t j = 0; j < 8; ++j) {
            symbols[i + j] = static_cast<std::uint8_t>(word >> (bits * j) & mask);
        }
    }
}

/// A symbol as a two's complement number of `bits` bits.
[[nodiscard]] constexpr int signed_symbol(unsigned bits, std::uint8_t symbol) noexcept {
    const int sign = 1 << (bits - 1);
    return (symbol ^ sign) - sign;
}

}  // namespace lynx::codec
