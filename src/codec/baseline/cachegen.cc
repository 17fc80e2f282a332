#include "codec/baseline/cachegen.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "codec/baseline/dense_page.h"
#include "codec/baseline/range_coder.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kGroupTokens = 10;
constexpr int kAnchorMax = 127;
constexpr unsigned kAnchorBits = 8;
constexpr int kFineMax = 15;   // 32 bins
constexpr int kCoarseMax = 7;  // 16 bins
constexpr std::byte kPacked{0};
constexpr std::byte kCoded{1};
constexpr std::size_t kFixedBytes = 2;  // mode, largest difference symbol

constexpr bool is_anchor(std::uint32_t token) noexcept { return token % kGroupTokens == 0; }
constexpr unsigned difference_bits(int q_max) noexcept { return q_max == kFineMax ? 5 : 4; }

std::size_t packed_bytes(CoreShape s, int q_max) noexcept {
    const std::size_t anchors = (s.tokens + kGroupTokens - 1) / kGroupTokens;
    const std::size_t per_channel = anchors * kAnchorBits + (s.tokens - anchors) * difference_bits(q_max);
    return (s.channels * per_channel + 7) / 8;
}

/// Symbols one after the other in a little-endian bit string.
class BitString {
public:
    explicit BitString(std::byte* out) noexcept : out_(out) {}
    void put(unsigned bits, std::uint32_t symbol) noexcept {
        for (unsigned i = 0; i < bits; ++i, ++at_) {
            out_[at_ / 8] |= static_cast<std::byte>((symbol >> i & 1U) << at_ % 8);
        }
    }

private:
    std::byte* out_;
    std::size_t at_ = 0;
};

class BitStringReader {
public:
    explicit BitStringReader(const std::byte* in) noexcept : in_(in) {}
    [[nodiscard]] std::uint32_t get(unsigned bits) noexcept {
        std::uint32_t symbol = 0;
        for (unsigned i = 0; i < bits; ++i, ++at_) {
            symbol |= (std::to_integer<std::uint32_t>(in_[at_ / 8]) >> at_ % 8 & 1U) << i;
        }
        return symbol;
    }

private:
    const std::byte* in_;
    std::size_t at_ = 0;
};

class CacheGen final : public PageCoder {
public:
    [[nodiscard]] CodecId id() const noexcept override { return CodecId::cachegen; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 1; }
    [[nodiscard]] bool fixed_size() const noexcept override { return false; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return symbols_offset(s) + packed_bytes(s, kFineMax);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        const CoreShape shape{core.tokens, core.channels};
        const bool first_third = context.layers == 0 || context.layer * 3U < context.layers;
        const int q_max = first_third ? kFineMax : kCoarseMax;
        const std::vector<float> x = load_dense(core);
        std::vector<std::int8_t> q(x.size());
        std::byte* body = bodies[0].data();
        body[1] = static_cast<std::byte>(q_max);
        quantise(x, shape, q_max, q, body + kFixedBytes);

        base::Bytes coded;
        coded.reserve(packed_bytes(shape, q_max));
        RangeEncoder encoder(coded);
        SymbolModel anchors;
        SymbolModel differences;
        each_symbol(shape, [&](std::uint32_t t, std::size_t i) {
            const int max = is_anchor(t) ? kAnchorMax : q_max;
            encoder.put(is_anchor(t) ? anchors : differences, is_anchor(t) ? kAnchorBits : difference_bits(q_max),
                        static_cast<std::uint32_t>(q[i] + max));
        });
        encoder.finish();
        std::byte* symbols = body + symbols_offset(shape);
        std::size_t bytes = packed_bytes(shape, q_max);
        if (coded.size() < bytes) {
            body[0] = kCoded;
            bytes = coded.size();
            std::memcpy(symbols, coded.data(), bytes);
        } else {
            body[0] = kPacked;
            std::memset(symbols, 0, bytes);
            BitString packed(symbols);
            each_symbol(shape, [&](std::uint32_t t, std::size_t i) {
                const int max = is_anchor(t) ? kAnchorMax : q_max;
                packed.put(is_anchor(t) ? kAnchorBits : difference_bits(q_max), static_cast<std::uint32_t>(q[i] + max));
            });
        }
        bodies[0] = bodies[0].first(symbols_offset(shape) + bytes);
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/,
                                kv::View dst) const override {
        const CoreShape shape{dst.tokens, dst.channels};
        std::vector<std::int8_t> q(std::size_t{dst.tokens} * dst.channels);
        if (!read_symbols(bodies[0], shape, q)) {
            return {ErrorCode::corrupt, "cachegen: symbols: mode, length or a symbol's range"};
        }
        const std::byte* scales = bodies[0].data() + kFixedBytes;
        float tile[kTileTokens * kTileChannels] = {};
        for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
            const ChannelSpan span = tile_span(dst.channels, k);
            float anchor[kTileChannels] = {};
            for (std::uint32_t t = 0; t < dst.tokens; ++t) {
                const std::uint16_t stored = scale_at(scales, t);
                if (stored >= 0x7C00U) {
                    return {ErrorCode::corrupt, "cachegen: a scale is negative, NaN or infinite"};
                }
                const float scale = base::f16_to_f32(stored);
                float* row = tile + std::size_t{t % kTileTokens} * kTileChannels;
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    const float value = static_cast<float>(q[std::size_t{t} * dst.channels + span.first + c]) * scale;
                    anchor[c] = is_anchor(t) ? value : anchor[c];
                    row[c] = is_anchor(t) ? value : anchor[c] + value;
                }
                if (t % kTileTokens == kTileTokens - 1 || t + 1 == dst.tokens) {
                    const std::uint32_t first = t / kTileTokens * kTileTokens;
                    store_tile(tile, t + 1 - first, dst, first, span);
                }
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override {
        std::vector<std::int8_t> q(std::size_t{s.tokens} * s.channels);
        if (!read_symbols(bodies[0], s, q)) {
            return {ErrorCode::corrupt, "cachegen: symbols: mode, length or a symbol's range"};
        }
        out.level.assign(q.begin(), q.end());
        return {};
    }

private:
    [[nodiscard]] static std::size_t symbols_offset(CoreShape s) noexcept {
        return kFixedBytes + s.tokens * sizeof(std::uint16_t);
    }
    [[nodiscard]] static std::uint16_t scale_at(const std::byte* scales, std::uint32_t token) noexcept {
        std::uint16_t scale = 0;
        std::memcpy(&scale, scales + token * sizeof scale, sizeof scale);
        return scale;
    }

    /// Calls f(token, index in [tokens][channels]) in the order of the symbols: channel by channel.
    template <class F>
    static void each_symbol(CoreShape s, const F& f) {
        for (std::uint32_t c = 0; c < s.channels; ++c) {
            for (std::uint32_t t = 0; t < s.tokens; ++t) {
                f(t, std::size_t{t} * s.channels + c);
            }
        }
    }

    /// Scales f16 [tokens] and symbols [tokens][channels].
    static void quantise(std::span<const float> x, CoreShape s, int difference_max, std::span<std::int8_t> q,
                         std::byte* scales) {
        std::vector<double> anchor(s.channels);
        for (std::uint32_t t = 0; t < s.tokens; ++t) {
            const std::size_t row = std::size_t{t} * s.channels;
            const int q_max = is_anchor(t) ? kAnchorMax : difference_max;
            double largest = 0;
            for (std::uint32_t c = 0; c < s.channels; ++c) {
                anchor[c] = is_anchor(t) ? 0.0 : anchor[c];
                largest = std::max(largest, std::fabs(static_cast<double>(x[row + c]) - anchor[c]));
            }
            const auto wanted = static_cast<float>(std::min(largest / q_max, 65504.0));
            const std::uint16_t stored = base::f32_to_f16_up(wanted);
            std::memcpy(scales + t * sizeof stored, &stored, sizeof stored);
            const auto scale = static_cast<double>(base::f16_to_f32(stored));
            for (std::uint32_t c = 0; c < s.channels; ++c) {
                const double y = scale > 0 ? (static_cast<double>(x[row + c]) - anchor[c]) / scale : 0.0;
                const double limit = q_max;
                q[row + c] = static_cast<std::int8_t>(std::floor(std::clamp(y, -limit, limit) + 0.5));
                anchor[c] = is_anchor(t)
                                ? static_cast<double>(static_cast<float>(q[row + c]) * base::f16_to_f32(stored))
                                : anchor[c];
            }
        }
    }

    [[nodiscard]] static bool read_symbols(base::ByteView body, CoreShape s, std::span<std::int8_t> q) {
        const std::size_t offset = symbols_offset(s);
        if (body.size() < offset || body[0] > kCoded) {
            return false;
        }
        const int q_max = std::to_integer<int>(body[1]);
        if (q_max != kFineMax && q_max != kCoarseMax) {
            return false;
        }
        const base::ByteView coded = body.subspan(offset);
        bool valid = true;
        const auto keep = [&](std::uint32_t t, std::size_t i, std::uint32_t symbol) {
            const int max = is_anchor(t) ? kAnchorMax : q_max;
            valid = valid && static_cast<int>(symbol) <= 2 * max;
            q[i] = static_cast<std::int8_t>(static_cast<int>(symbol) - max);
        };
        if (body[0] == kPacked) {
            if (coded.size() != packed_bytes(s, q_max)) {
                return false;
            }
            BitStringReader reader(coded.data());
            each_symbol(s, [&](std::uint32_t t, std::size_t i) {
                keep(t, i, reader.get(is_anchor(t) ? kAnchorBits : difference_bits(q_max)));
            });
            return valid;
        }
        RangeDecoder decoder(coded);
        SymbolModel anchors;
        SymbolModel differences;
        each_symbol(s, [&](std::uint32_t t, std::size_t i) {
            keep(t, i,
                 is_anchor(t) ? decoder.get(anchors, kAnchorBits) : decoder.get(differences, difference_bits(q_max)));
        });
        return valid && decoder.done();
    }
};

}  // namespace

std::unique_ptr<PageCoder> make_cachegen() { return std::make_unique<CacheGen>(); }

}  // namespace lynx::codec
