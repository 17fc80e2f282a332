// Page and chunk metadata of Algorithm 1 in its three stored forms (FORMAT, "Alpha metadata"): gamma_min and gamma_scale per
// page and channel, mu and sigma per chunk and channel, as float32, float16, or 8 bits with float16 gammas.
// Without page normalisation there are no gammas (they are 0 and 1), and 8 bits, which need them, become float16.
#pragma once

#include <span>

#include "codec/coder.h"
#include "codec/math/alpha_math.h"
#include "codec/tile.h"

namespace lynx::codec {

/// AlphaElementMeta of every channel of one tile's chunk.
struct AlphaTileMeta {
    float gamma_min[kTileChannels] = {};
    float gamma_scale[kTileChannels] = {};
    float mu[kTileChannels] = {};
    float sigma[kTileChannels] = {};
};

/// AlphaNormaliser of every channel of one tile's chunk.
struct AlphaTileNormaliser {
    double center[kTileChannels] = {};
    double inverse_spread[kTileChannels] = {};
};

class AlphaMeta {
public:
    AlphaMeta(MetaFormat format, std::uint32_t chunk_tokens, bool has_gamma) noexcept
        : format_(!has_gamma && format == MetaFormat::q8 ? MetaFormat::f16 : format),
          chunk_tokens_(chunk_tokens),
          has_gamma_(has_gamma) {}

    [[nodiscard]] std::uint32_t chunks(CoreShape s) const noexcept { return chunk_count(s.tokens, chunk_tokens_); }
    [[nodiscard]] std::uint32_t chunk_tokens() const noexcept { return chunk_tokens_; }
    [[nodiscard]] std::size_t bytes(CoreShape s) const noexcept { return layout(s).end; }

    /// Computes and stores the metadata of a whole tile [tokens][kTileChannels]; `normaliser[k]` is chunk k's.
    void encode(const float* tile, CoreShape s, ChannelSpan span, std::byte* meta,
                std::span<AlphaTileNormaliser> normaliser) const noexcept;

    /// Reads chunk `k` of a tile. False when a stored number is NaN, infinite or out of its range.
    [[nodiscard]] bool decode(const std::byte* meta, CoreShape s, ChannelSpan span, std::uint32_t k,
                              AlphaTileMeta& out) const noexcept;

private:
    [[nodiscard]] AlphaMetaLayout layout(CoreShape s) const noexcept {
        AlphaMetaLayout l = alpha_meta_layout(format_, chunks(s), s.channels);
        if (!has_gamma_) {
            l.sigma -= l.mu;
            l.end -= l.mu;
            l.mu = 0;
        }
        return l;
    }

    MetaFormat format_;
    std::uint32_t chunk_tokens_;
    bool has_gamma_;
};

}  // namespace lynx::codec
