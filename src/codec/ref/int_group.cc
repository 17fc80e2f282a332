#include "codec/ref/int_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "codec/nibbles.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

static_assert(kTileChannels % kGroupChannels == 0, "a tile holds whole groups");
constexpr std::uint32_t kTileGroups = kTileChannels / kGroupChannels;

constexpr std::uint32_t group_count(std::uint32_t channels) noexcept {
    return (channels + kGroupChannels - 1) / kGroupChannels;
}

/// Nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no fraction bits.
LYNX_ALWAYS_INLINE float round_even(float x) noexcept { return (x + 0x1.8p23F) - 0x1.8p23F; }

class IntGroup final : public PageCoder {
public:
    explicit IntGroup(CodecId id) noexcept : id_(id), q_max_(id == CodecId::int4 ? 7 : 127) {}

    [[nodiscard]] CodecId id() const noexcept override { return id_; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return id_ == CodecId::int8_split ? 2 : 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        return (tier == 0 ? scale_bytes(s) : 0) + s.tokens * row_bytes(s.channels);
    }

    void encode(kv::ConstView core, const PageContext& /*context*/,
                std::span<std::span<std::byte>> bodies) const override {
        const auto tile = make_tile(core.tokens);
        const CoreShape shape{core.tokens, core.channels};
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            for (std::uint32_t t = 0; t < core.tokens; ++t) {
                encode_row(tile.get() + std::size_t{t} * kTileChannels, t, shape, span, bodies);
            }
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
        const bool split = id_ == CodecId::int8_split;
        std::int16_t anchor[kTileChannels];
        std::int16_t level[kTileChannels];
        for (std::uint32_t t = 0; t < s.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
                const ChannelSpan span = tile_span(s.channels, k);
                read_row(bodies, t, s, span, anchor, level);
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    if (split) {
                        out.q_anc.push_back(static_cast<std::int8_t>(anchor[c]));
                    }
                    if (split && bodies.size() > 1) {
                        out.q_res.push_back(static_cast<std::int8_t>(level[c] - 16 * anchor[c]));
                    }
                    if (!split || bodies.size() > 1) {
                        out.level.push_back(level[c]);
                    }
                }
            }
        }
        return {};
    }

private:
    [[nodiscard]] std::size_t row_bytes(std::uint32_t channels) const noexcept {
        return id_ == CodecId::int8 ? channels : nibble_row_bytes(channels);
    }
    [[nodiscard]] static std::size_t scale_bytes(CoreShape s) noexcept {
        return std::size_t{s.tokens} * group_count(s.channels) * 2;
    }

    void encode_row(const float* row, std::uint32_t t, CoreShape s, ChannelSpan span,
                    std::span<const std::span<std::byte>> bodies) const;
    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s,
                                  ChannelSpan span, float* row) const;
    /// The integers of a row; for int8-split `anchor` is the upper nibble and `level` needs both tiers.
    void read_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s, ChannelSpan span,
                  std::int16_t* anchor, std::int16_t* level) const;

    CodecId id_;
    int q_max_;
};

void IntGroup::encode_row(const float* row, std::uint32_t t, CoreShape s, ChannelSpan span,
                          std::span<const std::span<std::byte>> bodies) const {
    std::uint16_t scales[kTileGroups];
    std::uint8_t q[kTileChannels];
    const auto q_max = static_cast<float>(q_max_);
    for (std::uint32_t g = 0; g < kTileGroups; ++g) {
        const float* x = row + g * kGroupChannels;
        float largest = 0;
        for (std::uint32_t c = 0; c < kGroupChannels; ++c) {
            largest = std::max(largest, std::fabs(x[c]));
        }
        scales[g] = base::f32_to_f16_up(largest / q_max);
        const float scale = base::f16_to_f32(scales[g]);
        for (std::uint32_t c = 0; c < kGroupChannels; ++c) {
            float y = scale > 0 ? x[c] / scale : 0.0F;
            y = y < q_max ? y : q_max;
            y = y > -q_max ? y : -q_max;
            q[g * kGroupChannels + c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(round_even(y)));
        }
    }
    std::memcpy(bodies[0].data() + (std::size_t{t} * group_count(s.channels) + span.first / kGroupChannels) * 2, scales,
                group_count(span.count) * 2U);
    std::byte* symbols = bodies[0].data() + scale_bytes(s) + t * row_bytes(s.channels);
    switch (id_) {
        case CodecId::int8: std::memcpy(symbols + span.first, q, span.count); break;
        case CodecId::int4: pack_nibbles(q, span, symbols); break;
        default:
            pack_nibbles(q, span, bodies[1].data() + t * row_bytes(s.channels));
            for (std::uint8_t& v : q) {
                v = static_cast<std::uint8_t>(v >> 4U);
            }
            pack_nibbles(q, span, symbols);
    }
}

void IntGroup::read_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s, ChannelSpan span,
                        std::int16_t* __restrict anchor, std::int16_t* __restrict level) const {
    const std::byte* symbols = bodies[0].data() + scale_bytes(s) + t * row_bytes(s.channels);
    std::uint8_t q[kTileChannels] = {};
    if (id_ == CodecId::int8) {
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
        level[c] = id_ == CodecId::int4 ? anchor[c] : static_cast<std::int16_t>(anchor[c] * 16 + residual[c]);
    }
}

bool IntGroup::decode_row(std::span<const base::ByteView> bodies, std::uint32_t t, CoreShape s, ChannelSpan span,
                          float* __restrict row) const {
    std::uint16_t scales[kTileGroups] = {};
    std::memcpy(scales, bodies[0].data() + (std::size_t{t} * group_count(s.channels) + span.first / kGroupChannels) * 2,
                group_count(span.count) * 2U);
    std::int16_t anchor[kTileChannels];
    std::int16_t level[kTileChannels];
    read_row(bodies, t, s, span, anchor, level);
    // The upper nibble alone stands for 16a .. 16a + 15: its middle, doubled to stay an integer, is 32a + 15.
    const bool middle = id_ == CodecId::int8_split && bodies.size() == 1;
    for (std::uint32_t g = 0; g < kTileGroups; ++g) {
        if (scales[g] >= 0x7C00U) {
            return false;
        }
        const float half_scale = 0.5F * base::f16_to_f32(scales[g]);
        for (std::uint32_t c = g * kGroupChannels; c < (g + 1) * kGroupChannels; ++c) {
            const std::int32_t doubled = middle ? 32 * anchor[c] + 15 : 2 * level[c];
            row[c] = static_cast<float>(doubled) * half_scale;
        }
    }
    return true;
}

}  // namespace

std::unique_ptr<PageCoder> make_int_group(CodecId id) {
    LYNX_CHECK(id == CodecId::int8 || id == CodecId::int4 || id == CodecId::int8_split);
    return std::make_unique<IntGroup>(id);
}

}  // namespace lynx::codec
