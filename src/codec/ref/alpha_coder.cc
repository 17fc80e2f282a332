#include "codec/ref/alpha_coder.h"

#include <algorithm>
#include <vector>

#include "codec/nibbles.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kNoResidual = 1;

std::size_t padded(std::uint32_t channels) noexcept { return std::size_t{tile_count(channels)} * kTileChannels; }

}  // namespace

/// Up to kTileTokens tokens of unpacked symbols, rows padded to whole tiles with the symbol of level 0.
struct AlphaCoder::Rows {
    explicit Rows(CoreShape s) : stride(padded(s.channels)), digit(kTileTokens * stride), pair(kTileTokens * stride) {}
    std::size_t stride;
    std::uint32_t count = 0;
    std::vector<std::uint8_t> digit;
    std::vector<std::uint16_t> pair;
};

AlphaCoder::AlphaCoder(const CodecParams& params, int levels) noexcept
    : law_(params.alpha, levels),
      meta_(params.meta, params.chunk_tokens),
      magnitudes_(static_cast<std::uint32_t>((levels + 7) >> 4) + 1) {
    for (std::uint32_t digit = 0; digit < 2 * magnitudes_; ++digit) {
        for (std::uint32_t nibble = 0; nibble < 16; ++nibble) {
            const AlphaSymbols s{static_cast<int>(digit) + q_min(), signed_nibble(static_cast<std::uint8_t>(nibble))};
            const int level = join_level(s);
            const std::size_t i = std::size_t{digit} * 16 + nibble;
            pair_bad_[i] = level < 0 || level > levels ? 1 : 0;
            const float a = pair_bad_[i] != 0 ? 0.0F : law_.magnitude(level);
            pair_value_[i] = s.q_anc < 0 ? -a : a;
        }
    }
}

std::size_t AlphaCoder::body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept {
    return tier == 0 ? table_bytes() + meta_.bytes(s) + s.tokens * anchor_row_bytes(s.channels)
                     : s.tokens * nibble_row_bytes(s.channels);
}

float AlphaCoder::anchor_magnitude(const std::byte* /*table*/, std::uint32_t v) const noexcept {
    return law_.magnitude(static_cast<int>(16 * v));
}

void AlphaCoder::encode(kv::ConstView core, const PageContext& /*context*/,
                        std::span<std::span<std::byte>> bodies) const {
    const CoreShape shape{core.tokens, core.channels};
    const auto tile = make_tile(core.tokens);
    std::byte* meta = bodies[0].data() + table_bytes();
    std::vector<AlphaTileNormaliser> normaliser(meta_.chunks(shape));
    std::vector<std::uint8_t> digits(std::size_t{core.tokens} * core.channels);
    AnchorBins bins;
    for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
        const ChannelSpan span = tile_span(core.channels, k);
        load_tile(core, span, tile.get());
        meta_.encode(tile.get(), shape, span, meta, normaliser);
        for (std::uint32_t t = 0; t < core.tokens; ++t) {
            const AlphaTileNormaliser& n = normaliser[t / meta_.chunk_tokens()];
            const float* row = tile.get() + std::size_t{t} * kTileChannels;
            std::uint8_t* digit = digits.data() + std::size_t{t} * core.channels + span.first;
            std::uint8_t residual[kTileChannels] = {};
            double x[kTileChannels];
            float a[kTileChannels];
            std::uint8_t level[kTileChannels];
            for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                x[c] = alpha_normalised(row[c], n.center[c], n.inverse_spread[c]);
                a[c] = alpha_magnitude(x[c]);
            }
            law_.quantise(a, kTileChannels, level);
            for (std::uint32_t c = 0; c < span.count; ++c) {
                const AlphaSymbols s = split_level(level[c], x[c] < 0);
                digit[c] = static_cast<std::uint8_t>(s.q_anc - q_min());
                residual[c] = static_cast<std::uint8_t>(s.q_res & 15);
                const std::uint32_t v = (level[c] + 7U) >> 4U;
                bins.sum[v] += alpha_fixed(a[c]);
                bins.count[v] += 1;
            }
            pack_nibbles(residual, span, bodies[1].data() + t * nibble_row_bytes(core.channels));
        }
    }
    write_table(bins, bodies[0].data());
    std::byte* rows = meta + meta_.bytes(shape);
    for (std::uint32_t t = 0; t < core.tokens; ++t) {
        pack_anchor_row(digits.data() + std::size_t{t} * core.channels, core.channels,
                        rows + t * anchor_row_bytes(core.channels));
    }
}

Status AlphaCoder::read_rows(std::span<const base::ByteView> bodies, CoreShape s, std::uint32_t first,
                             Rows& rows) const {
    const std::byte* anchor = bodies[0].data() + table_bytes() + meta_.bytes(s);
    const bool full = bodies.size() > kNoResidual;
    std::uint8_t bad = 0;
    for (std::uint32_t t = 0; t < rows.count; ++t) {
        std::uint8_t* digit = rows.digit.data() + t * rows.stride;
        std::fill(digit + s.channels, digit + rows.stride, static_cast<std::uint8_t>(magnitudes_));
        if (!unpack_anchor_row(anchor + (first + t) * anchor_row_bytes(s.channels), s.channels, digit)) {
            return {ErrorCode::corrupt,
                    "anchor symbols: a word of token " + std::to_string(first + t) + " of the core is out of range"};
        }
        if (!full) {
            continue;
        }
        std::uint16_t* pair = rows.pair.data() + t * rows.stride;
        for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
            std::uint8_t residual[kTileChannels];
            const ChannelSpan span = tile_span(s.channels, k);
            unpack_nibbles(bodies[1].data() + (first + t) * nibble_row_bytes(s.channels), span, residual);
            for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                pair[span.first + c] = static_cast<std::uint16_t>(digit[span.first + c] * 16 + residual[c]);
                bad |= pair_bad_[pair[span.first + c]];
            }
        }
    }
    if (bad != 0) {
        return {ErrorCode::corrupt, "residual symbols: a pair of anchor and residual stands for no level"};
    }
    return {};
}

Status AlphaCoder::decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/, kv::View dst) const {
    const CoreShape shape{dst.tokens, dst.channels};
    const bool full = bodies.size() > kNoResidual;
    std::array<float, kAnchorDigitsMax> anchor_value{};
    for (std::uint32_t v = 0; v < magnitudes_; ++v) {
        const float a = anchor_magnitude(bodies[0].data(), v);
        anchor_value[magnitudes_ + v] = a;
        anchor_value[magnitudes_ - 1 - v] = -a;
    }
    Rows rows(shape);
    float tile[kTileTokens * kTileChannels];
    for (std::uint32_t k = 0; k < meta_.chunks(shape); ++k) {
        const std::uint32_t chunk_end = std::min(shape.tokens, (k + 1) * meta_.chunk_tokens());
        for (std::uint32_t first = k * meta_.chunk_tokens(); first < chunk_end; first += kTileTokens) {
            rows.count = std::min(kTileTokens, chunk_end - first);
            if (Status s = read_rows(bodies, shape, first, rows); !s.ok()) {
                return s;
            }
            for (std::uint32_t j = 0; j < tile_count(shape.channels); ++j) {
                const ChannelSpan span = tile_span(shape.channels, j);
                AlphaTileMeta m;
                if (!meta_.decode(bodies[0].data() + table_bytes(), shape, span, k, m)) {
                    return {ErrorCode::corrupt, "alpha metadata: a number is negative, NaN or infinite"};
                }
                float center[kTileChannels];
                float spread[kTileChannels];
                for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                    center[c] = m.gamma_min[c] + m.gamma_scale[c] * m.mu[c];
                    spread[c] = m.gamma_scale[c] * m.sigma[c];
                }
                for (std::uint32_t t = 0; t < rows.count; ++t) {
                    const std::size_t at = t * rows.stride + span.first;
                    float* row = tile + std::size_t{t} * kTileChannels;
                    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
                        const float a = full ? pair_value_[rows.pair[at + c]] : anchor_value[rows.digit[at + c]];
                        row[c] = center[c] + spread[c] * a;
                    }
                }
                store_tile(tile, rows.count, dst, first, span);
            }
        }
    }
    return {};
}

Status AlphaCoder::symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const {
    const bool full = bodies.size() > kNoResidual;
    Rows rows(s);
    for (std::uint32_t first = 0; first < s.tokens; first += kTileTokens) {
        rows.count = std::min(kTileTokens, s.tokens - first);
        if (Status status = read_rows(bodies, s, first, rows); !status.ok()) {
            return status;
        }
        for (std::uint32_t t = 0; t < rows.count; ++t) {
            for (std::uint32_t c = 0; c < s.channels; ++c) {
                const int q_anc = rows.digit[t * rows.stride + c] + q_min();
                out.q_anc.push_back(static_cast<std::int8_t>(q_anc));
                out.sign.push_back(static_cast<std::int8_t>(q_anc < 0 ? -1 : 1));
                if (full) {
                    const int q_res = signed_nibble(static_cast<std::uint8_t>(rows.pair[t * rows.stride + c] & 15U));
                    out.q_res.push_back(static_cast<std::int8_t>(q_res));
                    out.level.push_back(static_cast<std::int16_t>(join_level({q_anc, q_res})));
                }
            }
        }
    }
    out.mu.resize(std::size_t{meta_.chunks(s)} * s.channels);
    out.sigma.resize(out.mu.size());
    out.gamma_min.resize(s.channels);
    out.gamma_scale.resize(s.channels);
    for (std::uint32_t k = 0; k < meta_.chunks(s); ++k) {
        for (std::uint32_t j = 0; j < tile_count(s.channels); ++j) {
            const ChannelSpan span = tile_span(s.channels, j);
            AlphaTileMeta m;
            if (!meta_.decode(bodies[0].data() + table_bytes(), s, span, k, m)) {
                return {ErrorCode::corrupt, "alpha metadata: a number is negative, NaN or infinite"};
            }
            const std::size_t at = std::size_t{k} * s.channels + span.first;
            std::copy_n(m.gamma_min, span.count, out.gamma_min.data() + span.first);
            std::copy_n(m.gamma_scale, span.count, out.gamma_scale.data() + span.first);
            std::copy_n(m.mu, span.count, out.mu.data() + at);
            std::copy_n(m.sigma, span.count, out.sigma.data() + at);
        }
    }
    return {};
}

}  // namespace lynx::codec
