// The alpha-law exhaustively: every level and sign, every pair of symbols, and the tables against their closed form.
#include "codec/ref/alpha_law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "codec/payload.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;

int quantise_one(const AlphaLaw& law, float a) {
    std::uint8_t level = 0;
    law.quantise(&a, 1, &level);
    return level;
}

TEST(AlphaLaw, WorkedExampleOfThePaper) {
    const AlphaLaw law(255.0F, kAlg1Levels);
    const int level = quantise_one(law, 0.673F);
    EXPECT_EQ(level, 118);
    const AlphaSymbols s = split_level(level, false);
    EXPECT_EQ(s.q_anc, 7);
    EXPECT_EQ(s.q_res, -6);
    EXPECT_NEAR(law.magnitude(16 * s.q_anc), 0.518, 5e-4);
    EXPECT_NEAR(law.magnitude(level), 0.674, 5e-4);
}

TEST(AlphaLaw, AllLevelsAndSignsSplitIntoDistinctSymbolsAndJoinAgain) {
    for (const auto [levels, q_min, q_max] : {std::array{kAlg1Levels, -9, 8}, std::array{kLynx44Levels, -8, 7}}) {
        std::set<std::pair<int, int>> seen;
        for (int level = 0; level <= levels; ++level) {
            for (const bool negative : {false, true}) {
                const AlphaSymbols s = split_level(level, negative);
                EXPECT_GE(s.q_anc, q_min);
                EXPECT_LE(s.q_anc, q_max);
                EXPECT_GE(s.q_res, -8);
                EXPECT_LE(s.q_res, 7);
                EXPECT_EQ(s.q_anc < 0, negative);
                EXPECT_EQ(join_level(s), level);
                EXPECT_TRUE(seen.insert({s.q_anc, s.q_res}).second);
            }
        }
        EXPECT_EQ(seen.size(), 2U * (static_cast<std::size_t>(levels) + 1));
    }
}

TEST(AlphaLaw, TablesAreTheClosedForm) {
    for (const float alpha : {0x1p-10F, 0.5F, 1.0F, 5.0F, 100.0F, 255.0F, 0x1p20F}) {
        for (const int levels : {kAlg1Levels, kLynx44Levels}) {
            const AlphaLaw law(alpha, levels);
            const double a = static_cast<double>(alpha);
            for (int i = 0; i <= levels; ++i) {
                const double expected = std::expm1(std::log1p(a) * i / levels) / a;
                EXPECT_NEAR(static_cast<double>(law.magnitude(i)), expected, 2e-7 * expected + 1e-12)
                    << alpha << " " << i;
            }
            EXPECT_EQ(law.magnitude(0), 0.0F);
            EXPECT_EQ(law.magnitude(levels), 1.0F);
        }
    }
}

TEST(AlphaLaw, EveryLevelQuantisesToItselfAndThresholdsAreHalfway) {
    for (const float alpha : {0.5F, 5.0F, 255.0F}) {
        for (const int levels : {kAlg1Levels, kLynx44Levels}) {
            const AlphaLaw law(alpha, levels);
            for (int i = 0; i <= levels; ++i) {
                EXPECT_EQ(quantise_one(law, law.magnitude(i)), i);
            }
            const double a = static_cast<double>(alpha);
            for (int k = 0; k < 20000; ++k) {
                const double x = k / 19999.0;
                const double y = std::log1p(a * x) / std::log1p(a) * levels;
                if (std::fabs(y - std::floor(y) - 0.5) > 1e-3) {
                    EXPECT_EQ(quantise_one(law, static_cast<float>(x)), std::lrint(y)) << alpha << " " << x;
                }
            }
        }
    }
}

/// Replaces the first element's symbols of an encoded page, seals it again, and decodes it.
Status decode_with_symbols(const Codec& codec, const std::vector<base::Bytes>& payloads, std::uint64_t anchor_first,
                           std::size_t anchor_bytes, std::size_t anchor_offset, std::uint8_t residual) {
    auto changed = payloads;
    std::memcpy(changed[0].data() + anchor_offset, &anchor_first, anchor_bytes);
    PayloadHeader h0 = parse_payload(payloads[0]).value().header;
    PayloadHeader h1 = parse_payload(payloads[1]).value().header;
    h1.anchor_crc = seal_payload(h0, changed[0]);
    changed[1][kHeaderBytes] = static_cast<std::byte>(residual);
    seal_payload(h1, changed[1]);
    Page back(kv::DType::f16, 1, 1);
    return codec.decode(testing::views(changed, 2), back.view());
}

TEST(AlphaLaw, EveryPairOfSymbolsDecodesOrIsCorrupt) {
    for (const auto& [name, digits, levels] :
         {std::tuple{"alg1", 18, kAlg1Levels}, std::tuple{"lynx44", 16, kLynx44Levels}}) {
        const auto codec = codec_or_die(name);
        const Page page = random_page(kv::DType::f16, 1, 1, 1);
        const auto payloads = encode_or_die(*codec, page.view());
        const bool words = digits == 18;
        const std::size_t bytes = words ? 8 : 1;
        int valid = 0;
        for (int digit = 0; digit < digits; ++digit) {
            for (std::uint8_t nibble = 0; nibble < 16; ++nibble) {
                const int q_anc = digit - digits / 2;
                const int level = join_level({q_anc, (nibble ^ 8) - 8});
                const auto symbol = static_cast<std::uint64_t>(words ? digit : q_anc & 15);
                const Status s =
                    decode_with_symbols(*codec, payloads, symbol, bytes, payloads[0].size() - bytes, nibble);
                const bool expected = level >= 0 && level <= levels;
                EXPECT_EQ(s.ok(), expected) << name << " " << q_anc << " " << int{nibble};
                valid += s.ok() ? 1 : 0;
            }
        }
        EXPECT_EQ(valid, 2 * (levels + 1));
        if (words) {
            EXPECT_EQ(decode_with_symbols(*codec, payloads, 18, 8, payloads[0].size() - 8, 0).code(),
                      ErrorCode::corrupt);
        }
    }
}

}  // namespace
}  // namespace lynx::codec
