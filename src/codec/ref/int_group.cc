#include "codec/ref/int_group.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "codec/nibbles.h"
#include "codec/row_coder.h"

namespace lynx::codec {
namespace {

static_assert(kTileChannels % kGroupChannels == 0, "a tile holds whole groups of 32");
constexpr std::uint32_t kTileGroups = kTileChannels / kGroupChannels;

/// Nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no fraction bits.
LYNX_ALWAYS_INLINE float round_even(float x) noexcept { return (x + 0x1.8p23F) - 0x1.8p23F; }

class IntGroup final : public RowCoder {
public:
    explicit IntGroup(const IntGroupSpec& spec) noexcept : spec_(spec), q_max_(spec.bits == 4 ? 7.0F : 127.0F) {}

    [[nodiscard]] CodecId id() const noexcept override { return spec_.id; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return spec_.split ? 2 : 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        return (tier == 0 ? scale_bytes(s) : 0) + s.tokens * row_bytes(s.channels);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        if (!narrow()) {
            put_wide_scales(core, bodies[0].data());
        }
        RowCoder::encode(core, context, bodies);
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override {
        std::int16_t anchor[kTileChannels];
        std::int16_t level[kTileChannels];
        for (std::uint32_t t = 0; t < s.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(s.channels); ++k) {
                const ChannelSpan span = tile_span(s.channels, k);
                read_row(bodies, {s, t, span}, anchor, level);
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

protected:
    void encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const override;
    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, const Place& at, float* row) const override;

private:
    /// A group inside a tile is measured with its row; a wider one needs all tiles measured first.
    [[nodiscard]] bool narrow() const noexcept { return spec_.group_channels == kGroupChannels; }
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
    [[nodiscard]] std::size_t scale_index(const Place& at, std::uint32_t channel) const noexcept {
        if (spec_.whole_page) {
            return 0;
        }
        return std::size_t{at.token} * groups(at.shape.channels) +
               (spec_.group_channels == 0 ? 0 : channel / spec_.group_channels);
    }
    void put_wide_scales(kv::ConstView core, std::byte* scales) const;
    /// The integers of a row; for int8-split `anchor` is the upper nibble and `level` needs both tiers.
    void read_row(std::span<const base::ByteView> bodies, const Place& at, std::int16_t* anchor,
                  std::int16_t* level) const;

    IntGroupSpec spec_;
    float q_max_;
};

float largest_magnitude(const float* x) noexcept {
    float m = 0;
    for (std::uint32_t c = 0; c < kGroupChannels; ++c) {
        m = std::max(m, std::fabs(x[c]));
    }
    return m;
}

void IntGroup::put_wide_scales(kv::ConstView core, std::byte* scales) const {
    const CoreShape shape{core.tokens, core.channels};
    const auto tile = make_tile(core.tokens);
    std::vector<float> largest(scale_count(shape));
    for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
        const ChannelSpan span = tile_span(core.channels, k);
        load_tile(core, span, tile.get());
        for (std::uint32_t t = 0; t < core.tokens; ++t) {
            for (std::uint32_t c = 0; c < span.count; c += kGroupChannels) {
                float& group = largest[scale_index({shape, t, span}, span.first + c)];
                group = std::max(group, largest_magnitude(tile.get() + std::size_t{t} * kTileChannels + c));
            }
        }
    }
    for (std::size_t i = 0; i < largest.size(); ++i) {
        const std::uint16_t scale = base::f32_to_f16_up(largest[i] / q_max_);
        std::memcpy(scales + i * sizeof scale, &scale, sizeof scale);
    }
}

void IntGroup::encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const {
    const ChannelSpan span = at.span;
    std::uint8_t q[kTileChannels] = {};
    for (std::uint32_t first = 0; first < span.count; first += kGroupChannels) {
        std::byte* place = bodies[0].data() + scale_index(at, span.first + first) * sizeof(std::uint16_t);
        std::uint16_t stored = 0;
        if (narrow()) {
            stored = base::f32_to_f16_up(largest_magnitude(row + first) / q_max_);
            std::memcpy(place, &stored, sizeof stored);
        } else {
            std::memcpy(&stored, place, sizeof stored);
        }
        const float scale = base::f16_to_f32(stored);
        for (std::uint32_t c = first; c < first + kGroupChannels; ++c) {
            float y = scale > 0 ? row[c] / scale : 0.0F;
            y = y < q_max_ ? y : q_max_;
            y = y > -q_max_ ? y : -q_max_;
            q[c] = static_cast<std::uint8_t>(static_cast<std::int32_t>(round_even(y)));
        }
    }
    const std::size_t offset = at.token * row_bytes(at.shape.channels);
    std::byte* symbols = bodies[0].data() + scale_bytes(at.shape) + offset;
    if (spec_.split) {
        pack_nibbles(q, span, bodies[1].data() + offset);
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

void IntGroup::read_row(std::span<const base::ByteView> bodies, const Place& at, std::int16_t* __restrict anchor,
                        std::int16_t* __restrict level) const {
    const ChannelSpan span = at.span;
    const std::size_t offset = at.token * row_bytes(at.shape.channels);
    const std::byte* symbols = bodies[0].data() + scale_bytes(at.shape) + offset;
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
        unpack_nibbles(bodies[1].data() + offset, span, residual);
    }
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        anchor[c] = signed_nibble(q[c]);
        level[c] = !spec_.split ? anchor[c] : static_cast<std::int16_t>(anchor[c] * 16 + residual[c]);
    }
}

bool IntGroup::decode_row(std::span<const base::ByteView> bodies, const Place& at, float* __restrict row) const {
    std::int16_t anchor[kTileChannels];
    std::int16_t level[kTileChannels];
    read_row(bodies, at, anchor, level);
    // The upper nibble alone stands for 16a .. 16a + 15: its middle, doubled to stay an integer, is 32a + 15.
    const bool middle = spec_.split && bodies.size() == 1;
    for (std::uint32_t g = 0; g < kTileGroups; ++g) {
        std::uint16_t scale = 0;
        if (g * kGroupChannels < at.span.count) {
            const std::size_t index = scale_index(at, at.span.first + g * kGroupChannels);
            std::memcpy(&scale, bodies[0].data() + index * sizeof scale, sizeof scale);
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
