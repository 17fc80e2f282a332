#include "codec/row_coder.h"

#include <algorithm>

namespace lynx::codec {

void RowCoder::encode_rows(const float* tile, CoreShape shape, ChannelSpan span,
                           std::span<const std::span<std::byte>> bodies) const {
    for (std::uint32_t t = 0; t < shape.tokens; ++t) {
        encode_row(tile + std::size_t{t} * kTileChannels, {shape, t, span}, bodies);
    }
}

void RowCoder::encode(kv::ConstView core, const PageContext& /*context*/,
                      std::span<std::span<std::byte>> bodies) const {
    const auto tile = make_tile(core.tokens);
    for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
        const ChannelSpan span = tile_span(core.channels, k);
        load_tile(core, span, tile.get());
        encode_rows(tile.get(), {core.tokens, core.channels}, span, bodies);
    }
}

Status RowCoder::decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/, kv::View dst) const {
    const CoreShape shape{dst.tokens, dst.channels};
    float tile[kTileTokens * kTileChannels];
    for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
        const ChannelSpan span = tile_span(dst.channels, k);
        for (std::uint32_t first = 0; first < dst.tokens; first += kTileTokens) {
            const std::uint32_t rows = std::min(kTileTokens, dst.tokens - first);
            for (std::uint32_t t = 0; t < rows; ++t) {
                if (!decode_row(bodies, {shape, first + t, span}, tile + std::size_t{t} * kTileChannels)) {
                    return {ErrorCode::corrupt, "token " + std::to_string(first + t) +
                                                    " of the core: a scale or an element is not a number"};
                }
            }
            store_tile(tile, rows, dst, first, span);
        }
    }
    return {};
}

Status RowCoder::symbols(std::span<const base::ByteView> /*bodies*/, CoreShape /*shape*/, PageSymbols& /*out*/) const {
    return {};
}

}  // namespace lynx::codec
