#include "codec/ref/nested.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "codec/math/nested_math.h"
#include "codec/symbol_rows.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

/// Byte offsets of the anchor body's parts (FORMAT, "Nested codecs").
struct AnchorLayout {
    AnchorLayout(CoreShape s, std::uint32_t chunk_tokens, unsigned bits) noexcept
        : chunks(chunk_count(s.tokens, chunk_tokens)),
          lo(std::size_t{s.channels} * 4),
          hi(lo + std::size_t{chunks} * s.channels),
          symbols(hi + std::size_t{chunks} * s.channels),
          bytes(symbols + s.tokens * symbol_row_bytes(s.channels, bits)) {}
    std::uint32_t chunks;
    std::size_t lo;
    std::size_t hi;
    std::size_t symbols;
    std::size_t bytes;
};

class Nested final : public PageCoder {
public:
    Nested(const NestedSpec& spec, const CodecParams& params) noexcept
        : spec_(spec), chunk_tokens_(params.chunk_tokens) {}

    [[nodiscard]] CodecId id() const noexcept override { return spec_.id; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return spec_.tiers; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return true; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        return tier == 0 ? layout(s).bytes : s.tokens * symbol_row_bytes(s.channels, spec_.bits[tier]);
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
                        "nested: metadata: an exponent is out of range or a chunk's cells are reversed"};
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override {
        std::uint8_t index[kTileChannels];
        const unsigned residual_bits = 8U - spec_.bits[0];
        const unsigned missing_bits = 8U - bits_of(bodies.size());
        for (std::uint32_t t = 0; t < s.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
                const ChannelSpan span = tile_span(s.channels, k);
                read_row(bodies, s, t, span, index);
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    const unsigned full = unsigned{index[c]} << missing_bits;
                    out.q_anc.push_back(static_cast<std::int8_t>(full >> residual_bits));
                    if (missing_bits == 0) {
                        out.q_res.push_back(static_cast<std::int8_t>(full & ((1U << residual_bits) - 1)));
                        out.level.push_back(static_cast<std::int16_t>(full));
                    }
                }
            }
        }
        return {};
    }

private:
    [[nodiscard]] AnchorLayout layout(CoreShape s) const noexcept { return {s, chunk_tokens_, spec_.bits[0]}; }
    /// Bits of an index that the first `tiers` tiers carry.
    [[nodiscard]] unsigned bits_of(std::size_t tiers) const noexcept {
        unsigned bits = 0;
        for (std::size_t t = 0; t < tiers; ++t) {
            bits += spec_.bits[t];
        }
        return bits;
    }
    /// A row's indices, as many bits of them as the bodies carry.
    void read_row(std::span<const base::ByteView> bodies, CoreShape shape, std::uint32_t token, ChannelSpan span,
                  std::uint8_t* index) const noexcept;
    void encode_tile(const float* tile, CoreShape shape, ChannelSpan span,
                     std::span<const std::span<std::byte>> bodies) const;
    [[nodiscard]] bool decode_tile(std::span<const base::ByteView> bodies, CoreShape shape, ChannelSpan span,
                                   kv::View dst) const;

    NestedSpec spec_;
    std::uint32_t chunk_tokens_;
};

void Nested::read_row(std::span<const base::ByteView> bodies, CoreShape shape, std::uint32_t token, ChannelSpan span,
                      std::uint8_t* __restrict index) const noexcept {
    unpack_symbols(spec_.bits[0],
                   bodies[0].data() + layout(shape).symbols + token * symbol_row_bytes(shape.channels, spec_.bits[0]),
                   span, index);
    for (std::size_t tier = 1; tier < bodies.size(); ++tier) {
        const unsigned bits = spec_.bits[tier];
        std::uint8_t next[kTileChannels];
        unpack_symbols(bits, bodies[tier].data() + token * symbol_row_bytes(shape.channels, bits), span, next);
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            index[c] = static_cast<std::uint8_t>(index[c] << bits | next[c]);
        }
    }
}

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

void Nested::encode_tile(const float* tile, CoreShape shape, ChannelSpan span,
                         std::span<const std::span<std::byte>> bodies) const {
    const AnchorLayout layout = this->layout(shape);
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
            quantise_row(tile + std::size_t{t} * kTileChannels, inverse_unit, low, scale, index);
            unsigned below = 8;
            for (std::uint8_t tier = 0; tier < spec_.tiers; ++tier) {
                const unsigned bits = spec_.bits[tier];
                std::uint8_t symbol[kTileChannels];
                below -= bits;
                for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                    symbol[c] = static_cast<std::uint8_t>(index[c] >> below);
                }
                std::byte* rows_of_tier = bodies[tier].data() + (tier == 0 ? layout.symbols : 0);
                pack_symbols(bits, symbol, span, rows_of_tier + t * symbol_row_bytes(shape.channels, bits));
            }
        }
    }
}

/// NestedScale of every channel of a tile.
struct ChunkScale {
    std::int32_t base[kTileChannels];
    std::int32_t low[kTileChannels];
    std::int32_t width[kTileChannels];
};

void dequantise_row(const std::uint8_t* __restrict index, std::int32_t bits, const ChunkScale& s,
                    const float* __restrict unit, float* __restrict row) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        row[c] = nested_value(nested_t(index[c], bits), s.base[c], s.low[c], s.width[c], unit[c]);
    }
}

bool Nested::decode_tile(std::span<const base::ByteView> bodies, CoreShape shape, ChannelSpan span,
                         kv::View dst) const {
    const AnchorLayout layout = this->layout(shape);
    const std::byte* anchor = bodies[0].data();
    const auto bits = static_cast<std::int32_t>(bits_of(bodies.size()));
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
                read_row(bodies, shape, first + t, span, index);
                dequantise_row(index, bits, scale, unit, tile + std::size_t{t} * kTileChannels);
            }
            store_tile(tile, rows, dst, first, span);
        }
    }
    return true;
}

}  // namespace

std::unique_ptr<PageCoder> make_nested(const NestedSpec& spec, const CodecParams& params) {
    LYNX_CHECK(spec.bits[0] + spec.bits[1] + spec.bits[2] == 8 && spec.tiers >= 2 && spec.tiers <= spec.bits.size());
    return std::make_unique<Nested>(spec, params);
}

}  // namespace lynx::codec
