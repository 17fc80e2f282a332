#include "codec/ref/alpha_meta.h"

#include <algorithm>

namespace lynx::codec {
namespace {

void chunk_columns(const float* tile, std::uint32_t rows, float* __restrict min, float* __restrict max,
                   double* __restrict sum) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        min[c] = max[c] = tile[c];
        sum[c] = tile[c];
    }
    for (std::uint32_t t = 1; t < rows; ++t) {
        const float* row = tile + std::size_t{t} * kTileChannels;
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            min[c] = row[c] < min[c] ? row[c] : min[c];
            max[c] = row[c] > max[c] ? row[c] : max[c];
            sum[c] += static_cast<double>(row[c]);
        }
    }
}

}  // namespace

void AlphaMeta::encode(const float* tile, CoreShape s, ChannelSpan span, std::byte* meta,
                       std::span<AlphaTileNormaliser> normaliser) const noexcept {
    const AlphaMetaLayout l = layout(s);
    float min[kTileChannels];
    float max[kTileChannels];
    double sum[kTileChannels];
    AlphaGamma gamma[kTileChannels];
    chunk_columns(tile, s.tokens, min, max, sum);
    for (std::uint32_t c = 0; c < span.count; ++c) {
        gamma[c] = has_gamma_ ? put_alpha_gamma(format_, l, meta, span.first + c, min[c], max[c]) : AlphaGamma{0, 1};
    }
    for (std::uint32_t k = 0; k < chunks(s); ++k) {
        const std::uint32_t first = k * chunk_tokens_;
        const std::uint32_t rows = std::min(chunk_tokens_, s.tokens - first);
        chunk_columns(tile + std::size_t{first} * kTileChannels, rows, min, max, sum);
        for (std::uint32_t c = 0; c < span.count; ++c) {
            const std::size_t at = std::size_t{k} * s.channels + span.first + c;
            const AlphaNormaliser n = put_alpha_chunk(format_, l, meta, at, gamma[c], {min[c], max[c], sum[c], rows});
            normaliser[k].center[c] = n.center;
            normaliser[k].inverse_spread[c] = n.inverse_spread;
        }
    }
}

bool AlphaMeta::decode(const std::byte* meta, CoreShape s, ChannelSpan span, std::uint32_t k,
                       AlphaTileMeta& out) const noexcept {
    const AlphaMetaLayout l = layout(s);
    bool valid = true;
    for (std::uint32_t c = 0; c < span.count; ++c) {
        const std::size_t channel = span.first + c;
        AlphaElementMeta m{.gamma_min = 0, .gamma_scale = 1};
        if (has_gamma_) {
            get_alpha_gamma(format_, l, meta, channel, m);
        }
        get_alpha_chunk(format_, l, meta, std::size_t{k} * s.channels + channel, m);
        out.gamma_min[c] = m.gamma_min;
        out.gamma_scale[c] = m.gamma_scale;
        out.mu[c] = m.mu;
        out.sigma[c] = m.sigma;
        valid = valid && alpha_meta_valid(m);
    }
    return valid;
}

}  // namespace lynx::codec
