// The bounds on |x' - x| that FORMAT.md states, for every codec of the registry and every tier, on pages of all dtypes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "codec/page_codec.h"
#include "codec/ref/alpha_law.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::Page;
using testing::random_page;

constexpr std::uint32_t kTokens = 40;
constexpr std::uint32_t kChannels = 140;

/// One encoded page, as the bounds see it.
struct Sample {
    const Page& page;
    CodecParams params;
    std::size_t tiers;            ///< decoded ones
    const PageSymbols& metadata;  ///< what the codec stored
    [[nodiscard]] double at(std::uint32_t t, std::uint32_t c) const { return page.at(t, c); }
};

struct Block {
    std::uint32_t first_token = 0;
    std::uint32_t tokens = 0;
    std::uint32_t first_channel = 0;
    std::uint32_t channels = 0;
};

double largest(const Sample& s, const Block& b) {
    double m = 0;
    for (std::uint32_t t = b.first_token; t < b.first_token + b.tokens; ++t) {
        for (std::uint32_t c = b.first_channel; c < std::min(b.first_channel + b.channels, kChannels); ++c) {
            m = std::max(m, std::fabs(s.at(t, c)));
        }
    }
    return m;
}

/// Bound of one element before the final rounding.
using Bound = std::function<double(const Sample&, std::uint32_t t, std::uint32_t c)>;

/// FORMAT 6; group 0: all channels.
Bound integers(double q_max, std::uint32_t group, bool whole_page, double anchor_steps) {
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        const Block token{t, 1, group == 0 ? 0 : c / group * group, group == 0 ? kChannels : group};
        const double m = largest(s, whole_page ? Block{0, kTokens, 0, kChannels} : token);
        return (m / q_max * (1 + 0x1p-10) + 0x1p-24) * (s.tiers == 1 ? anchor_steps : 0.5) * (1 + 1e-6);
    };
}

double bf16_split(const Sample& s, std::uint32_t t, std::uint32_t c) {
    const double x = std::fabs(s.at(t, c));
    return s.tiers == 1 ? x * (1 + 0x1p-7) + 0x1p-126 : x * 0x1p-8 + 0x1p-134;
}

Bound fp8(bool per_token) {
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        const double m = largest(s, per_token ? Block{t, 1, 0, kChannels} : Block{0, kTokens, 0, kChannels});
        const double x = std::fabs(s.at(t, c));
        return std::max(x / 16, m / 448 * (1 + 0x1p-22) / 1024) + x * 0x1p-22;
    };
}

Bound ggml(double steps) {
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        const double a = largest(s, {t, 1, c / 32 * 32, 32});
        const double d = a / steps;
        return d * (steps == 127 ? 0.5 : 1.0) + steps * std::max(d * 0x1p-11, 0x1p-25) + a * 0x1p-21;
    };
}

/// FORMAT 11, for tiers of these bits.
Bound nested(const std::vector<unsigned>& bits) {
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        const auto range = [&](std::uint32_t first, std::uint32_t end) {
            double low = s.at(first, c);
            double high = low;
            for (std::uint32_t i = first; i < end; ++i) {
                low = std::min(low, s.at(i, c));
                high = std::max(high, s.at(i, c));
            }
            return high - low;
        };
        const std::uint32_t first = t / s.params.chunk_tokens * s.params.chunk_tokens;
        const double unit = largest(s, {0, kTokens, c, 1}) / 2047;
        const double r = range(first, std::min(first + s.params.chunk_tokens, kTokens));
        unsigned n = 1;
        for (std::size_t tier = 0; tier < std::min(s.tiers, bits.size()); ++tier) {
            n <<= bits[tier];
        }
        return (r + 2 * (range(0, kTokens) + 5 * unit) / 256) / (2.0 * n) + unit / 256;
    };
}

/// FORMAT 13.1, for values: groups of 32 channels of a token.
Bound kivi(double q_max) {
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        double low = s.at(t, c);
        double high = low;
        for (std::uint32_t i = c / 32 * 32; i < std::min(c / 32 * 32 + 32, kChannels); ++i) {
            low = std::min(low, s.at(t, i));
            high = std::max(high, s.at(t, i));
        }
        const double range = high - low + std::fabs(low) * 0x1p-10 + 0x1p-24;
        return (range / q_max * (1 + 0x1p-10) + 0x1p-24) / 2 + (std::fabs(low) + range) * 0x1p-21;
    };
}

/// FORMAT 13.2, for the first third of the layers.
double cachegen(const Sample& s, std::uint32_t t, std::uint32_t c) {
    const auto step = [](double m, int q_max) { return m / q_max * (1 + 0x1p-10) + 0x1p-24; };
    const std::uint32_t first = t / 10 * 10;
    const double anchor_step = step(largest(s, {first, 1, 0, kChannels}), 127);
    const double slack = std::fabs(s.at(t, c)) * 0x1p-21 + anchor_step * 0x1p-16;
    if (t == first) {
        return anchor_step / 2 + slack;
    }
    double difference = 0;
    for (std::uint32_t i = 0; i < kChannels; ++i) {
        difference = std::max(difference, std::fabs(s.at(t, i) - s.at(first, i)));
    }
    return step(difference + anchor_step / 2, 15) / 2 + slack;
}

/// FORMAT 13.4, for values: levels lie anywhere between a token's extremes.
double kvquant(const Sample& s, std::uint32_t t, std::uint32_t /*c*/) {
    double low = s.at(t, 0);
    double high = low;
    for (std::uint32_t i = 0; i < kChannels; ++i) {
        low = std::min(low, s.at(t, i));
        high = std::max(high, s.at(t, i));
    }
    return (high - low) * (1 + 0x1p-9) + std::max(std::fabs(low), std::fabs(high)) * 0x1p-10 + 0x1p-23;
}

/// FORMAT 13.3: a bound on the whole block's error, far above any element's in practice.
Bound turboquant(double least_level) {
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        double energy = 0;
        for (std::uint32_t i = c / 64 * 64; i < std::min(c / 64 * 64 + 64, kChannels); ++i) {
            energy += s.at(t, i) * s.at(t, i);
        }
        return std::sqrt(energy) * std::sqrt(1 + least_level * least_level) * (1 + 0x1p-10) + 0x1p-20;
    };
}

struct AlphaCase {
    int levels = 127;
    int residual_bits = 4;
    AlphaCurve curve = AlphaCurve::alpha;
    float alpha = CodecParams{}.alpha;
    std::uint32_t chunk = 0;  ///< 0: the parameter
    bool merged = false;
    int highest = 128;   ///< above it levels are clipped
    bool twos = false;   ///< anchors are the middles of 2^r levels from a multiple on
    bool floor = false;  ///< V = I >> r
    bool centroids = false;
    bool anchor_only = false;
};

/// FORMAT 8: the decoded spread times how far a magnitude may lie from what its symbols stand for.
Bound alpha(AlphaCase a) {
    const AlphaLaw law(a.alpha, a.levels, a.curve);
    return [=](const Sample& s, std::uint32_t t, std::uint32_t c) {
        const std::uint32_t chunk = a.chunk > 0 ? a.chunk : s.params.chunk_tokens;
        const std::size_t at = std::size_t{t / chunk} * kChannels + c;
        const double scale = static_cast<double>(s.metadata.gamma_scale[c]);
        const double center =
            static_cast<double>(s.metadata.gamma_min[c]) + scale * static_cast<double>(s.metadata.mu[at]);
        const double spread = scale * static_cast<double>(s.metadata.sigma[at]);
        const double x = s.at(t, c);
        const double m = spread > 0 ? std::fabs(x - center) / spread : 0.0;
        const auto magnitude = [&](int i) { return static_cast<double>(law.magnitude(std::clamp(i, 0, 128))); };
        const auto edge = [&](int i) {  // where level i begins
            return i > a.levels ? 1.0
                                : (i <= 0 ? 0.0 : static_cast<double>(law.thresholds()[static_cast<std::size_t>(i)]));
        };
        const auto width_at = [&](double magnitude_of_x) {
            const auto clipped = static_cast<float>(std::clamp(magnitude_of_x, 0.0, 1.0));
            std::uint8_t level = 0;
            law.quantise(&clipped, 1, &level);
            double width = 0;
            if (s.tiers > 1 && !a.anchor_only) {
                width = std::max(magnitude(level) - edge(level), edge(level + 1) - magnitude(level));
                width += a.merged && level < (1 << (a.residual_bits - 1)) + 1 ? 2 * magnitude(level) : 0;
                width += level > a.highest ? magnitude(level) - magnitude(a.highest) : 0;
            } else {
                // The anchor's value lies inside what V stands for, or at 2^r V; the sign of a merged zero is lost.
                const int bins = 1 << a.residual_bits;
                const bool from_multiple = a.twos || a.floor;
                const int v = std::min(from_multiple ? level / bins : (level + bins / 2 - 1) / bins, a.highest / bins);
                const int low = from_multiple ? v * bins - (a.twos ? 1 : 0) : v * bins - bins / 2 + 1;
                const int high = v == a.highest / bins ? a.levels + 1 : low + bins + (a.twos ? 1 : 0);
                width = (high > a.levels ? std::max(1.0, magnitude(v * bins)) : edge(high)) - edge(low);
                width += a.merged && v == 0 ? edge(bins / 2 + 1) : 0;
            }
            return width;
        };
        // Near an edge, rounded metadata decide on which side an element falls.
        const double doubt = m * 1e-6 + (spread > 0 ? std::fabs(center) / spread * 0x1p-21 : 0.0);
        const double width = std::max(width_at(m - doubt), width_at(m + doubt));
        return spread * width * (1 + 1e-5) + (std::fabs(center) + spread + scale) * 0x1p-21;
    };
}

/// FORMAT 12.5, without a profile: a cell of the tier, in finest steps.
double lynxt(const Sample& s, std::uint32_t /*t*/, std::uint32_t /*c*/) {
    double squares = 0;
    for (std::uint32_t c = 0; c < kChannels; ++c) {
        double sum = 0;
        double sum_of_squares = 0;
        for (std::uint32_t t = 0; t < kTokens; ++t) {
            sum += s.at(t, c);
            sum_of_squares += s.at(t, c) * s.at(t, c);
        }
        squares += std::max(0.0, sum_of_squares - sum * sum / kTokens);
    }
    const double m = largest(s, {0, kTokens, 0, kChannels});
    const double rounding = m * 0x1p-21;
    const double step = std::max(0.018 * std::sqrt(squares / (kTokens * kChannels)), 2 * m / 4095) * 1.001 + rounding;
    constexpr double kCells[] = {32, 16, 1};
    return kCells[s.tiers - 1] * step + rounding;
}

/// FORMAT 14: nothing, behind the tiers of `lossy`.
Bound exact(Bound lossy, std::size_t lossy_tiers) {
    return [lossy = std::move(lossy), lossy_tiers](const Sample& s, std::uint32_t t, std::uint32_t c) {
        return s.tiers > lossy_tiers ? 0.0 : lossy(s, t, c);
    };
}

/// By registry name without "-mono".
const std::map<std::string, Bound>& bounds() {
    static const std::map<std::string, Bound> kAll{
        {"f16", [](const Sample& s, std::uint32_t t,
                   std::uint32_t c) { return testing::half_ulp(kv::DType::f16, std::fabs(s.at(t, c))); }},
        {"int8", integers(127, 32, false, 0.5)},
        {"int4", integers(7, 32, false, 0.5)},
        {"int8-split", integers(127, 32, false, 8)},
        {"int8-g128", integers(127, 128, false, 0.5)},
        {"int4-g128", integers(7, 128, false, 0.5)},
        {"int8-token", integers(127, 0, false, 0.5)},
        {"int4-token", integers(7, 0, false, 0.5)},
        {"int8-page", integers(127, 0, true, 0.5)},
        {"int4-page", integers(7, 0, true, 0.5)},
        {"bf16-split", bf16_split},
        {"fp8-token", fp8(true)},
        {"fp8-page", fp8(false)},
        {"q8_0", ggml(127)},
        {"q4_0", ggml(8)},
        {"kivi4", kivi(15)},
        {"kivi2", kivi(3)},
        {"kvquant4", kvquant},
        {"kvquant3", kvquant},
        {"cachegen", cachegen},
        {"turboquant4", turboquant(526.0 / 4096)},
        {"turboquant3", turboquant(1004.0 / 4096)},
        {"nested44", nested({4, 4})},
        {"nested35", nested({3, 5})},
        {"nested26", nested({2, 6})},
        {"nested224", nested({2, 2, 4})},
        {"alg1", alpha({})},
        {"lynx-int4", alpha({.anchor_only = true})},
        {"alg1-a1", alpha({.alpha = 100, .chunk = 16, .twos = true})},
        {"alg1-a1-int4", alpha({.alpha = 100, .chunk = 16, .twos = true, .anchor_only = true})},
        {"alg1-nopage", alpha({})},
        {"alg1-nochunk", alpha({.chunk = kv::kPageTokensMax})},
        {"alg1-linear", alpha({.curve = AlphaCurve::linear})},
        {"alg1-log", alpha({.curve = AlphaCurve::log})},
        {"alg1-nobias", alpha({.floor = true})},
        {"alg1-nosign", alpha({.merged = true})},
        {"alg1-clip16", alpha({.highest = 120})},
        {"lynx44", alpha({.levels = 120, .centroids = true})},
        {"lynx35", alpha({.levels = 112, .residual_bits = 5, .centroids = true})},
        {"lynx53", alpha({.levels = 124, .residual_bits = 3, .centroids = true})},
        {"lynx62", alpha({.levels = 126, .residual_bits = 2, .centroids = true})},
        {"lynxt", lynxt},
        {"nested44-exact", exact(nested({4, 4}), 2)},
        {"lynxt-exact", exact(lynxt, 3)},
    };
    return kAll;
}

class ErrorBound : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const CodecInfo& c : list_codecs()) {
        names.push_back(c.name);
    }
    return names;
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, ErrorBound, ::testing::ValuesIn(all_names()), [](const auto& instance) {
    std::string name = instance.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST_P(ErrorBound, HoldsForEveryElementTierAndMetadataForm) {
    const std::string name = GetParam();
    const bool mono = name.ends_with("-mono");
    const auto bound = bounds().find(mono ? name.substr(0, name.size() - 5) : name);
    ASSERT_NE(bound, bounds().end()) << "state a bound in FORMAT.md and here";
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        for (const kv::DType dtype : {kv::DType::f16, kv::DType::bf16, kv::DType::f32}) {
            CodecParams params;
            params.page_tokens = 64;
            params.chunk_tokens = 7;
            params.meta = meta;
            const auto codec = make_page_codec(name, params).value();
            const Page page = random_page(dtype, kTokens, kChannels, static_cast<std::uint64_t>(meta) + 1);
            const auto payloads = testing::encode_or_die(*codec, page.view());
            PageSymbols metadata;
            ASSERT_TRUE(codec->inspect(testing::views(payloads, payloads.size()), metadata).ok());
            for (std::size_t tiers = 1; tiers <= payloads.size(); ++tiers) {
                const Page back = testing::decode_or_die(*codec, payloads, tiers, page.view());
                const Sample sample{page, params, mono ? 3 : tiers, metadata};
                if (codec->info().exact && tiers == payloads.size()) {
                    ASSERT_TRUE(back.same_elements(page));
                }
                for (std::uint32_t t = 0; t < kTokens; ++t) {
                    for (std::uint32_t c = 0; c < kChannels; ++c) {
                        const double e = bound->second(sample, t, c);
                        const double x = page.at(t, c);
                        ASSERT_LE(std::fabs(back.at(t, c) - x), e + testing::half_ulp(dtype, std::fabs(x) + e))
                            << "tier " << tiers - 1 << " token " << t << " channel " << c << " x " << x;
                    }
                }
            }
        }
    }
}

/// FORMAT 7: how much wider than the data the stored spread may be.
TEST(AlphaSpread, IsCloseToWhatTheChunkNeeds) {
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        CodecParams params;
        params.chunk_tokens = 7;
        params.meta = meta;
        const auto codec = make_page_codec("alg1", params).value();
        const Page page = random_page(kv::DType::f32, kTokens, kChannels, 5);
        PageSymbols m;
        const auto payloads = testing::encode_or_die(*codec, page.view());
        ASSERT_TRUE(codec->inspect(testing::views(payloads, 2), m).ok());
        for (std::uint32_t c = 0; c < kChannels; ++c) {
            for (std::uint32_t first = 0; first < kTokens; first += 7) {
                const std::uint32_t end = std::min(first + 7, kTokens);
                double mean = 0;
                for (std::uint32_t t = first; t < end; ++t) {
                    mean += page.at(t, c) / (end - first);
                }
                double deviation = 0;
                for (std::uint32_t t = first; t < end; ++t) {
                    deviation = std::max(deviation, std::fabs(page.at(t, c) - mean));
                }
                const double scale = static_cast<double>(m.gamma_scale[c]);
                const double spread = scale * static_cast<double>(m.sigma[std::size_t{first / 7} * kChannels + c]);
                const double allowed = meta == MetaFormat::f32   ? deviation * (1 + 1e-6)
                                       : meta == MetaFormat::f16 ? (1 + 0x1p-9) * (deviation + scale * 0x1p-11)
                                                                 : deviation + scale / 127;
                ASSERT_LE(spread, allowed + scale * 1e-6) << static_cast<int>(meta) << " channel " << c;
            }
        }
    }
}

}  // namespace
}  // namespace lynx::codec
