#include "codec/ref/nested44.h"

#include <algorithm>
#include <cstring>

#include "codec/math/nested_math.h"
#include "codec/nibbles.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

/// Byte offsets of the anchor body's parts (FORMAT, "nested44").
struct AnchorLayout {
    AnchorLayout(CoreShape s, std::uint32_t chunk_tokens) noexcept
        : chunks(chunk_count(s.tokens, chunk_tokens)),
          lo(std::size_t{s.channels} * 4),
          hi(lo + std::size_t{chunks} * s.channels),
          symbols(hi + std::size_t{chunks} * s.channels),
          bytes(symbols + s.tokens * nibble_row_bytes(s.channels)) {}
    std::uint32_t chunks;
    std::size_t lo;
    std::size_t hi;
    std::size_t symbols;
    std::size_t bytes;
};

class Nested44 final : public PageCoder {
public:
    explicit Nested44(const CodecParams& params) noexcept : chunk_tokens_(params.chunk_tokens) {}

    [[nodiscard]] CodecId id() const noexcept override { return CodecId::nested44; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 2; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return true; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        return tier == 0 ? AnchorLayout(s, chunk_tokens_).bytes : s.tokens * nibble_row_bytes(s.channels);
    }

    void encode(kv::ConstView core, const PageContext& /*context*/,
                std::span<std::span<std::byte>> bodies) const override {
        const auto tile = make_tile(core.tokens);
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            encode_tile(tile.get(), {core.tokens, core.channels}, span, bodies);
        }
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/,
                                kv::View dst) const override {
        const CoreShape shape{dst.tokens, dst.channels};
        for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
            if (!decode_tile(bodies, shape, tile_span(dst.channels, k), dst)) {
                return {ErrorCode::corrupt,
                        "nested44: metadata: an exponent is out of range or a chunk's cells are "
                        "reversed"};
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override {
        const AnchorLayout layout(s, chunk_tokens_);
        const std::size_t row_bytes = nibble_row_bytes(s.channels);
        const bool full = bodies.size() > 1;
        std::uint8_t anchor[kTileChannels];
        std::uint8_t residual[kTileChannels] = {};
        for (std::uint32_t t = 0; t < s.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
                const ChannelSpan span = tile_span(s.channels, k);
                unpack_nibbles(bodies[0].data() + layout.symbols + t * row_bytes, span, anchor);
                if (full) {
                    unpack_nibbles(bodies[1].data() + t * row_bytes, span, residual);
                }
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    out.q_anc.push_back(static_cast<std::int8_t>(anchor[c]));
                    if (full) {
                        out.q_res.push_back(static_cast<std::int8_t>(residual[c]));
                        out.level.push_back(static_cast<std::int16_t>(anchor[c] * 16 + residual[c]));
                    }
                }
            }
        }
        return {};
    }

private:
    void encode_tile(const float* tile, CoreShape shape, ChannelSpan span,
                     std::span<const std::span<std::byte>> bodies) const;
    [[nodiscard]] bool decode_tile(std::span<const base::ByteView> bodies, CoreShape shape, ChannelSpan span,
                                   kv::View dst) const;

    std::uint32_t chunk_tokens_;
};

/// Minimum and maximum over `rows` rows, per channel.
void column_extremes(const float* tile, std::uint32_t rows, float* __restrict min, float* __restrict max) noexcept {
    std::copy_n(tile, kTileChannels, min);
    std::copy_n(tile, kTileChannels, max);
    for (std::uint32_t t = 1; t < rows; ++t) {
        const float* row = tile + std::size_t{t} * kTileChannels;
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            min[c] = row[c] < min[c] ? row[c] : min[c];
            max[c] = row[c] > max[c] ? row[c] : max[c];
        }
    }
}

void quantise_row(const float* __restrict row, const float* __restrict inverse_unit, const float* __restrict low,
                  const float* __restrict scale, std::uint8_t* __restrict index) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        index[c] = static_cast<std::uint8_t>(nested_index(row[c], inverse_unit[c], low[c], scale[c]));
    }
}

void Nested44::encode_tile(const float* tile, CoreShape shape, ChannelSpan span,
                           std::span<const std::span<std::byte>> bodies) const {
    const AnchorLayout layout(shape, chunk_tokens_);
    const std::size_t row_bytes = nibble_row_bytes(shape.channels);
    std::byte* anchor = bodies[0].data();

    float min[kTileChannels];
    float max[kTileChannels];
    column_extremes(tile, shape.tokens, min, max);
    NestedChannel channel[kTileChannels];
    float inverse_unit[kTileChannels];
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        channel[c] = nested_channel(min[c], max[c]);
        inverse_unit[c] = power_of_two(-channel[c].exponent);
    }
    for (std::uint32_t c = 0; c < span.count; ++c) {
        const std::uint32_t word = pack_nested_channel(channel[c]);
        std::memcpy(anchor + std::size_t{span.first + c} * 4, &word, sizeof word);
    }

    for (std::uint32_t k = 0; k < layout.chunks; ++k) {
        const std::uint32_t first = k * chunk_tokens_;
        const std::uint32_t rows = std::min(chunk_tokens_, shape.tokens - first);
        column_extremes(tile + std::size_t{first} * kTileChannels, rows, min, max);
        float low[kTileChannels];
        float scale[kTileChannels];
        std::uint8_t lo[kTileChannels];
        std::uint8_t hi[kTileChannels];
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            const NestedCells cells = nested_cells(channel[c], min[c] * inverse_unit[c], max[c] * inverse_unit[c]);
            const NestedQuantiser quantiser = nested_quantiser(channel[c], cells);
            low[c] = quantiser.low;
            scale[c] = quantiser.scale;
            lo[c] = cells.lo;
            hi[c] = cells.hi;
        }
        const std::size_t meta = std::size_t{k} * shape.channels + span.first;
        std::memcpy(anchor + layout.lo + meta, lo, span.count);
        std::memcpy(anchor + layout.hi + meta, hi, span.count);

        for (std::uint32_t t = first; t < first + rows; ++t) {
            std::uint8_t index[kTileChannels];
            std::uint8_t upper[kTileChannels];
            quantise_row(tile + std::size_t{t} * kTileChannels, inverse_unit, low, scale, index);
            for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                upper[c] = static_cast<std::uint8_t>(index[c] >> 4U);
            }
            pack_nibbles(upper, span, anchor + layout.symbols + t * row_bytes);
            pack_nibbles(index, span, bodies[1].data() + t * row_bytes);
        }
    }
}

/// NestedScale of every channel of a tile.
struct ChunkScale {
    std::int32_t base[kTileChannels];
    std::int32_t low[kTileChannels];
    std::int32_t width[kTileChannels];
};

template <bool kFull>
void dequantise_row(const std::uint8_t* __restrict index, const ChunkScale& s, const float* __restrict unit,
                    float* __restrict row) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        const std::int32_t t = kFull ? nested_full_t(index[c]) : nested_anchor_t(index[c]);
        row[c] = nested_value(t, s.base[c], s.low[c], s.width[c], unit[c]);
    }
}

bool Nested44::decode_tile(std::span<const base::ByteView> bodies, CoreShape shape, ChannelSpan span,
                           kv::View dst) const {
    const AnchorLayout layout(shape, chunk_tokens_);
    const std::size_t row_bytes = nibble_row_bytes(shape.channels);
    const std::byte* anchor = bodies[0].data();
    const bool full = bodies.size() > 1;
    bool valid = true;

    ChunkScale scale{};
    float unit[kTileChannels] = {};
    NestedChannel channel[kTileChannels];
    for (std::uint32_t c = 0; c < span.count; ++c) {
        std::uint32_t word = 0;
        std::memcpy(&word, anchor + std::size_t{span.first + c} * 4, sizeof word);
        channel[c] = unpack_nested_channel(word);
        if (!nested_channel_valid(channel[c])) {
            return false;
        }
        unit[c] = nested_unit(channel[c]);
    }

    float tile[kTileTokens * kTileChannels];
    for (std::uint32_t k = 0; k < layout.chunks; ++k) {
        std::uint8_t lo[kTileChannels] = {};
        std::uint8_t hi[kTileChannels] = {};
        const std::size_t meta = std::size_t{k} * shape.channels + span.first;
        std::memcpy(lo, anchor + layout.lo + meta, span.count);
        std::memcpy(hi, anchor + layout.hi + meta, span.count);
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            valid = valid && lo[c] <= hi[c];
            const NestedScale one = nested_scale(channel[c], {lo[c], hi[c]});
            scale.base[c] = one.base;
            scale.low[c] = one.low;
            scale.width[c] = one.width;
        }
        if (!valid) {
            return false;
        }
        const std::uint32_t chunk_end = std::min(shape.tokens, (k + 1) * chunk_tokens_);
        for (std::uint32_t first = k * chunk_tokens_; first < chunk_end; first += kTileTokens) {
            const std::uint32_t rows = std::min(kTileTokens, chunk_end - first);
            for (std::uint32_t t = 0; t < rows; ++t) {
                std::uint8_t index[kTileChannels];
                unpack_nibbles(anchor + layout.symbols + (first + t) * row_bytes, span, index);
                float* row = tile + std::size_t{t} * kTileChannels;
                if (full) {
                    std::uint8_t residual[kTileChannels];
                    unpack_nibbles(bodies[1].data() + (first + t) * row_bytes, span, residual);
                    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                        index[c] = static_cast<std::uint8_t>(index[c] << 4U | residual[c]);
                    }
                    dequantise_row<true>(index, scale, unit, row);
                } else {
                    dequantise_row<false>(index, scale, unit, row);
                }
            }
            store_tile(tile, rows, dst, first, span);
        }
    }
    return true;
}

}  // namespace

std::unique_ptr<PageCoder> make_nested44(const CodecParams& params) { return std::make_unique<Nested44>(params); }

}  // namespace lynx::codec
