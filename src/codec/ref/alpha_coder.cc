#include "codec/ref/alpha_coder.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "codec/symbol_rows.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kNoResidual = 1;
constexpr int kClippedMagnitude = 7;

std::size_t padded(std::uint32_t channels) noexcept { return std::size_t{tile_count(channels)} * kTileChannels; }

/// The symbols of a level and sign. Cuts that merge several levels into one pair are told apart by level_of.
AlphaSymbols cut_level(AlphaCut cut, int residual_bits, int level, bool negative) noexcept {
    switch (cut) {
        case AlphaCut::rounded: return split_level(level, negative, residual_bits);
        case AlphaCut::truncated: {
            const int v = level >> residual_bits;
            return {negative ? -v - 1 : v, level - (v << residual_bits)};
        }
        case AlphaCut::zero_merged: {
            const AlphaSymbols s = split_level(level, false, residual_bits);
            return {negative ? -s.q_anc : s.q_anc, s.q_res};
        }
        case AlphaCut::clipped: {
            const int v = std::min(split_level(level, false, residual_bits).q_anc, kClippedMagnitude);
            return {negative ? -v - 1 : v, std::max((v << residual_bits) - level, -(1 << (residual_bits - 1)))};
        }
        case AlphaCut::twos_complement: {
            const int q = negative ? -level : level;
            return {q >> residual_bits, q - ((q >> residual_bits) << residual_bits)};
        }
    }
    return {};
}

struct SignedLevel {
    int level = 0;  ///< may lie outside 0..levels
    bool negative = false;
};

/// The level that a pair of symbols stands for.
SignedLevel level_of_symbols(AlphaCut cut, int residual_bits, int q_anc, int residual) noexcept {
    const int q_res = signed_symbol(static_cast<unsigned>(residual_bits), static_cast<std::uint8_t>(residual));
    const bool negative = q_anc < 0;
    switch (cut) {
        case AlphaCut::rounded:
        case AlphaCut::clipped: return {join_level({q_anc, q_res}, residual_bits), negative};
        case AlphaCut::truncated: return {((negative ? -q_anc - 1 : q_anc) << residual_bits) + residual, negative};
        case AlphaCut::zero_merged: return {((negative ? -q_anc : q_anc) << residual_bits) - q_res, negative};
        case AlphaCut::twos_complement: {
            const int q = q_anc * (1 << residual_bits) + residual;
            return {negative ? -q : q, negative};
        }
    }
    return {};
}

/// The level, 0..128, whose magnitude an anchor symbol alone stands for.
int anchor_level(AlphaCut cut, int residual_bits, int q_anc) noexcept {
    switch (cut) {
        case AlphaCut::zero_merged: return (q_anc < 0 ? -q_anc : q_anc) << residual_bits;
        case AlphaCut::twos_complement: {
            const int middle = q_anc * (1 << residual_bits) + (1 << (residual_bits - 1));
            return middle < 0 ? -middle : middle;
        }
        default: return (q_anc < 0 ? -q_anc - 1 : q_anc) << residual_bits;
    }
}

}  // namespace

/// Up to kTileTokens tokens of unpacked symbols, rows padded to whole tiles with the pair of level 0.
struct AlphaCoder::Rows {
    explicit Rows(CoreShape s) : stride(padded(s.channels)), digit(kTileTokens * stride), pair(kTileTokens * stride) {}
    std::size_t stride;
    std::uint32_t count = 0;
    std::vector<std::uint8_t> digit;
    std::vector<std::uint16_t> pair;
};

AlphaCoder::AlphaCoder(const AlphaSpec& spec, const CodecParams& params) noexcept
    : spec_(spec),
      law_(spec.alpha > 0 ? static_cast<float>(spec.alpha) : params.alpha, spec.levels, spec.curve),
      meta_(params.meta, spec.chunk_tokens > 0 ? spec.chunk_tokens : params.chunk_tokens, spec.page_gamma) {
    const int r = spec.residual_bits;
    q_min_ = cut_level(spec.cut, r, spec.levels, true).q_anc;
    const int q_max = cut_level(spec.cut, r, spec.levels, false).q_anc;
    digits_ = static_cast<std::uint32_t>(q_max - q_min_ + 1);
    magnitudes_ = static_cast<std::uint32_t>(q_max + 1);
    LYNX_CHECK(digits_ << spec.residual_bits <= kAlphaPairsMax && digits_ <= kAlphaDigitsMax);
    LYNX_CHECK(spec.anchor_bits == 0 || digits_ == 1U << spec.anchor_bits);
    for (int level = 0; level <= spec.levels; ++level) {
        for (const bool negative : {false, true}) {
            const AlphaSymbols s = cut_level(spec.cut, r, level, negative);
            const unsigned residual = static_cast<unsigned>(s.q_res) & ((1U << r) - 1);
            pair_of_[negative ? 1 : 0][static_cast<std::size_t>(level)] =
                static_cast<std::uint16_t>(static_cast<unsigned>(s.q_anc - q_min_) << r | residual);
        }
    }
    for (std::uint32_t pair = 0; pair < digits_ << r; ++pair) {
        const int q_anc = static_cast<int>(pair >> r) + q_min_;
        const SignedLevel s = level_of_symbols(spec.cut, r, q_anc, static_cast<int>(pair & ((1U << r) - 1)));
        const bool bad = s.level < 0 || s.level > spec.levels;
        level_of_[pair] = static_cast<std::int16_t>(bad ? -1 : s.level);
        const float a = bad ? 0.0F : law_.magnitude(s.level);
        pair_value_[pair] = s.negative ? -a : a;
    }
}

std::size_t AlphaCoder::table_bytes() const noexcept {
    return spec_.centroids ? magnitudes_ * sizeof(std::uint16_t) : 0;
}

std::size_t AlphaCoder::anchor_row_bytes(std::uint32_t channels) const noexcept {
    const std::size_t words = (channels + kAlphaDigitsPerWord - 1) / kAlphaDigitsPerWord;
    return spec_.anchor_bits > 0 ? symbol_row_bytes(channels, spec_.anchor_bits) : words * sizeof(std::uint64_t);
}

std::size_t AlphaCoder::body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept {
    return tier == 0 ? table_bytes() + meta_.bytes(s) + s.tokens * anchor_row_bytes(s.channels)
                     : s.tokens * symbol_row_bytes(s.channels, spec_.residual_bits);
}

// A word is the sum of digit[i] * digits^i over 15 consecutive channels, or fewer at the end of the row.
void AlphaCoder::pack_anchor_row(const std::uint8_t* digits, std::uint32_t channels, std::byte* row) const noexcept {
    if (spec_.anchor_bits > 0) {
        // The row holds Q_anc in two's complement, the digit is Q_anc + half the symbols: they differ in the top bit.
        const auto top = static_cast<std::uint8_t>(digits_ / 2);
        for (std::uint32_t k = 0; k < tile_count(channels); ++k) {
            const ChannelSpan span = tile_span(channels, k);
            std::uint8_t symbols[kTileChannels] = {};
            for (std::uint32_t c = 0; c < span.count; ++c) {
                symbols[c] = digits[span.first + c] ^ top;
            }
            pack_symbols(spec_.anchor_bits, symbols, span, row);
        }
        return;
    }
    for (std::uint32_t first = 0; first < channels; first += kAlphaDigitsPerWord, row += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        for (std::uint32_t i = std::min(channels - first, kAlphaDigitsPerWord); i > 0; --i) {
            word = word * digits_ + digits[first + i - 1];
        }
        std::memcpy(row, &word, sizeof word);
    }
}

bool AlphaCoder::unpack_anchor_row(const std::byte* row, std::uint32_t channels, std::uint8_t* digits) const noexcept {
    if (spec_.anchor_bits > 0) {
        const auto top = static_cast<std::uint8_t>(digits_ / 2);
        for (std::uint32_t k = 0; k < tile_count(channels); ++k) {
            const ChannelSpan span = tile_span(channels, k);
            std::uint8_t symbols[kTileChannels];
            unpack_symbols(spec_.anchor_bits, row, span, symbols);
            for (std::uint32_t c = 0; c < span.count; ++c) {
                digits[span.first + c] = symbols[c] ^ top;
            }
        }
        return true;
    }
    std::uint64_t excess = 0;
    const std::uint64_t radix = digits_;
    for (std::uint32_t first = 0; first < channels; first += kAlphaDigitsPerWord, row += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, row, sizeof word);
        const std::uint32_t n = std::min(channels - first, kAlphaDigitsPerWord);
        for (std::uint32_t i = 0; i < n; ++i) {
            digits[first + i] = static_cast<std::uint8_t>(word % radix);
            word /= radix;
        }
        excess |= word;
    }
    return excess == 0;
}

void AlphaCoder::write_table(const AnchorBins& bins, std::byte* table) const noexcept {
    for (std::uint32_t v = 0; v < table_bytes() / sizeof(std::uint16_t); ++v) {
        const std::uint16_t centroid =
            alpha_centroid(bins.sum[v], bins.count[v], law_.magnitude(static_cast<int>(v << spec_.residual_bits)));
        std::memcpy(table + v * sizeof centroid, &centroid, sizeof centroid);
    }
}

std::array<float, kAlphaDigitsMax> AlphaCoder::anchor_values(const std::byte* table) const noexcept {
    std::array<float, kAlphaDigitsMax> value{};
    for (std::uint32_t digit = 0; digit < digits_; ++digit) {
        const int q_anc = static_cast<int>(digit) + q_min_;
        const int level = anchor_level(spec_.cut, spec_.residual_bits, q_anc);
        float a = law_.magnitude(level);
        if (spec_.centroids) {
            std::uint16_t centroid = 0;
            std::memcpy(&centroid, table + static_cast<std::size_t>(level >> spec_.residual_bits) * sizeof centroid,
                        sizeof centroid);
            a = centroid_magnitude(centroid);
        }
        value[digit] = q_anc < 0 ? -a : a;
    }
    return value;
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
                const unsigned pair = pair_of_[x[c] < 0 ? 1 : 0][level[c]];
                digit[c] = static_cast<std::uint8_t>(pair >> spec_.residual_bits);
                residual[c] = static_cast<std::uint8_t>(pair);
                if (spec_.centroids) {
                    const std::uint32_t v =
                        digit[c] < magnitudes_ ? magnitudes_ - 1U - digit[c] : digit[c] - magnitudes_;
                    bins.sum[v] += alpha_fixed(a[c]);
                    bins.count[v] += 1;
                }
            }
            if (!spec_.anchor_only) {
                pack_symbols(spec_.residual_bits, residual, span,
                             bodies[1].data() + t * symbol_row_bytes(core.channels, spec_.residual_bits));
            }
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
    const unsigned r = spec_.residual_bits;
    const std::uint16_t zero = pair_of_[0][0];
    bool valid = true;
    for (std::uint32_t t = 0; t < rows.count; ++t) {
        std::uint8_t* digit = rows.digit.data() + t * rows.stride;
        std::fill(digit + s.channels, digit + rows.stride, static_cast<std::uint8_t>(zero >> r));
        if (!unpack_anchor_row(anchor + (first + t) * anchor_row_bytes(s.channels), s.channels, digit)) {
            return {ErrorCode::corrupt,
                    "anchor symbols: a word of token " + std::to_string(first + t) + " of the core is out of range"};
        }
        if (!full) {
            continue;
        }
        std::uint16_t* pair = rows.pair.data() + t * rows.stride;
        std::fill(pair + s.channels, pair + rows.stride, zero);
        for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
            std::uint8_t residual[kTileChannels];
            const ChannelSpan span = tile_span(s.channels, k);
            unpack_symbols(r, bodies[1].data() + (first + t) * symbol_row_bytes(s.channels, r), span, residual);
            for (std::uint32_t c = span.first; c < span.first + span.count; ++c) {
                pair[c] = static_cast<std::uint16_t>(unsigned{digit[c]} << r | residual[c - span.first]);
                valid = valid && level_of_[pair[c]] >= 0;
            }
        }
    }
    if (!valid) {
        return {ErrorCode::corrupt, "residual symbols: a pair of anchor and residual stands for no level"};
    }
    return {};
}

Status AlphaCoder::decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/, kv::View dst) const {
    const CoreShape shape{dst.tokens, dst.channels};
    const bool full = bodies.size() > kNoResidual;
    const std::array<float, kAlphaDigitsMax> anchor_value = anchor_values(bodies[0].data());
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
                const int q_anc = rows.digit[t * rows.stride + c] + q_min_;
                out.q_anc.push_back(static_cast<std::int8_t>(q_anc));
                out.sign.push_back(static_cast<std::int8_t>(q_anc < 0 ? -1 : 1));
                if (full) {
                    const unsigned pair = rows.pair[t * rows.stride + c];
                    const int level = level_of_[pair];
                    out.q_res.push_back(
                        static_cast<std::int8_t>(cut_level(spec_.cut, spec_.residual_bits, level, q_anc < 0).q_res));
                    out.level.push_back(static_cast<std::int16_t>(level));
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
