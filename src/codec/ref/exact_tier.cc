#include "codec/ref/exact_tier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "base/try.h"
#include "codec/math/scalar_math.h"
#include "codec/ref/exact_law.h"
#include "codec/ref/lynxt_model.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kScaleBits =
    12;  // of an escaped scale, kExactScaleMax + 1 more than it; 0: the channel is not sent
constexpr std::int32_t kNotSent = -kExactScaleMax - 1;
constexpr std::size_t kOperationsMax = 4;  // per element: its symbol and 32 plain bits

Status corrupt(std::string_view what) { return {ErrorCode::corrupt, "exact tier: " + std::string(what)}; }

/// Symbols of the difference between a channel's scale and that of the channel before.
const RansTable& scale_table() noexcept {
    static const RansTable kTable = RansTable::from_weights(kLynxtClassWeights);
    return kTable;
}

/// What the lossy tiers yield: float32, token-major.
struct Reconstruction {
    explicit Reconstruction(CoreShape s) : shape(s), values(std::size_t{s.tokens} * s.channels) {}
    [[nodiscard]] kv::View view() noexcept {
        return kv::token_major(reinterpret_cast<std::byte*>(values.data()), kv::DType::f32, shape.tokens,
                               shape.channels);
    }
    [[nodiscard]] float at(std::uint32_t token, std::uint32_t channel) const noexcept {
        return values[std::size_t{token} * shape.channels + channel];
    }
    CoreShape shape;
    std::vector<float> values;
};

std::uint32_t read_element(kv::ConstView v, std::uint32_t token, std::uint32_t channel) noexcept {
    std::uint32_t element = 0;
    std::memcpy(&element, v.at(token, channel), kv::dtype_bytes(v.dtype));
    return element;
}

double to_double(kv::DType dtype, std::uint32_t element) noexcept {
    const auto half = static_cast<std::uint16_t>(element);
    const float x = dtype == kv::DType::f32
                        ? std::bit_cast<float>(element)
                        : (dtype == kv::DType::f16 ? base::f16_to_f32(half) : base::bf16_to_f32(half));
    return static_cast<double>(x);
}

/// FORMAT, "Rounding".
std::uint32_t rounded(kv::DType dtype, float x) noexcept {
    const float limited_x = saturated(x, float_layout(dtype).max);
    switch (dtype) {
        case kv::DType::f16: return base::f32_to_f16(limited_x);
        case kv::DType::bf16: return base::f32_to_bf16(limited_x);
        case kv::DType::f32: break;
    }
    return std::bit_cast<std::uint32_t>(limited_x);
}

/// The page with zeros for what lossy coders do not take. Owns memory only where there is any.
class FiniteCore {
public:
    explicit FiniteCore(kv::ConstView core) : view_(core) {
        if (!find_non_finite(core)) {
            return;
        }
        const FloatLayout layout = float_layout(core.dtype);
        const std::size_t width = kv::dtype_bytes(core.dtype);
        memory_.resize(std::size_t{core.tokens} * core.channels * width);
        copy_rows_out(core, memory_.data());
        for (std::size_t at = 0; at < memory_.size(); at += width) {
            std::uint32_t element = 0;
            std::memcpy(&element, memory_.data() + at, width);
            if ((element & ~layout.sign()) >= layout.infinity()) {
                std::memset(memory_.data() + at, 0, width);
            }
        }
        view_ = kv::token_major<const std::byte>(memory_.data(), core.dtype, core.tokens, core.channels);
    }
    [[nodiscard]] kv::ConstView view() const noexcept { return view_; }

private:
    kv::ConstView view_;
    base::Bytes memory_;
};

/// 4 log2 of the finite elements' root mean square error, to the nearest; kNotSent when rounding restores every element.
std::int32_t scale_of(kv::ConstView core, const Reconstruction& lossy, std::uint32_t channel) noexcept {
    constexpr double kOneQuarter = 0x1.ae89f995ad3adp-1;     // 2^(-1 / 4)
    constexpr double kThreeQuarters = 0x1.306fe0a31b715p-1;  // 2^(-3 / 4)
    const FloatLayout layout = float_layout(core.dtype);
    double squares = 0;
    double count = 0;
    bool same = true;
    for (std::uint32_t t = 0; t < core.tokens; ++t) {
        const std::uint32_t element = read_element(core, t, channel);
        const float x = lossy.at(t, channel);
        same = same && element == rounded(core.dtype, x);
        if ((element & ~layout.sign()) < layout.infinity()) {
            const double error = to_double(core.dtype, element) - static_cast<double>(saturated(x, layout.max));
            squares += error * error;
            count += 1;
        }
    }
    if (same) {
        return kNotSent;
    }
    int exponent = 0;
    const double fraction = std::frexp(squares / std::max(count, 1.0), &exponent);
    const std::int32_t quarters = 2 * exponent - (fraction < kThreeQuarters ? 2 : (fraction < kOneQuarter ? 1 : 0));
    return fraction == 0 ? -kExactScaleMax : limited(quarters, -kExactScaleMax, kExactScaleMax);
}

void put_plain(RansEncoder& out, std::uint32_t lane, std::uint32_t value, std::uint32_t bits) {
    for (; bits > 0; bits -= std::min(bits, kRansBits)) {
        const std::uint32_t n = std::min(bits, kRansBits);
        out.put_bits(lane, value & ((1U << n) - 1), n);
        value >>= n;
    }
}

std::uint32_t get_plain(RansDecoder& in, std::uint32_t lane, std::uint32_t bits) noexcept {
    std::uint32_t value = 0;
    for (std::uint32_t at = 0; at < bits; at += kRansBits) {
        value |= in.get_bits(lane, std::min(bits - at, kRansBits)) << at;
    }
    return value;
}

class ExactCoder final : public PageCoder {
public:
    ExactCoder(CodecId id, std::unique_ptr<PageCoder> lossy) noexcept : id_(id), lossy_(std::move(lossy)) {}

    [[nodiscard]] CodecId id() const noexcept override { return id_; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override {
        return static_cast<std::uint8_t>(lossy_->tiers() + 1);
    }
    [[nodiscard]] bool exact() const noexcept override { return true; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return lossy_->keeps_exact_rows(); }
    [[nodiscard]] ExactTokens exact_tokens(const CodecParams& params,
                                           const PageContext& context) const noexcept override {
        return lossy_->exact_tokens(params, context);
    }
    [[nodiscard]] bool carries_context() const noexcept override { return lossy_->carries_context(); }
    [[nodiscard]] bool fixed_size() const noexcept override { return false; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t tier) const noexcept override {
        if (tier < lossy_->tiers()) {
            return lossy_->body_bytes_max(s, tier);
        }
        return kRansStateBytes + 2 * s.channels * (std::size_t{s.tokens} * kOperationsMax + 2);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        const std::uint8_t tier = lossy_->tiers();
        lossy_->encode(FiniteCore(core).view(), context, bodies.first(tier));
        Reconstruction lossy({core.tokens, core.channels});
        const std::vector<base::ByteView> views(bodies.begin(), bodies.begin() + tier);
        LYNX_CHECK(lossy_->decode(views, context, lossy.view()).ok());
        write(core, lossy, bodies[tier]);
    }
    [[nodiscard]] bool encode_checked(kv::ConstView core, const PageContext& context,
                                      std::span<std::span<std::byte>> bodies) const override {
        encode(core, context, bodies);
        return true;
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override {
        const std::size_t tier = lossy_->tiers();
        const auto lossy_bodies = bodies.first(std::min(bodies.size(), tier));
        LYNX_TRY(check_sizes(lossy_bodies, {dst.tokens, dst.channels}));
        if (bodies.size() <= tier) {
            return lossy_->decode(bodies, context, dst);
        }
        Reconstruction lossy({dst.tokens, dst.channels});
        LYNX_TRY(lossy_->decode(lossy_bodies, context, lossy.view()));
        return read(bodies[tier], lossy, dst);
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape shape,
                                 PageSymbols& out) const override {
        const auto lossy_bodies = bodies.first(std::min<std::size_t>(bodies.size(), lossy_->tiers()));
        LYNX_TRY(check_sizes(lossy_bodies, shape));
        return lossy_->symbols(lossy_bodies, shape, out);
    }

private:
    /// Nobody else does, since the bodies of this codec vary; the lossy coder relies on it.
    [[nodiscard]] Status check_sizes(std::span<const base::ByteView> bodies, CoreShape shape) const {
        for (std::size_t t = 0; lossy_->fixed_size() && t < bodies.size(); ++t) {
            if (const std::size_t n = lossy_->body_bytes_max(shape, static_cast<std::uint8_t>(t));
                bodies[t].size() != n) {
                return corrupt("tier " + std::to_string(t) + " of a core of " + std::to_string(shape.tokens) +
                               " tokens: expected " + std::to_string(n) + " bytes, actual " +
                               std::to_string(bodies[t].size()));
            }
        }
        return {};
    }
    static void write(kv::ConstView core, const Reconstruction& lossy, std::span<std::byte>& body);
    [[nodiscard]] static Status read(base::ByteView body, const Reconstruction& lossy, kv::View dst);

    CodecId id_;
    std::unique_ptr<PageCoder> lossy_;
};

void ExactCoder::write(kv::ConstView core, const Reconstruction& lossy, std::span<std::byte>& body) {
    const FloatLayout layout = float_layout(core.dtype);
    std::vector<std::int32_t> scales(core.channels);
    for (std::uint32_t c = 0; c < core.channels; ++c) {
        scales[c] = scale_of(core, lossy, c);
    }
    RansEncoder out;
    std::int32_t before = 0;
    for_groups(core.channels, [&](std::uint32_t first, std::uint32_t count) {
        std::array<bool, kRansLanes> escaped{};
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::int32_t scale = scales[first + i];
            const std::uint32_t symbol = scale == kNotSent ? kLynxtEscape : small_symbol(scale - before);
            out.put(i, scale_table(), symbol);
            escaped[i] = symbol == kLynxtEscape;
            before = scale == kNotSent ? before : scale;
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            if (escaped[i]) {
                out.put_bits(i, static_cast<std::uint32_t>(scales[first + i] - kNotSent), kScaleBits);
            }
        }
    });
    for (std::uint32_t c = 0; c < core.channels; ++c) {
        if (scales[c] == kNotSent) {
            continue;
        }
        for_groups(core.tokens, [&](std::uint32_t first, std::uint32_t count) {
            std::array<ExactPlace, kRansLanes> at{};
            std::array<std::uint32_t, kRansLanes> element{};
            std::array<std::uint32_t, kRansLanes> symbol{};
            for (std::uint32_t i = 0; i < count; ++i) {
                at[i] = exact_place(layout, lossy.at(first + i, c), scales[c]);
                element[i] = read_element(core, first + i, c);
                symbol[i] = exact_symbol(layout, at[i], element[i]);
                out.put(i, exact_table(at[i].table), symbol[i]);
            }
            for (std::uint32_t i = 0; i < count; ++i) {
                if (symbol[i] == kExactEscape) {
                    put_plain(out, i, element[i], layout.bits);
                    continue;
                }
                const ExactElements inside = exact_elements(layout, at[i], symbol[i]);
                LYNX_DCHECK(element[i] - inside.first < inside.count);
                put_plain(out, i, element[i] - inside.first,
                          static_cast<std::uint32_t>(std::bit_width(inside.count - 1)));
            }
        });
    }
    LYNX_CHECK(body.size() >= out.bytes_max());
    body = body.first(out.finish(body));
}

Status ExactCoder::read(base::ByteView body, const Reconstruction& lossy, kv::View dst) {
    const FloatLayout layout = float_layout(dst.dtype);
    const std::size_t width = kv::dtype_bytes(dst.dtype);
    RansDecoder in(body);
    bool valid = true;
    std::vector<std::int32_t> scales(dst.channels);
    std::int32_t before = 0;
    for_groups(dst.channels, [&](std::uint32_t first, std::uint32_t count) {
        std::array<std::uint32_t, kRansLanes> symbol{};
        for (std::uint32_t i = 0; i < count; ++i) {
            symbol[i] = in.get(i, scale_table());
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::int32_t scale = symbol[i] == kLynxtEscape
                                           ? static_cast<std::int32_t>(in.get_bits(i, kScaleBits)) + kNotSent
                                           : before + small_value(symbol[i]);
            valid = valid && scale >= kNotSent && scale <= kExactScaleMax &&
                    (scale != kNotSent || symbol[i] == kLynxtEscape);
            scales[first + i] = valid ? scale : kNotSent;
            before = scales[first + i] == kNotSent ? before : scales[first + i];
        }
    });
    if (!valid) {
        return corrupt("a channel's scale is out of range");
    }
    const auto write_element = [&](std::uint32_t token, std::uint32_t channel, std::uint32_t element) {
        std::memcpy(dst.at(token, channel), &element, width);
    };
    for (std::uint32_t c = 0; c < dst.channels; ++c) {
        if (scales[c] == kNotSent) {
            for (std::uint32_t t = 0; t < dst.tokens; ++t) {
                write_element(t, c, rounded(dst.dtype, lossy.at(t, c)));
            }
            continue;
        }
        for_groups(dst.tokens, [&](std::uint32_t first, std::uint32_t count) {
            std::array<ExactPlace, kRansLanes> at{};
            std::array<std::uint32_t, kRansLanes> symbol{};
            for (std::uint32_t i = 0; i < count; ++i) {
                at[i] = exact_place(layout, lossy.at(first + i, c), scales[c]);
                symbol[i] = in.get(i, exact_table(at[i].table));
            }
            for (std::uint32_t i = 0; i < count; ++i) {
                if (symbol[i] == kExactEscape) {
                    write_element(first + i, c, get_plain(in, i, layout.bits));
                    continue;
                }
                const ExactElements inside = exact_elements(layout, at[i], symbol[i]);
                const std::uint32_t offset =
                    inside.count == 0 ? 0
                                      : get_plain(in, i, static_cast<std::uint32_t>(std::bit_width(inside.count - 1)));
                valid = valid && offset < inside.count;
                write_element(first + i, c, inside.first + offset);
            }
        });
    }
    return valid && in.done() ? Status{} : corrupt("a symbol stands for no number, or the stream does not end");
}

}  // namespace

std::unique_ptr<PageCoder> make_exact(CodecId id, std::unique_ptr<PageCoder> lossy) {
    LYNX_CHECK(lossy->tiers() < kTiersMax && !lossy->exact());
    return std::make_unique<ExactCoder>(id, std::move(lossy));
}

}  // namespace lynx::codec
