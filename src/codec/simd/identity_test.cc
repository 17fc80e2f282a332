// Every SIMD target gives the scalar backend's payloads and elements, byte for byte: random and adversarial pages, all dtypes
// and layouts. LYNX_IDENTITY_ELEMENTS sets how many elements each codec, target, dtype and layout sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <tuple>

#include "codec/payload.h"
#include "codec/ref/alpha_law.h"
#include "codec/simd/backend.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::Page;
using testing::random_page;
using testing::views;

constexpr kv::DType kAllDTypes[] = {kv::DType::f16, kv::DType::bf16, kv::DType::f32};
constexpr std::string_view kKernelCodecs[] = {"nested44", "lynx44", "nested44-exact"};

std::uint64_t elements_wanted() {
    const char* text = std::getenv("LYNX_IDENTITY_ELEMENTS");
    return text == nullptr ? 400'000 : std::strtoull(text, nullptr, 10);
}

/// The runnable SIMD targets; those that this CPU cannot run are named on stderr.
std::vector<std::string> runnable_targets() {
    std::vector<std::string> names;
    for (const simd::SimdTarget& t : simd::list_targets()) {
        if (t.runnable) {
            names.push_back(t.name);
        } else {
            std::cerr << "SKIPPED: SIMD target " << t.name << ": this CPU does not run it\n";
        }
    }
    return names;
}

void set_bits(kv::View v, std::uint32_t t, std::uint32_t c, std::uint32_t bits) {
    if (v.dtype == kv::DType::f32) {
        std::memcpy(v.at(t, c), &bits, 4);
    } else {
        const auto half = static_cast<std::uint16_t>(bits);
        std::memcpy(v.at(t, c), &half, 2);
    }
}

/// A finite pattern of the dtype, all equally likely.
std::uint32_t any_finite(kv::DType dtype, base::Rng& rng) {
    for (;;) {
        const auto bits = static_cast<std::uint32_t>(rng());
        switch (dtype) {
            case kv::DType::f16:
                if ((bits & 0x7C00U) != 0x7C00U) {
                    return bits & 0xFFFFU;
                }
                break;
            case kv::DType::bf16:
                if ((bits & 0x7F80U) != 0x7F80U) {
                    return bits & 0xFFFFU;
                }
                break;
            case kv::DType::f32:
                if ((bits & 0x7F800000U) != 0x7F800000U) {
                    return bits;
                }
                break;
        }
    }
}

/// Pages of one kind per channel: any pattern, neighbours in value, constants, zeros of both signs, denormals, huge values, one
/// outlier, two values that alternate.
void fill_adversarial(kv::View v, base::Rng& rng) {
    const std::uint32_t sign = v.dtype == kv::DType::f32 ? 0x80000000U : 0x8000U;
    const std::uint32_t largest =
        v.dtype == kv::DType::f32 ? 0x7F7FFFFFU : (v.dtype == kv::DType::f16 ? 0x7BFFU : 0x7F7FU);
    for (std::uint32_t c = 0; c < v.channels; ++c) {
        const std::uint64_t kind = rng.below(10);
        const std::uint32_t constant = any_finite(v.dtype, rng);
        const std::uint32_t other = any_finite(v.dtype, rng);
        for (std::uint32_t t = 0; t < v.tokens; ++t) {
            std::uint32_t bits = 0;
            switch (kind) {
                case 0: bits = any_finite(v.dtype, rng); break;
                case 1:
                    bits = std::min(constant & ~sign, largest - 40) + static_cast<std::uint32_t>(rng.below(40));
                    break;
                case 2: bits = constant; break;
                case 3: bits = rng.below(2) == 0 ? sign : 0; break;
                case 4: bits = static_cast<std::uint32_t>(rng.below(60)) | (rng.below(2) == 0 ? sign : 0); break;
                case 5:
                    bits = (largest - static_cast<std::uint32_t>(rng.below(3))) | (rng.below(2) == 0 ? sign : 0);
                    break;
                case 6: bits = rng.below(v.tokens) == 0 ? other : constant; break;
                case 7: bits = t % 2 == 0 ? constant : other; break;
                default: testing::write_element(v, t, c, static_cast<float>(rng.unit() + rng.unit() - 1.0)); continue;
            }
            set_bits(v, t, c, bits);
        }
    }
}

struct Shape {
    std::uint32_t tokens;
    std::uint32_t channels;
};

class Comparison {
public:
    Comparison(std::string_view codec, const CodecParams& params, const std::string& target)
        : scalar_(codec_or_die(codec, params, "scalar")), simd_(codec_or_die(codec, params, target)) {}

    /// Encodes and decodes with both and compares every byte.
    void check(const Page& page, const PageContext& context, bool channel_major, std::uint32_t gap) {
        const kv::View v = page.view();
        std::vector<base::Bytes> expected(scalar_->info().tiers);
        std::vector<base::Bytes> actual(expected.size());
        ASSERT_TRUE(scalar_->encode(v, context, expected).ok());
        ASSERT_TRUE(simd_->encode(v, context, actual).ok());
        for (std::size_t t = 0; t < expected.size(); ++t) {
            ASSERT_EQ(actual[t].size(), expected[t].size());
            // The body first: a checksum in the header differs whenever anything does.
            const auto body = static_cast<std::ptrdiff_t>(kHeaderBytes);
            auto [a, e] = std::mismatch(actual[t].begin() + body, actual[t].end(), expected[t].begin() + body);
            if (a == actual[t].end()) {
                std::tie(a, e) = std::mismatch(actual[t].begin(), actual[t].end(), expected[t].begin());
            }
            ASSERT_TRUE(a == actual[t].end()) << "tier " << t << " offset " << (a - actual[t].begin()) << " of "
                                              << actual[t].size() << ", page " << v.tokens << " x " << v.channels;
        }
        compare_decoded(expected, v, channel_major, gap);
    }

    /// Decodes with both: they must agree on the outcome and, where it is good, on every element.
    void compare_decoded(const std::vector<base::Bytes>& payloads, kv::ConstView like, bool channel_major,
                         std::uint32_t gap) {
        for (std::size_t tiers = 1; tiers <= payloads.size(); ++tiers) {
            Page expected(like.dtype, like.tokens, like.channels, channel_major, gap);
            Page actual(like.dtype, like.tokens, like.channels, channel_major, gap);
            const Status good = scalar_->decode(views(payloads, tiers), expected.view());
            const Status same = simd_->decode(views(payloads, tiers), actual.view());
            ASSERT_EQ(same.code(), good.code()) << same.to_string() << " / " << good.to_string();
            ASSERT_TRUE(!good.ok() || actual.same_memory(expected))
                << "tiers " << tiers << ", page " << like.tokens << " x " << like.channels;
        }
    }

    [[nodiscard]] const Codec& scalar() const { return *scalar_; }

private:
    std::unique_ptr<Codec> scalar_;
    std::unique_ptr<Codec> simd_;
};

struct Case {
    std::string codec;
    std::string target;
};

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    for (const std::string& target : runnable_targets()) {
        for (const std::string_view codec : kKernelCodecs) {
            cases.push_back({std::string(codec), target});
        }
    }
    return cases;
}

class Identity : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Targets, Identity, ::testing::ValuesIn(all_cases()), [](const auto& instance) {
    std::string name = instance.param.codec + "_" + instance.param.target;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Identity);  // a CPU without any of the targets

constexpr Shape kShapes[] = {{256, 128}, {1, 1},   {64, 64},  {33, 67},  {40, 1},    {1, 200}, {17, 63},
                             {100, 65},  {31, 66}, {256, 96}, {7, 1100}, {200, 192}, {32, 64}, {255, 2}};

TEST_P(Identity, PayloadsAndElementsOfEveryLayout) {
    for (const kv::DType dtype : kAllDTypes) {
        for (const bool channel_major : {false, true}) {
            base::Rng rng(static_cast<std::uint64_t>(dtype) * 2 + (channel_major ? 1 : 0));
            std::uint64_t elements = 0;
            for (std::uint64_t i = 0; elements < elements_wanted(); ++i) {
                CodecParams params;
                params.chunk_tokens = std::array<std::uint16_t, 6>{32, 32, 16, 7, 1, 100}[i % 6];
                params.meta = static_cast<MetaFormat>(i % 3);
                params.alpha = std::array{255.0F, 5.0F, 100.0F, 0x1p-10F, 0x1p20F}[i % 5];
                const Shape shape = kShapes[i % std::size(kShapes)];
                const auto gap = static_cast<std::uint32_t>(rng.below(3) == 0 ? rng.below(5) : 0);
                Page page(dtype, shape.tokens, shape.channels, channel_major, gap);
                if (i % 2 == 0) {
                    fill_adversarial(page.view(), rng);
                } else {
                    page.copy_from(random_page(dtype, shape.tokens, shape.channels, rng()));
                }
                Comparison both(GetParam().codec, params, GetParam().target);
                PageContext context;
                context.sequence_tokens = static_cast<std::uint32_t>(rng.below(2) * (shape.tokens + rng.below(20)));
                both.check(page, context, channel_major, gap);
                ASSERT_FALSE(HasFatalFailure()) << "round " << i << " dtype " << static_cast<int>(dtype)
                                                << " channel-major " << channel_major << " gap " << gap;
                elements += std::uint64_t{shape.tokens} * shape.channels;
            }
        }
    }
}

/// Every finite float16, in value order, in bit order, and each as a constant channel.
TEST_P(Identity, EveryFiniteHalf) {
    Comparison both(GetParam().codec, CodecParams{}, GetParam().target);
    Page in_order(kv::DType::f16, 256, 256);
    Page constants(kv::DType::f16, 3, 512);
    for (std::uint32_t h = 0; h < 0x10000U; ++h) {
        const std::uint32_t finite = (h & 0x7C00U) == 0x7C00U ? 0U : h;
        set_bits(in_order.view(), h % 256, h / 256, finite);
        for (std::uint32_t t = 0; t < 3; ++t) {
            set_bits(constants.view(), t, h % 512, finite);
        }
        if (h % 512 == 511) {
            both.check(constants, {}, false, 0);
            ASSERT_FALSE(HasFatalFailure()) << h;
        }
    }
    both.check(in_order, {}, false, 0);
    ASSERT_FALSE(HasFatalFailure());
    Page by_row(kv::DType::f16, 256, 256);
    for (std::uint32_t h = 0; h < 0x10000U; ++h) {
        set_bits(by_row.view(), h / 256, h % 256, (h & 0x7C00U) == 0x7C00U ? 0U : h);
    }
    both.check(by_row, {}, false, 0);
}

/// Magnitudes around every decision threshold of lynx44, and dense ones in between, for alphas at both ends of the estimate.
TEST_P(Identity, LevelsAroundTheirThresholds) {
    for (const float alpha : {1.0F, 5.0F, 100.0F, 255.0F, 4096.0F}) {
        CodecParams params;
        params.alpha = alpha;
        params.page_tokens = 4096;
        params.chunk_tokens = 1024;
        Comparison both(GetParam().codec, params, GetParam().target);
        const AlphaLaw law(alpha, kLynx44Levels);
        Page page(kv::DType::f32, 4096, 64);
        base::Rng rng(5);
        for (std::uint32_t c = 0; c < 64; ++c) {
            for (std::uint32_t t = 0; t < 4096; t += 2) {
                // A chunk from -1 to 1 whose elements come in pairs x, -x has mean 0 and spread 1 to the bit, or nearly.
                float x = 1.0F;
                if (t % 1024 != 0) {
                    const float threshold = law.thresholds()[1 + rng.below(kLynx44Levels)];
                    const auto ulps = static_cast<int>(rng.below(41)) - 20;
                    x = rng.below(4) == 0 ? static_cast<float>(rng.unit())
                                          : threshold * (1.0F + static_cast<float>(ulps) * 0x1p-23F);
                }
                page.set(t, c, x);
                page.set(t + 1, c, -x);
            }
        }
        both.check(page, {}, false, 0);
        ASSERT_FALSE(HasFatalFailure()) << alpha;
    }
}

/// Made-up bodies behind a valid checksum: the same outcome and the same elements.
TEST_P(Identity, HostileBodies) {
    for (const kv::DType dtype : kAllDTypes) {
        base::Rng rng(static_cast<std::uint64_t>(dtype) + 77);
        for (int round = 0; round < 150; ++round) {
            CodecParams params;
            params.chunk_tokens = 16;
            params.meta = static_cast<MetaFormat>(round % 3);
            Comparison both(GetParam().codec, params, GetParam().target);
            const Page page = random_page(dtype, 37, round % 2 == 0 ? 70 : 128, rng());
            std::vector<base::Bytes> payloads(both.scalar().info().tiers);
            ASSERT_TRUE(both.scalar().encode(page.view(), {}, payloads).ok());
            std::uint32_t anchor_crc = 0;
            const std::uint64_t damage = rng.below(3);
            for (base::Bytes& payload : payloads) {
                PayloadHeader header = parse_payload(payload).value().header;
                for (std::size_t i = kHeaderBytes; i < payload.size(); ++i) {
                    if (damage == 0 || (damage == 1 && rng.below(30) == 0)) {
                        payload[i] = static_cast<std::byte>(rng() & 255U);
                    }
                }
                if (damage == 2 &&
                    header.tier == 0) {  // wild but legal exponents, for codecs with channel words in front
                    for (std::uint32_t c = 0; c < header.channels; ++c) {
                        payload[kHeaderBytes + std::size_t{c} * 4 + 3] =
                            static_cast<std::byte>(static_cast<int>(rng.below(218)) - 100);
                    }
                }
                header.anchor_crc = anchor_crc;
                const std::uint32_t crc = seal_payload(header, payload);
                anchor_crc = header.tier == 0 ? crc : anchor_crc;
            }
            both.compare_decoded(payloads, page.view(), round % 4 == 3, 0);
            ASSERT_FALSE(HasFatalFailure()) << "round " << round << " dtype " << static_cast<int>(dtype);
        }
    }
}

/// A NaN or an infinity anywhere is refused with the reference's message, or encoded to its bytes.
TEST_P(Identity, NonFiniteElements) {
    const auto scalar = codec_or_die(GetParam().codec, {}, "scalar");
    const auto target = codec_or_die(GetParam().codec, {}, GetParam().target);
    std::vector<base::Bytes> out(scalar->info().tiers);
    base::Rng rng(3);
    for (const kv::DType dtype : kAllDTypes) {
        for (const bool channel_major : {false, true}) {
            for (int round = 0; round < 20; ++round) {
                Page page(dtype, 45, 70, channel_major, 0);
                page.copy_from(random_page(dtype, 45, 70, rng()));
                const std::uint32_t exponent =
                    dtype == kv::DType::f16 ? 0x7C00U : (dtype == kv::DType::bf16 ? 0x7F80U : 0x7F800000U);
                set_bits(page.view(), static_cast<std::uint32_t>(rng.below(45)),
                         static_cast<std::uint32_t>(rng.below(70)),
                         exponent | static_cast<std::uint32_t>(rng.below(2) * rng.below(64)) |
                             (rng.below(2) == 0 ? 0U : (dtype == kv::DType::f32 ? 0x80000000U : 0x8000U)));
                const PageContext context{.first_token = 0, .sequence_tokens = 50};
                const Status expected = scalar->encode(page.view(), context, out);
                EXPECT_EQ(expected.ok(), scalar->info().exact);
                const std::vector<base::Bytes> kept = out;
                EXPECT_EQ(target->encode(page.view(), context, out).to_string(), expected.to_string());
                EXPECT_TRUE(!expected.ok() || out == kept);
            }
        }
    }
}

TEST(Backends, AreListedAndRefusedByName) {
    const std::vector<BackendInfo> all = list_backends();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back().name, "scalar");
    EXPECT_TRUE(all.back().runnable);
    for (const BackendInfo& b : all) {
        const auto made = make_codec("nested44", {}, b.name);
        EXPECT_EQ(made.ok(), b.runnable) << b.name;
        EXPECT_TRUE(made.ok() || made.status().code() == ErrorCode::invalid_argument);
    }
    const Status unknown = make_codec("nested44", {}, "abacus").status();
    EXPECT_EQ(unknown.code(), ErrorCode::invalid_argument);
    for (const BackendInfo& b : all) {
        EXPECT_NE(unknown.message().find(b.name), std::string::npos);
    }
}

}  // namespace
}  // namespace lynx::codec
