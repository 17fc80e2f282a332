// Tiles: how codecs read and write pages of any dtype and layout. A tile is a float32 block [tokens][kTileChannels],
// token-major, so that every kernel is a plain loop over kTileChannels channels. Unused channels of the last tile hold 0.
#pragma once

#include <memory>
#include <optional>

#include "kv/view.h"

namespace lynx::codec {

inline constexpr std::uint32_t kTileChannels = 64;
inline constexpr std::uint32_t kTileTokens = 32;  ///< rows decoded at a time; keeps a tile in the L1 cache

/// The channels [first, first + count) of a page, count in 1..kTileChannels.
struct ChannelSpan {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

/// The k-th tile's channels; `k < tile_count(channels)`.
[[nodiscard]] constexpr ChannelSpan tile_span(std::uint32_t channels, std::uint32_t k) noexcept {
    const std::uint32_t first = k * kTileChannels;
    return {first, channels - first < kTileChannels ? channels - first : kTileChannels};
}
[[nodiscard]] constexpr std::uint32_t tile_count(std::uint32_t channels) noexcept {
    return (channels + kTileChannels - 1) / kTileChannels;
}

/// Uninitialised memory for `tokens` rows of a tile.
[[nodiscard]] inline std::unique_ptr<float[]> make_tile(std::uint32_t tokens) {
    return std::make_unique_for_overwrite<float[]>(std::size_t{tokens} * kTileChannels);
}

/// Converts all tokens of `src` and the channels of `span` into `tile`. Exact for every dtype; f32 is copied.
void load_tile(kv::ConstView src, ChannelSpan span, float* tile) noexcept;

/// Rounds `tokens` rows of `tile` to dst's dtype (nearest, ties to even, saturated at the largest finite value) and writes
/// them at (first_token, span.first). Every codec's decode ends here.
void store_tile(const float* tile, std::uint32_t tokens, kv::View dst, std::uint32_t first_token,
                ChannelSpan span) noexcept;

/// Copies `tokens` raw elements between a view and packed token-major memory [tokens][channels].
void copy_rows_out(kv::ConstView src, std::byte* packed) noexcept;
void copy_rows_in(const std::byte* packed, kv::View dst) noexcept;

struct ElementIndex {
    std::uint32_t token = 0;
    std::uint32_t channel = 0;
};
/// The first NaN or infinity of the page in token-major order, if there is one.
[[nodiscard]] std::optional<ElementIndex> find_non_finite(kv::ConstView page) noexcept;

}  // namespace lynx::codec
