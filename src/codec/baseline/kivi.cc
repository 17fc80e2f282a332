#include "codec/baseline/kivi.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "codec/symbol_rows.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kGroup = 32;
constexpr std::uint16_t kResidualTokens = 128;

/// Groups of a core: [rows][columns] of them, `token_step` tokens times `channel_step` channels each.
struct Groups {
    Groups(CoreShape s, kv::Kind kind) noexcept
        : token_step(kind == kv::Kind::key ? kGroup : 1),
          channel_step(kind == kv::Kind::key ? 1 : kGroup),
          rows((s.tokens + token_step - 1) / token_step),
          columns((s.channels + channel_step - 1) / channel_step) {}
    std::uint32_t token_step;
    std::uint32_t channel_step;
    std::size_t rows;
    std::size_t columns;

    [[nodiscard]] std::size_t count() const noexcept { return rows * columns; }
    [[nodiscard]] std::size_t of(std::uint32_t token, std::uint32_t channel) const noexcept {
        return token / token_step * columns + channel / channel_step;
    }
};

struct Extremes {
    float min = 0;
    float max = 0;
    bool seen = false;
};

class Kivi final : public PageCoder {
public:
    Kivi(CodecId id, unsigned bits) noexcept : id_(id), bits_(bits), q_max_((1U << bits) - 1) {}

    [[nodiscard]] CodecId id() const noexcept override { return id_; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 1; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return true; }
    [[nodiscard]] bool carries_context() const noexcept override { return true; }
    [[nodiscard]] bool fixed_size() const noexcept override { return false; }  // it depends on the kind
    [[nodiscard]] ExactTokens exact_tokens(const CodecParams& /*params*/,
                                           const PageContext& context) const noexcept override {
        const bool key = context.kind == kv::Kind::key;
        return {0, static_cast<std::uint16_t>(key ? context.sequence_tokens % kResidualTokens : kResidualTokens)};
    }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return std::max(body_bytes(s, kv::Kind::key), body_bytes(s, kv::Kind::value));
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        const CoreShape shape{core.tokens, core.channels};
        const Groups groups(shape, context.kind);
        bodies[0] = bodies[0].first(body_bytes(shape, context.kind));
        const auto tile = make_tile(core.tokens);
        std::vector<Extremes> extremes(groups.count());
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            for (std::uint32_t t = 0; t < core.tokens; ++t) {
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    const float x = tile[std::size_t{t} * kTileChannels + c];
                    Extremes& e = extremes[groups.of(t, span.first + c)];
                    e.min = e.seen ? std::min(e.min, x) : x;
                    e.max = e.seen ? std::max(e.max, x) : x;
                    e.seen = true;
                }
            }
        }
        put_metadata(extremes, bodies[0].data());
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            for (std::uint32_t t = 0; t < core.tokens; ++t) {
                std::uint8_t q[kTileChannels] = {};
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    const Step s = step_of(bodies[0].data(), groups, groups.of(t, span.first + c));
                    const auto x = static_cast<double>(tile[std::size_t{t} * kTileChannels + c]);
                    const double y = s.step > 0 ? (x - static_cast<double>(s.zero)) / static_cast<double>(s.step) : 0.0;
                    q[c] = static_cast<std::uint8_t>(std::clamp(y, 0.0, static_cast<double>(q_max_)) + 0.5);
                }
                pack_symbols(bits_, q, span, bodies[0].data() + row_offset(groups, shape, t));
            }
        }
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override {
        const CoreShape shape{dst.tokens, dst.channels};
        const Groups groups(shape, context.kind);
        if (bodies[0].size() != body_bytes(shape, context.kind)) {
            return {ErrorCode::corrupt, "kivi: body bytes: expected " +
                                            std::to_string(body_bytes(shape, context.kind)) + ", actual " +
                                            std::to_string(bodies[0].size())};
        }
        const std::byte* body = bodies[0].data();
        float tile[kTileTokens * kTileChannels] = {};
        bool valid = true;
        for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
            const ChannelSpan span = tile_span(dst.channels, k);
            for (std::uint32_t first = 0; first < dst.tokens; first += kTileTokens) {
                const std::uint32_t rows = std::min(kTileTokens, dst.tokens - first);
                for (std::uint32_t t = 0; t < rows; ++t) {
                    std::uint8_t q[kTileChannels];
                    unpack_symbols(bits_, body + row_offset(groups, shape, first + t), span, q);
                    for (std::uint32_t c = 0; c < span.count; ++c) {
                        const Step s = step_of(body, groups, groups.of(first + t, span.first + c));
                        valid = valid && s.valid;
                        tile[std::size_t{t} * kTileChannels + c] = s.zero + static_cast<float>(q[c]) * s.step;
                    }
                }
                if (!valid) {
                    return {ErrorCode::corrupt, "kivi: a minimum or a step is negative, NaN or infinite"};
                }
                store_tile(tile, rows, dst, first, span);
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> /*bodies*/, CoreShape /*shape*/,
                                 PageSymbols& /*out*/) const override {
        return {};
    }

private:
    struct Step {
        float zero = 0;
        float step = 0;
        bool valid = false;
    };

    [[nodiscard]] std::size_t body_bytes(CoreShape s, kv::Kind kind) const noexcept {
        return Groups(s, kind).count() * 4 + s.tokens * symbol_row_bytes(s.channels, bits_);
    }
    [[nodiscard]] std::size_t row_offset(const Groups& groups, CoreShape s, std::uint32_t token) const noexcept {
        return groups.count() * 4 + token * symbol_row_bytes(s.channels, bits_);
    }

    /// f16 minima [count], then f16 steps [count].
    void put_metadata(std::span<const Extremes> extremes, std::byte* body) const noexcept {
        for (std::size_t i = 0; i < extremes.size(); ++i) {
            const std::uint16_t zero = base::f32_to_f16_down(extremes[i].min);
            const double range = static_cast<double>(extremes[i].max) - static_cast<double>(base::f16_to_f32(zero));
            const double exact = std::clamp(range / q_max_, 0.0, 65504.0);
            auto step = static_cast<float>(exact);
            step = static_cast<double>(step) < exact ? std::nextafter(step, base::kF16Max) : step;
            const std::uint16_t stored = base::f32_to_f16_up(step);
            std::memcpy(body + i * 2, &zero, sizeof zero);
            std::memcpy(body + (extremes.size() + i) * 2, &stored, sizeof stored);
        }
    }
    [[nodiscard]] static Step step_of(const std::byte* body, const Groups& groups, std::size_t i) noexcept {
        std::uint16_t zero = 0;
        std::uint16_t step = 0;
        std::memcpy(&zero, body + i * 2, sizeof zero);
        std::memcpy(&step, body + (groups.count() + i) * 2, sizeof step);
        return {base::f16_to_f32(zero), base::f16_to_f32(step), (zero & 0x7C00U) != 0x7C00U && step < 0x7C00U};
    }

    CodecId id_;
    unsigned bits_;
    unsigned q_max_;
};

}  // namespace

std::unique_ptr<PageCoder> make_kivi(CodecId id, unsigned bits) {
    LYNX_CHECK(bits == 2 || bits == 4);
    return std::make_unique<Kivi>(id, bits);
}

}  // namespace lynx::codec
