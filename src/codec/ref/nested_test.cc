#include "codec/ref/nested.h"

#include <gtest/gtest.h>

#include "codec/math/nested_math.h"
#include "codec/payload.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::decode_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;

TEST(NestedChannel, PacksEveryFieldAndCoversItsRange) {
    base::Rng rng(1);
    for (int i = 0; i < 200000; ++i) {
        const double offset = (rng.unit() - 0.5) * std::ldexp(1.0, static_cast<int>(rng.below(80)) - 40);
        const double spread = rng.unit() * std::ldexp(1.0, static_cast<int>(rng.below(80)) - 40);
        const auto min = static_cast<float>(offset);
        const auto max = std::max(min, static_cast<float>(offset + spread));
        const NestedChannel c = nested_channel(min, max);
        ASSERT_GE(c.base, -4096);
        ASSERT_LE(c.base, 4095);
        ASSERT_GE(c.range, 0);
        ASSERT_LE(c.range, 2047);
        const NestedChannel same = unpack_nested_channel(pack_nested_channel(c));
        ASSERT_EQ(same.base, c.base);
        ASSERT_EQ(same.range, c.range);
        ASSERT_EQ(same.exponent, c.exponent);
        ASSERT_LE(std::ldexp(c.base, c.exponent), static_cast<double>(min));
        ASSERT_GE(std::ldexp(c.base + 4 * c.range, c.exponent), static_cast<double>(max));
        ASSERT_LE(std::ldexp(4 * c.range, c.exponent),
                  static_cast<double>(max) - static_cast<double>(min) + std::ldexp(5.0, c.exponent));
    }
}

TEST(Nested44, EveryConstantHalfIsExact) {
    const auto codec = codec_or_die("nested44");
    for (std::uint32_t first = 0; first < 0x10000U; first += 512) {
        Page page(kv::DType::f16, 3, 512);
        for (std::uint32_t c = 0; c < 512; ++c) {
            const auto h = static_cast<std::uint16_t>(first + c);
            const float x = (h & 0x7C00U) == 0x7C00U || h == 0x8000U ? 0.0F : base::f16_to_f32(h);
            for (std::uint32_t t = 0; t < 3; ++t) {
                page.set(t, c, x);
            }
        }
        const auto payloads = encode_or_die(*codec, page.view());
        ASSERT_TRUE(decode_or_die(*codec, payloads, 1, page.view()).same_elements(page)) << first;
        ASSERT_TRUE(decode_or_die(*codec, payloads, 2, page.view()).same_elements(page)) << first;
    }
}

/// Every (chunk cells, index) corner of the integer formula against exact arithmetic.
TEST(Nested44, DecodeIsTheIntegerFormulaForAllPairsOfNibbles) {
    const auto codec = codec_or_die("nested44");
    const std::uint32_t channels = 256;  // channel = the full 8-bit index
    Page page(kv::DType::f32, 1, channels);
    const auto payloads = encode_or_die(*codec, page.view());
    const auto header = [&](std::size_t t) { return parse_payload(payloads[t]).value().header; };
    for (const auto& [b, s, e] : {std::array{-4096, 2047, 3}, std::array{4095, 2047, -20}, std::array{-17, 1, 0},
                                  std::array{100, 0, 5}, std::array{0, 777, -100}, std::array{-1, 2047, 90}}) {
        for (const auto& [lo, hi] : {std::pair{0, 255}, std::pair{255, 255}, std::pair{0, 0}, std::pair{13, 200}}) {
            auto made = payloads;
            std::byte* p = made[0].data() + kHeaderBytes;
            for (std::uint32_t c = 0; c < channels; ++c) {
                const std::uint32_t word = pack_nested_channel({e, b, s});
                std::memcpy(p + std::size_t{c} * 4, &word, 4);
                p[channels * 4 + c] = static_cast<std::byte>(lo);
                p[channels * 5 + c] = static_cast<std::byte>(hi);
            }
            for (std::uint32_t i = 0; i < channels / 2; ++i) {
                const std::uint32_t even = 2 * i;
                const std::uint32_t odd = even + 1;
                p[channels * 6 + i] = static_cast<std::byte>((even >> 4U) | (odd >> 4U) << 4U);
                made[1][kHeaderBytes + i] = static_cast<std::byte>((even & 15U) | (odd & 15U) << 4U);
            }
            PayloadHeader h1 = header(1);
            h1.anchor_crc = seal_payload(header(0), made[0]);
            seal_payload(h1, made[1]);
            const Page anchor = decode_or_die(*codec, made, 1, page.view());
            const Page full = decode_or_die(*codec, made, 2, page.view());
            for (std::uint32_t c = 0; c < channels; ++c) {
                const auto value = [&, b = b, s = s, e = e, lo = lo, hi = hi](std::int64_t t) {
                    const std::int64_t fixed = std::int64_t{b} * 1024 + ((s * (512 * lo + (hi - lo + 1) * t)) >> 5);
                    return std::ldexp(static_cast<double>(fixed), e - 10);
                };
                ASSERT_EQ(full.at(0, c), value(2 * std::int64_t{c} + 1));
                ASSERT_EQ(anchor.at(0, c), value(32 * std::int64_t{c / 16} + 16));
            }
        }
    }
}

TEST(Nested44, MadeUpMetadataIsCorrupt) {
    const auto codec = codec_or_die("nested44");
    const Page page = random_page(kv::DType::f16, 2, 2, 4);
    const auto payloads = encode_or_die(*codec, page.view());
    const auto decode_with = [&](std::size_t offset, std::uint8_t value) {
        auto made = payloads;
        made[0][kHeaderBytes + offset] = static_cast<std::byte>(value);
        seal_payload(parse_payload(payloads[0]).value().header, made[0]);
        Page back(kv::DType::f16, 2, 2);
        return codec->decode(testing::views(made, 1), back.view()).code();
    };
    EXPECT_EQ(decode_with(3, 118), ErrorCode::corrupt);   // exponent of channel 0
    EXPECT_EQ(decode_with(7, 0x9B), ErrorCode::corrupt);  // -101, channel 1
    auto reversed = payloads;
    reversed[0][kHeaderBytes + 9] = std::byte{9};
    reversed[0][kHeaderBytes + 11] = std::byte{8};
    seal_payload(parse_payload(payloads[0]).value().header, reversed[0]);
    Page back(kv::DType::f16, 2, 2);
    EXPECT_EQ(codec->decode(testing::views(reversed, 1), back.view()).code(), ErrorCode::corrupt);
}

struct ExactCase {
    PageContext context;
    std::uint32_t tokens;
    std::uint32_t head;
    std::uint32_t tail;
};

TEST(Nested44, FirstAndNewestTokensAreExactInTheAnchor) {
    CodecParams params;
    params.page_tokens = 64;
    const auto codec = codec_or_die("nested44", params);
    for (const ExactCase& x :
         {ExactCase{{0, 200}, 64, 4, 0}, ExactCase{{64, 200}, 64, 0, 0}, ExactCase{{128, 200}, 64, 0, 8},
          ExactCase{{192, 200}, 8, 0, 8}, ExactCase{{0, 64}, 64, 4, 16}, ExactCase{{0, 10}, 10, 4, 6},
          ExactCase{{0, 3}, 3, 3, 0}, ExactCase{{0, 0}, 64, 0, 0}, ExactCase{{2, 500}, 64, 2, 0}}) {
        const Page page = random_page(kv::DType::f16, x.tokens, 70, 3);
        const auto payloads = encode_or_die(*codec, page.view(), x.context);
        const PayloadHeader h = parse_payload(payloads[0]).value().header;
        EXPECT_EQ(h.exact_head, x.head);
        EXPECT_EQ(h.exact_tail, x.tail);
        for (std::size_t tiers = 1; tiers <= 2; ++tiers) {
            const Page back = decode_or_die(*codec, payloads, tiers, page.view());
            std::uint32_t differing = 0;
            for (std::uint32_t t = 0; t < x.tokens; ++t) {
                const bool exact = t < x.head || t >= x.tokens - x.tail;
                for (std::uint32_t c = 0; c < 70; ++c) {
                    const bool same = std::memcmp(back.view().at(t, c), page.view().at(t, c), 2) == 0;
                    EXPECT_TRUE(same || !exact) << "token " << t;
                    differing += same ? 0 : 1;
                }
            }
            EXPECT_EQ(differing > 0, x.head + x.tail < x.tokens);
        }
    }
}

TEST(Nested44, ExactRowsDoNotWidenTheCore) {
    CodecParams params;
    params.page_tokens = 64;
    const auto codec = codec_or_die("nested44", params);
    Page calm = random_page(kv::DType::f16, 64, 8, 5);
    const Page before = decode_or_die(*codec, encode_or_die(*codec, calm.view(), {0, 1000}), 1, calm.view());
    for (std::uint32_t c = 0; c < 8; ++c) {
        calm.set(0, c, 60000.0F);  // a sink
    }
    const Page after = decode_or_die(*codec, encode_or_die(*codec, calm.view(), {0, 1000}), 1, calm.view());
    for (std::uint32_t t = 4; t < 64; ++t) {
        for (std::uint32_t c = 0; c < 8; ++c) {
            EXPECT_EQ(before.at(t, c), after.at(t, c));
        }
    }
}

TEST(Nested44, BitsOfARealPageShape) {
    const auto codec = codec_or_die("nested44");
    const Page page = random_page(kv::DType::f16, 256, 192, 6);
    const auto payloads = encode_or_die(*codec, page.view());
    const double elements = 256 * 192;
    EXPECT_LE(8.0 * static_cast<double>(payloads[0].size()) / elements, 4.65);
    EXPECT_LE(8.0 * static_cast<double>(payloads[0].size() + payloads[1].size()) / elements, 8.65);
}

}  // namespace
}  // namespace lynx::codec
