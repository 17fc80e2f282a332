#include "codec/ref/nested44.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/nibbles.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

constexpr float kCellsPerRangeUnit = 1.0F / 64.0F;  // one chunk cell is 4S/256 = S/64 units
constexpr std::int32_t kFullHalfCell = 1;           // t = 2I + 1 for an 8-bit index ...
constexpr std::int32_t kAnchorHalfCell = 16;        // ... and 32A + 16 for its upper 4 bits

/// 2^e as a float. Precondition: -126 <= e <= 127.
float power_of_two(std::int32_t e) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23U); }

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

/// Where a chunk lies inside its channel's range: cells [lo, hi] of 256.
struct ChunkCells {
    std::uint8_t lo = 0;
    std::uint8_t hi = 0;
};

/// The fewest cells that cover [min, max] (in units of 2^e). Every edge is exact in float32 (19 significant bits), so the
/// comparisons decide exactly and the estimate may be off by one either way.
ChunkCells chunk_cells(const NestedChannel& c, float min, float max) noexcept {
    if (c.range == 0) {
        return {};
    }
    const float base = static_cast<float>(c.base);
    const float cell = static_cast<float>(c.range) * kCellsPerRangeUnit;
    const auto edge = [&](std::int32_t i) { return base + static_cast<float>(i) * cell; };
    const auto estimate = [&](float x) { return std::clamp(static_cast<std::int32_t>((x - base) / cell), 0, 255); };
    std::int32_t lo = estimate(min);
    lo -= lo > 0 && edge(lo) > min ? 1 : 0;
    std::int32_t hi = estimate(max);
    hi += hi < 255 && edge(hi + 1) < max ? 1 : 0;
    hi -= hi > lo && edge(hi) >= max ? 1 : 0;
    return {static_cast<std::uint8_t>(lo), static_cast<std::uint8_t>(std::max(lo, hi))};
}

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

/// The 8-bit indices of one row: floor((x / unit - low) * scale), limited to 0..255.
void quantise_row(const float* __restrict row, const float* __restrict inverse_unit, const float* __restrict low,
                  const float* __restrict scale, std::uint8_t* __restrict index) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        float y = (row[c] * inverse_unit[c] - low[c]) * scale[c];
        y = y > 0.0F ? y : 0.0F;
        y = y < 255.0F ? y : 255.0F;
        index[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(y));
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
            const ChunkCells cells = chunk_cells(channel[c], min[c] * inverse_unit[c], max[c] * inverse_unit[c]);
            const std::int32_t width = (cells.hi - cells.lo + 1) * channel[c].range;
            low[c] = static_cast<float>(channel[c].base) +
                     static_cast<float>(cells.lo * channel[c].range) * kCellsPerRangeUnit;
            scale[c] = width > 0 ? 256.0F / kCellsPerRangeUnit / static_cast<float>(width) : 0.0F;
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

/// Integer constants of one chunk of a tile: fixed = base + ((low + width * t) >> 5).
struct ChunkScale {
    std::int32_t base[kTileChannels];
    std::int32_t low[kTileChannels];
    std::int32_t width[kTileChannels];
};

void dequantise_row(const std::uint8_t* __restrict index, std::int32_t step, std::int32_t half, const ChunkScale& s,
                    const float* __restrict unit, float* __restrict row) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        const std::int32_t t = step * index[c] + half;
        const std::int32_t fixed = s.base[c] + ((s.low[c] + s.width[c] * t) >> 5);
        row[c] = static_cast<float>(fixed) * unit[c];
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
    std::int32_t range[kTileChannels] = {};
    for (std::uint32_t c = 0; c < span.count; ++c) {
        std::uint32_t word = 0;
        std::memcpy(&word, anchor + std::size_t{span.first + c} * 4, sizeof word);
        const NestedChannel channel = unpack_nested_channel(word);
        if (channel.exponent < kNestedExponentMin || channel.exponent > kNestedExponentMax) {
            return false;
        }
        unit[c] = power_of_two(channel.exponent - 10);
        scale.base[c] = channel.base * 1024;
        range[c] = channel.range;
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
            scale.low[c] = range[c] * 512 * lo[c];
            scale.width[c] = range[c] * (hi[c] - lo[c] + 1);
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
                    dequantise_row(index, 2, kFullHalfCell, scale, unit, row);
                } else {
                    dequantise_row(index, 32, kAnchorHalfCell, scale, unit, row);
                }
            }
            store_tile(tile, rows, dst, first, span);
        }
    }
    return true;
}

}  // namespace

NestedChannel nested_channel(float min, float max) noexcept {
    constexpr float kMantissaMax = 4094.0F;  // 2047 * 2: any float16 lies on the grid, and 4S of S = 2047 still covers
    const float magnitude = std::max(std::fabs(min), std::fabs(max));
    NestedChannel c;
    c.exponent = kNestedExponentMin;
    if (magnitude > 0.0F) {
        const auto exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(magnitude) >> 23U) - 127 - 11;
        c.exponent = std::max(exponent, kNestedExponentMin);
        c.exponent += magnitude * power_of_two(-c.exponent) > kMantissaMax ? 1 : 0;
    }
    const float scaled_min = min * power_of_two(-c.exponent);
    const float scaled_max = max * power_of_two(-c.exponent);
    c.base = static_cast<std::int32_t>(std::floor(scaled_min));
    // The difference is rounded once; nudging the quotient up by the comparison keeps the cover exact.
    c.range = static_cast<std::int32_t>(std::ceil((scaled_max - static_cast<float>(c.base)) * 0.25F));
    c.range += static_cast<float>(c.base + 4 * c.range) < scaled_max ? 1 : 0;
    return c;
}

std::uint32_t pack_nested_channel(const NestedChannel& c) noexcept {
    return (static_cast<std::uint32_t>(c.base) & 0x1FFFU) | static_cast<std::uint32_t>(c.range) << 13U |
           static_cast<std::uint32_t>(c.exponent) << 24U;
}

NestedChannel unpack_nested_channel(std::uint32_t word) noexcept {
    NestedChannel c;
    c.base = static_cast<std::int32_t>(word << 19U) >> 19;
    c.range = static_cast<std::int32_t>((word >> 13U) & 0x7FFU);
    c.exponent = static_cast<std::int32_t>(word) >> 24;
    return c;
}

std::unique_ptr<PageCoder> make_nested44(const CodecParams& params) { return std::make_unique<Nested44>(params); }

}  // namespace lynx::codec
