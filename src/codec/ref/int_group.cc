#include "codec/ref/int_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "codec/nibbles.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

static_assert(kTileChannels % kGroupChannels == 0, "a tile holds whole groups of 32");
constexpr std::uint32_t kTileGroups = kTileChannels / kGroupChannels;

/// Nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no fraction bits.
LYNX_ALWAYS_INLINE float round_even(float x) noexcept { return (x + 0x1.8p23F) - 0x1.8p23F; }

class IntGroup final : public PageCoder {
public:
    explicit IntGroup(const IntGroupSpec& spec) noexcept : spec_(spec), q_max_(spec.bits == 4 ? 7 : 127) {}

    [[nodiscard]] CodecId id() const noexcept override { return spec_.id; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return spec_.split ? 2 : 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        return (tier == 0 ? scale_bytes(s) : 0) + s.tokens * row_bytes(s.channels);
    }

    void encode(kv::ConstView core, const PageContext& /*context*/,
                std::span<std::span<std::byte>> bodies) const override {
        const auto tile = make_tile(core.tokens);
        const CoreShape shape{core.tokens, core.channels};
        // A group inside a tile is complete once measured; a wider one needs all tiles measured first.
        const bool narrow = spec_.group_channels == kGroupChannels;
        std::vector<float> largest(scale_count(shape));
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            measure_tile(tile.get(), shape, span, largest);
            if (narrow) {
                encode_tile(tile.get(), shape, span, largest, bodies);
            }
        }
        for (std::uint32_t k = 0; !narrow && k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            encode_tile(tile.get(), shape, span, largest, bodies);
        }
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/,
                                kv::View dst) const override {
        const CoreShape shape{dst.tokens, dst.channels};
        float tile[kTileTokens * kTileChannels];
        for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
            const ChannelSpan span = tile_span(dst.channels, k);
            for (std::uint32_t first = 0; first < dst.tokens; first += kTileTokens) {
                const std::uint32_t rows = std::min(kTileTokens, dst.tokens - first);
                for (std::uint32_t t = 0; t < rows; ++t) {
                    if (!decode_row(bodies, first + t, shape, span, tile + std::size_t{t} * kTileChannels)) {
                        return {ErrorCode::corrupt, "int group: a scale is negative, NaN or infinite"};
                    }
                }
                store_tile(tile, rows, dst, first, span);
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override {
        std::int16_t anchor[kTileChannels];
        std::int16_t level[kTileChannels];
        for (std::uint32_t t = 0; t < s.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
                const ChannelSpan span = tile_span(s.channels, k);
                read_row(bodies, t, s, span, anchor, level);
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    if (spec_.split) {
                        out.q_anc.push_back(static_cast<std::int8_t>(anchor[c]));
                    }
                    if (spec_.split && bodies.size() > 1) {
                        out.q_res.push_back(static_cast<std::int8_t>(level[c] - 16 * anchor[c]));
                    }
                    if (!spec_.split || bodies.size() > 1) {
                        out.level.push_back(level[c]);
                    }
                }
            }
        }
        return {};
    }

private:
    [[nodiscard]] std::size_t row_bytes(std::uint32_t channels) const noexcept {
        return spec_.bits == 8 && !spec_.split ? channels : nibble_row_bytes(channels);
    }
    [[nodiscard]] std::uint32_t groups(std::uint32_t channels) const noexcept {
        return spec_.group_channels == 0 ? 1 : (channels + spec_.group_channels - 1) / spec_.group_channels;
    }
    [[nodiscard]] std::size_t scale_count(CoreShape s) const noexcept {
        return spec_.whole_page ? 1 : std::size_t{s.tokens} * groups(s.channels);
    }
    [[nodiscard]] std::size_t scale_bytes(CoreShape s) const noexcept { return scale_count(s) * sizeof(std::uint16_t); }
    /// Which scale the 32 channels from `channel` on have.
    [[nodiscard]] std::size_t scale_index(std::uint32_t t, std::uint32_t channels,
                                          std::uint32_t channel) const noexcept {
        if (spec_.whole_page) {
            return 0;
        }
        return std::size_t{t} * groups(channels) + (spec_.group_channels == 0 ? 0 : channel / spec_.group_channels);
    }

    void measure_tile(const float* tile, CoreShape s, ChannelSpan span, std::span<float> largest) const;
    void encode_tile(const float* tile, CoreShape s, ChannelSpan span, std::span<const float> largest,
                     std::span<const std::span<std::byte>> bodies) const;
    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s,
                                  ChannelSpan span, float* row) const;
    /// The integers of a row; for int8-split `anchor` is the upper nibble and `level` needs both tiers.
    void read_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s, ChannelSpan span,
                  std::int16_t* anchor, std::int16_t* level) const;

    IntGroupSpec spec_;
    int q_max_;
};

void IntGroup::measure_tile(const float* tile, CoreShape s, ChannelSpan span, std::span<float> largest) const {
    for (std::uint32_t t = 0; t < s.tokens; ++t) {
        const float* row = tile + std::size_t{t} * kTileChannels;
        for (std::uint32_t first = 0; first < span.count; first += kGroupChannels) {
            float& group = largest[scale_index(t, s.channels, span.first + first)];
            float m = group;
            for (std::uint32_t c = first; c < first + kGroupChannels; ++c) {
                m = std::max(m, std::fabs(row[c]));
            }
            group = m;
        }
    }
}

void IntGroup::encode_tile(const float* tile, CoreShape s, ChannelSpan span, std::span<const float> largest,
                           std::span<const std::span<std::byte>> bodies) const {
    const auto q_max = static_cast<float>(q_max_);
    for (std::uint32_t t = 0; t < s.tokens; ++t) {
        const float* row = tile + std::size_t{t} * kTileChannels;
        std::uint8_t q[kTileChannels] = {};
        for (std::uint32_t first = 0; first < span.count; first += kGroupChannels) {
            const std::size_t at = scale_index(t, s.channels, span.first + first);
            const std::uint16_t stored = base::f32_to_f16_up(largest[at] / q_max);
            std::memcpy(bodies[0].data() + at * sizeof stored, &stored, sizeof stored);
            const float scale = base::f16_to_f32(stored);
            for (std::uint32_t c = first; c < first + kGroupChannels; ++c) {
                float y = scale > 0 ? row[c] / scale : 0.0F;
                y = y < q_max ? y : q_max;
                y = y > -q_max ? y : -q_max;
                q[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(round_even(y)));
            }
        }
        std::byte* symbols = bodies[0].data() + scale_bytes(s) + t * row_bytes(s.channels);
        if (spec_.split) {
            pack_nibbles(q, span, bodies[1].data() + t * row_bytes(s.channels));
            for (std::uint8_t& v : q) {
                v = static_cast<std::uint8_t>(v >> 4U);
            }
            pack_nibbles(q, span, symbols);
        } else if (spec_.bits == 8) {
            std::memcpy(symbols + span.first, q, span.count);
        } else {
            pack_nibbles(q, span, symbols);
        }
    }
}

void IntGroup::read_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s, ChannelSpan span,
                        std::int16_t* __restrict anchor, std::int16_t* __restrict level) const {
    const std::byte* symbols = bodies[0].data() + scale_bytes(s) + t * row_bytes(s.channels);
    std::uint8_t q[kTileChannels] = {};
    if (spec_.bits == 8 && !spec_.split) {
        std::memcpy(q, symbols + span.first, span.count);
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            level[c] = static_cast<std::int8_t>(q[c]);
        }
        return;
    }
    unpack_nibbles(symbols, span, q);
    std::uint8_t residual[kTileChannels] = {};
    if (bodies.size() > 1) {
        unpack_nibbles(bodies[1].data() + t * row_bytes(s.channels), span, residual);
    }
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        anchor[c] = signed_nibble(q[c]);
        level[c] = !spec_.split ? anchor[c] : static_cast<std::int16_t>(anchor[c] * 16 + residual[c]);
    }
}

bool IntGroup::decode_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s, ChannelSpan span,
                          float* __restrict row) const {
    std::int16_t anchor[kTileChannels];
    std::int16_t level[kTileChannels];
    read_row(bodies, t, s, span, anchor, level);
    // The upper nibble alone stands for 16a .. 16a + 15: its middle, doubled to stay an integer, is 32a + 15.
    const bool middle = spec_.split && bodies.size() == 1;
    for (std::uint32_t g = 0; g < kTileGroups; ++g) {
        std::uint16_t scale = 0;
        if (g * kGroupChannels < span.count) {
            const std::size_t at = scale_index(t, s.channels, span.first + g * kGroupChannels);
            std::memcpy(&scale, bodies[0].data() + at * sizeof scale, sizeof scale);
        }
        if (scale >= 0x7C00U) {
            return false;
        }
        const float half_scale = 0.5F * base::f16_to_f32(scale);
        for (std::uint32_t c = g * kGroupChannels; c < (g + 1) * kGroupChannels; ++c) {
            const std::int32_t doubled = middle ? 32 * anchor[c] + 15 : 2 * level[c];
            row[c] = static_cast<float>(doubled) * half_scale;
        }
    }
    return true;
}

}  // namespace

std::unique_ptr<PageCoder> make_int_group(const IntGroupSpec& spec) {
    LYNX_CHECK((spec.bits == 8 || (spec.bits == 4 && !spec.split)) && spec.group_channels % kGroupChannels == 0 &&
               (!spec.whole_page || spec.group_channels == 0));
    return std::make_unique<IntGroup>(spec);
}

}  // namespace lynx::codec
