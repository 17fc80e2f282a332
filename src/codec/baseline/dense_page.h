// A page as one float32 matrix [tokens][channels], for codecs whose vectors run across tiles.
#pragma once

#include <algorithm>
#include <vector>

#include "codec/tile.h"

namespace lynx::codec {

[[nodiscard]] inline std::vector<float> load_dense(kv::ConstView src) {
    std::vector<float> dense(std::size_t{src.tokens} * src.channels);
    const auto tile = make_tile(src.tokens);
    for (std::uint32_t k = 0; k < tile_count(src.channels); ++k) {
        const ChannelSpan span = tile_span(src.channels, k);
        load_tile(src, span, tile.get());
        for (std::uint32_t t = 0; t < src.tokens; ++t) {
            std::copy_n(tile.get() + std::size_t{t} * kTileChannels, span.count,
                        dense.data() + std::size_t{t} * src.channels + span.first);
        }
    }
    return dense;
}

/// Rounds and writes all of `dst`.
inline void store_dense(const std::vector<float>& dense, kv::View dst) {
    const auto tile = make_tile(dst.tokens);
    for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
        const ChannelSpan span = tile_span(dst.channels, k);
        for (std::uint32_t t = 0; t < dst.tokens; ++t) {
            float* row = tile.get() + std::size_t{t} * kTileChannels;
            std::fill_n(row, kTileChannels, 0.0F);
            std::copy_n(dense.data() + std::size_t{t} * dst.channels + span.first, span.count, row);
        }
        store_tile(tile.get(), dst.tokens, dst, 0, span);
    }
}

}  // namespace lynx::codec
