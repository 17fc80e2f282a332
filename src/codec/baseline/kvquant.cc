#include "codec/baseline/kvquant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/half.h"
#include "codec/baseline/dense_page.h"
#include "codec/baseline/rotation.h"
#include "codec/math/scalar_math.h"
#include "codec/symbol_rows.h"

namespace lynx::codec {
namespace {

constexpr std::size_t kLevelsMax = 16;
constexpr std::size_t kBins = 4096;  // of the histogram that levels are fitted to
constexpr int kFitSteps = 30;
constexpr double kLevelUnit = 32767.0;

using Levels = std::array<std::int16_t, kLevelsMax>;

/// The vectors of a core: channels of keys, tokens of everything else.
struct Vectors {
    Vectors(CoreShape s, kv::Kind kind) noexcept
        : count(kind == kv::Kind::key ? s.channels : s.tokens),
          length(kind == kv::Kind::key ? s.tokens : s.channels),
          step(kind == kv::Kind::key ? s.channels : 1),
          start(kind == kv::Kind::key ? 1 : s.channels),
          outliers((length + 50) / 100) {}
    std::size_t count;
    std::size_t length;
    std::size_t step;      ///< between a vector's elements in [tokens][channels]
    std::size_t start;     ///< between vectors
    std::size_t outliers;  ///< of each vector

    [[nodiscard]] std::size_t at(std::size_t vector, std::size_t i) const noexcept { return vector * start + i * step; }
};

/// Byte offsets of a body's parts.
struct Layout {
    Layout(CoreShape s, kv::Kind kind, unsigned bits) noexcept
        : vectors(s, kind),
          zero((std::size_t{1} << bits) * 2),
          scale(zero + vectors.count * 2),
          index(scale + vectors.count * 2),
          value(index + vectors.count * vectors.outliers * 2),
          rows(value + vectors.count * vectors.outliers * 2),
          bytes(rows + s.tokens * symbol_row_bytes(s.channels, bits)) {}
    Vectors vectors;
    std::size_t zero;
    std::size_t scale;
    std::size_t index;
    std::size_t value;
    std::size_t rows;
    std::size_t bytes;
};

template <class T>
void put(std::byte* array, std::size_t i, T value) noexcept {
    std::memcpy(array + i * sizeof value, &value, sizeof value);
}
std::uint16_t get(const std::byte* array, std::size_t i) noexcept {
    std::uint16_t value = 0;
    std::memcpy(&value, array + i * sizeof value, sizeof value);
    return value;
}
std::uint16_t to_half(double x) noexcept { return base::f32_to_f16(static_cast<float>(limited(x, -65504.0, 65504.0))); }

/// Lloyd's iteration on a histogram of numbers in -1..1, from levels that share the numbers evenly.
Levels fit_levels(const std::vector<std::uint64_t>& histogram, std::size_t count) {
    const auto center = [](std::size_t bin) { return (static_cast<double>(bin) + 0.5) * 2.0 / kBins - 1.0; };
    const std::uint64_t total = std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0});
    std::array<double, kLevelsMax> level{};
    std::uint64_t passed = 0;
    std::size_t next = 0;
    for (std::size_t bin = 0; bin < kBins && next < count; ++bin) {
        passed += histogram[bin];
        while (next < count && passed * 2 * count >= (2 * next + 1) * total) {
            level[next++] = center(bin);
        }
    }
    for (int step = 0; step < kFitSteps; ++step) {
        std::array<double, kLevelsMax> sum{};
        std::array<std::uint64_t, kLevelsMax> weight{};
        std::size_t k = 0;
        for (std::size_t bin = 0; bin < kBins; ++bin) {
            while (k + 1 < count && center(bin) > 0.5 * (level[k] + level[k + 1])) {
                ++k;
            }
            sum[k] += static_cast<double>(histogram[bin]) * center(bin);
            weight[k] += histogram[bin];
        }
        for (std::size_t i = 0; i < count; ++i) {
            level[i] = weight[i] > 0 ? sum[i] / static_cast<double>(weight[i]) : level[i];
        }
    }
    Levels out{};
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<std::int16_t>(std::floor(level[i] * kLevelUnit + 0.5));
    }
    return out;
}

class KvQuant final : public PageCoder {
public:
    KvQuant(CodecId id, unsigned bits) noexcept : id_(id), bits_(bits) {}

    [[nodiscard]] CodecId id() const noexcept override { return id_; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 1; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return true; }
    [[nodiscard]] bool carries_context() const noexcept override { return true; }
    [[nodiscard]] bool fixed_size() const noexcept override { return false; }  // it depends on the kind
    [[nodiscard]] ExactTokens exact_tokens(const CodecParams& /*params*/,
                                           const PageContext& /*context*/) const noexcept override {
        return {1, 0};
    }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return std::max(Layout(s, kv::Kind::key, bits_).bytes, Layout(s, kv::Kind::value, bits_).bytes);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        const CoreShape shape{core.tokens, core.channels};
        const Layout layout(shape, context.kind, bits_);
        bodies[0] = bodies[0].first(layout.bytes);
        std::byte* body = bodies[0].data();
        std::vector<float> x = load_dense(core);
        Rotation(context).undo(x, core.tokens, core.channels);

        std::vector<std::uint64_t> histogram(kBins);
        for (std::size_t v = 0; v < layout.vectors.count; ++v) {
            normalise(x, layout, v, body, histogram);
        }
        const std::size_t count = std::size_t{1} << bits_;
        const Levels levels = fit_levels(histogram, count);
        for (std::size_t i = 0; i < count; ++i) {
            put(body, i, levels[i]);
        }
        for (std::uint32_t t = 0; t < core.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
                const ChannelSpan span = tile_span(core.channels, k);
                std::uint8_t symbol[kTileChannels] = {};
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    symbol[c] = nearest(levels, x[std::size_t{t} * core.channels + span.first + c]);
                }
                pack_symbols(bits_, symbol, span, body + layout.rows + t * symbol_row_bytes(core.channels, bits_));
            }
        }
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override {
        const CoreShape shape{dst.tokens, dst.channels};
        const Layout layout(shape, context.kind, bits_);
        if (bodies[0].size() != layout.bytes) {
            return {ErrorCode::corrupt, "kvquant: body bytes: expected " + std::to_string(layout.bytes) + ", actual " +
                                            std::to_string(bodies[0].size())};
        }
        const std::byte* body = bodies[0].data();
        std::vector<float> x(std::size_t{dst.tokens} * dst.channels);
        for (std::uint32_t t = 0; t < dst.tokens; ++t) {
            for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
                const ChannelSpan span = tile_span(dst.channels, k);
                std::uint8_t symbol[kTileChannels];
                unpack_symbols(bits_, body + layout.rows + t * symbol_row_bytes(dst.channels, bits_), span, symbol);
                for (std::uint32_t c = 0; c < span.count; ++c) {
                    x[std::size_t{t} * dst.channels + span.first + c] =
                        static_cast<float>(static_cast<std::int16_t>(get(body, symbol[c])));
                }
            }
        }
        for (std::size_t v = 0; v < layout.vectors.count; ++v) {
            if (!denormalise(body, layout, v, x)) {
                return {ErrorCode::corrupt, "kvquant: a number is not finite, or an outlier lies outside its vector"};
            }
        }
        Rotation(context).apply(x, dst.tokens, dst.channels);
        store_dense(x, dst);
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> /*bodies*/, CoreShape /*shape*/,
                                 PageSymbols& /*out*/) const override {
        return {};
    }

private:
    /// Stores vector v's outliers, zero and scale, counts its other elements, and brings x to -1..1.
    static void normalise(std::vector<float>& x, const Layout& layout, std::size_t v, std::byte* body,
                          std::vector<std::uint64_t>& histogram) {
        const Vectors& vectors = layout.vectors;
        double mean = 0;
        for (std::size_t i = 0; i < vectors.length; ++i) {
            mean += static_cast<double>(x[vectors.at(v, i)]) / static_cast<double>(vectors.length);
        }
        std::vector<std::uint32_t> order(vectors.length);
        std::iota(order.begin(), order.end(), 0U);
        const auto distance = [&](std::uint32_t i) {
            return std::fabs(static_cast<double>(x[vectors.at(v, i)]) - mean);
        };
        std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return distance(a) > distance(b); });
        std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(vectors.outliers));
        for (std::size_t i = 0; i < vectors.outliers; ++i) {
            const std::size_t at = v * vectors.outliers + i;
            put(body + layout.index, at, static_cast<std::uint16_t>(order[i]));
            put(body + layout.value, at, to_half(static_cast<double>(x[vectors.at(v, order[i])])));
        }
        double min = static_cast<double>(x[vectors.at(v, order[vectors.outliers])]);
        double max = min;
        for (std::size_t i = vectors.outliers; i < vectors.length; ++i) {
            min = std::min(min, static_cast<double>(x[vectors.at(v, order[i])]));
            max = std::max(max, static_cast<double>(x[vectors.at(v, order[i])]));
        }
        const std::uint16_t zero = to_half(0.5 * min + 0.5 * max);
        const auto half_range = static_cast<float>(limited(0.5 * max - 0.5 * min, 0.0, 65504.0));
        const std::uint16_t scale = base::f32_to_f16_up(half_range);
        put(body + layout.zero, v, zero);
        put(body + layout.scale, v, scale);
        const auto divisor = static_cast<double>(base::f16_to_f32(scale));
        for (std::size_t i = 0; i < vectors.length; ++i) {
            float& e = x[vectors.at(v, order[i])];
            const double y = static_cast<double>(e) - static_cast<double>(base::f16_to_f32(zero));
            const double u = divisor > 0 ? limited(y / divisor, -1.0, 1.0) : 0.0;
            e = static_cast<float>(u);
            histogram[std::min(kBins - 1, static_cast<std::size_t>((u + 1.0) * (kBins / 2.0)))] +=
                i < vectors.outliers ? 0 : 1;
        }
    }

    [[nodiscard]] static bool denormalise(const std::byte* body, const Layout& layout, std::size_t v,
                                          std::vector<float>& x) {
        const Vectors& vectors = layout.vectors;
        const std::uint16_t zero = get(body + layout.zero, v);
        const std::uint16_t scale = get(body + layout.scale, v);
        if ((zero & 0x7C00U) == 0x7C00U || scale >= 0x7C00U) {
            return false;
        }
        const float unit = base::f16_to_f32(scale) * 0x1p-15F;
        for (std::size_t i = 0; i < vectors.length; ++i) {
            float& e = x[vectors.at(v, i)];
            e = base::f16_to_f32(zero) + e * unit;
        }
        for (std::size_t i = 0; i < vectors.outliers; ++i) {
            const std::uint16_t index = get(body + layout.index, v * vectors.outliers + i);
            const std::uint16_t value = get(body + layout.value, v * vectors.outliers + i);
            if (index >= vectors.length || (value & 0x7C00U) == 0x7C00U) {
                return false;
            }
            x[vectors.at(v, index)] = base::f16_to_f32(value);
        }
        return true;
    }

    [[nodiscard]] std::uint8_t nearest(const Levels& levels, float u) const noexcept {
        const double y = static_cast<double>(u) * kLevelUnit;
        std::uint8_t best = 0;
        for (std::uint8_t i = 1; i < 1U << bits_; ++i) {
            best = std::fabs(y - levels[i]) < std::fabs(y - levels[best]) ? i : best;
        }
        return best;
    }

    CodecId id_;
    unsigned bits_;
};

}  // namespace

std::unique_ptr<PageCoder> make_kvquant(CodecId id, unsigned bits) {
    LYNX_CHECK(bits == 3 || bits == 4);
    return std::make_unique<KvQuant>(id, bits);
}

}  // namespace lynx::codec
