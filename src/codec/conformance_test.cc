// What every codec of the registry must hold, whatever it does inside. A new registry line is tested by these.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "codec/payload.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::decode_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;
using testing::views;

constexpr kv::DType kAllDTypes[] = {kv::DType::f16, kv::DType::bf16, kv::DType::f32};
const PageContext kWholeSequence{0, 40};

class Conformance : public ::testing::TestWithParam<std::string> {};

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const CodecInfo& c : list_codecs()) {
        names.push_back(c.name);
    }
    return names;
}

CodecParams small_params(MetaFormat meta = MetaFormat::f32) {
    CodecParams p;
    p.page_tokens = 64;
    p.chunk_tokens = 16;
    p.meta = meta;
    return p;
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, Conformance, ::testing::ValuesIn(all_names()), [](const auto& instance) {
    std::string name = instance.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

TEST_P(Conformance, EveryShapeAndDTypeRoundTripsWithinTheStatedSize) {
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        const auto codec = codec_or_die(GetParam(), small_params(meta));
        for (const kv::DType dtype : kAllDTypes) {
            for (const std::uint32_t tokens : {1U, 2U, 15U, 16U, 17U, 40U, 63U, 64U}) {
                for (const std::uint32_t channels : {1U, 2U, 31U, 63U, 64U, 65U, 129U}) {
                    const Page page = random_page(dtype, tokens, channels, tokens * 1000 + channels);
                    const auto payloads = encode_or_die(*codec, page.view(), {0, tokens + 10});
                    for (std::uint8_t t = 0; t < codec->info().tiers; ++t) {
                        ASSERT_LE(payloads[t].size(), codec->encoded_bytes_max(tokens, channels, dtype, t));
                        const Page back = decode_or_die(*codec, payloads, t + 1U, page.view());
                        for (std::uint32_t c = 0; c < channels; ++c) {
                            ASSERT_TRUE(std::isfinite(back.at(tokens - 1, c)));
                        }
                    }
                }
            }
        }
    }
}

TEST_P(Conformance, StridedViewsGiveTheSamePayloadsAndElements) {
    const auto codec = codec_or_die(GetParam(), small_params());
    for (const kv::DType dtype : kAllDTypes) {
        const Page dense = random_page(dtype, 40, 67, 5);
        const auto expected = encode_or_die(*codec, dense.view(), kWholeSequence);
        for (const bool channel_major : {false, true}) {
            for (const std::uint32_t gap : {0U, 3U}) {
                Page strided(dtype, 40, 67, channel_major, gap);
                strided.copy_from(dense);
                EXPECT_EQ(encode_or_die(*codec, strided.view(), kWholeSequence), expected);
                for (std::size_t tiers = 1; tiers <= expected.size(); ++tiers) {
                    const Page back = decode_or_die(*codec, expected, tiers, dense.view());
                    Page into(dtype, 40, 67, channel_major, gap);
                    ASSERT_TRUE(codec->decode(views(expected, tiers), into.view()).ok());
                    EXPECT_TRUE(into.same_elements(back)) << "channel-major " << channel_major << " gap " << gap;
                }
            }
        }
    }
}

TEST_P(Conformance, EncodingIsDeterministicAndReusesItsBuffers) {
    const auto codec = codec_or_die(GetParam(), small_params());
    const Page page = random_page(kv::DType::f16, 33, 48, 6);
    const auto first = encode_or_die(*codec, page.view(), kWholeSequence);
    std::vector<base::Bytes> again(codec->info().tiers);
    for (base::Bytes& b : again) {
        b.assign(100000, std::byte{0xAB});
    }
    const std::byte* memory = again[0].data();
    ASSERT_TRUE(codec->encode(page.view(), kWholeSequence, again).ok());
    EXPECT_EQ(again, first);
    EXPECT_EQ(again[0].data(), memory);
}

TEST_P(Conformance, EveryProperPrefixIsTruncated) {
    const auto codec = codec_or_die(GetParam(), small_params());
    const Page page = random_page(kv::DType::f16, 9, 5, 7);
    const auto payloads = encode_or_die(*codec, page.view());
    Page back(kv::DType::f16, 9, 5);
    for (std::size_t t = 0; t < payloads.size(); ++t) {
        auto parts = views(payloads, t + 1);
        for (std::size_t n = 0; n < payloads[t].size(); ++n) {
            parts[t] = base::ByteView(payloads[t]).first(n);
            ASSERT_EQ(codec->decode(parts, back.view()).code(), ErrorCode::truncated) << "tier " << t << " bytes " << n;
        }
    }
}

TEST_P(Conformance, EveryBitFlipIsNoticed) {
    const auto codec = codec_or_die(GetParam(), small_params());
    const Page page = random_page(kv::DType::f16, 9, 5, 8);
    const auto payloads = encode_or_die(*codec, page.view());
    Page back(kv::DType::f16, 9, 5);
    for (std::size_t t = 0; t < payloads.size(); ++t) {
        auto damaged = payloads;
        for (std::size_t bit = 0; bit < payloads[t].size() * 8; ++bit) {
            damaged[t][bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
            ASSERT_FALSE(codec->decode(views(damaged, t + 1), back.view()).ok()) << "tier " << t << " bit " << bit;
            damaged[t][bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        }
        damaged[t].push_back(std::byte{0});
        EXPECT_EQ(codec->decode(views(damaged, t + 1), back.view()).code(), ErrorCode::corrupt);
    }
}

/// Seals a damaged body or header anew, so that what lies behind the checksum meets hostile bytes too.
TEST_P(Conformance, HostileBytesBehindAValidChecksumAreSafe) {
    const auto codec = codec_or_die(GetParam(), small_params(MetaFormat::f16));
    const Page page = random_page(kv::DType::f16, 37, 21, 9);
    const auto payloads = encode_or_die(*codec, page.view(), kWholeSequence);
    base::Rng rng(10);
    Page back(kv::DType::f16, 37, 21);
    for (int round = 0; round < 3000; ++round) {
        auto hostile = payloads;
        const std::size_t t = rng.below(payloads.size());
        PayloadHeader header = parse_payload(payloads[t]).value().header;
        for (std::uint64_t i = 0; i < 1 + rng.below(40); ++i) {
            hostile[t][kHeaderBytes + rng.below(hostile[t].size() - kHeaderBytes)] =
                static_cast<std::byte>(rng() & 255U);
        }
        switch (rng.below(6)) {
            case 0: header.tokens = static_cast<std::uint32_t>(rng()); break;
            case 1: header.channels = static_cast<std::uint32_t>(rng.below(70000)); break;
            case 2: header.exact_head = static_cast<std::uint16_t>(rng()); break;
            case 3: header.params.chunk_tokens = static_cast<std::uint16_t>(rng()); break;
            default: break;
        }
        seal_payload(header, hostile[t]);
        const Status s = codec->decode(views(hostile, payloads.size()), back.view());
        ASSERT_TRUE(s.ok() || s.code() == ErrorCode::corrupt || s.code() == ErrorCode::invalid_argument)
            << s.to_string();
    }
}

TEST_P(Conformance, RandomBytesAreRefused) {
    const auto codec = codec_or_die(GetParam(), small_params());
    base::Rng rng(11);
    Page back(kv::DType::f16, 8, 8);
    for (int round = 0; round < 2000; ++round) {
        base::Bytes bytes(rng.below(300));
        for (std::byte& b : bytes) {
            b = static_cast<std::byte>(rng() & 255U);
        }
        const base::ByteView part(bytes);
        EXPECT_FALSE(codec->decode(std::span(&part, 1), back.view()).ok());
    }
}

/// By codecs that cannot keep them; those with an exact tier do.
TEST_P(Conformance, NonFiniteElementsAreNamed) {
    const auto codec = codec_or_die(GetParam(), small_params());
    for (const kv::DType dtype : kAllDTypes) {
        for (const bool channel_major : {false, true}) {
            Page page(dtype, 20, 70, channel_major, 1);
            page.copy_from(random_page(dtype, 20, 70, 12));
            std::vector<base::Bytes> out(codec->info().tiers);
            for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::quiet_NaN()}) {
                page.set(13, 66, bad);
                const Status s = codec->encode(page.view(), {64, 0}, out);
                if (codec->info().exact) {
                    EXPECT_TRUE(s.ok() && decode_or_die(*codec, out, out.size(), page.view()).same_elements(page));
                    continue;
                }
                EXPECT_EQ(s.code(), ErrorCode::invalid_argument) << bad;
                EXPECT_NE(s.message().find("token 77, channel 66"), std::string::npos) << s.message();
            }
        }
    }
}

TEST_P(Conformance, ExtremeFinitePagesEncodeAndStayFinite) {
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        const auto codec = codec_or_die(GetParam(), small_params(meta));
        for (const kv::DType dtype : kAllDTypes) {
            const float largest = dtype == kv::DType::f16 ? 65504.0F : 0x1.FEp127F;
            const float smallest = dtype == kv::DType::f16 ? 0x1p-24F : 0x1p-133F;
            Page page(dtype, 20, 7);
            for (std::uint32_t t = 0; t < 20; ++t) {
                page.set(t, 0, t % 2 == 0 ? largest : -largest);
                page.set(t, 1, t == 3 ? largest : 0.0F);
                page.set(t, 2, t % 3 == 0 ? smallest : -smallest);
                page.set(t, 3, -0.0F);
                page.set(t, 4, t == 0 ? -largest : smallest);
                page.set(t, 5, largest);
                page.set(t, 6, t % 2 == 0 ? -largest : -largest / 2);
            }
            const auto payloads = encode_or_die(*codec, page.view());
            for (std::size_t tiers = 1; tiers <= payloads.size(); ++tiers) {
                const Page back = decode_or_die(*codec, payloads, tiers, page.view());
                for (std::uint32_t t = 0; t < 20; ++t) {
                    for (std::uint32_t c = 0; c < 7; ++c) {
                        ASSERT_TRUE(std::isfinite(back.at(t, c))) << "token " << t << " channel " << c;
                    }
                }
            }
        }
    }
}

TEST_P(Conformance, TiersOfDifferentPagesDoNotMix) {
    const auto codec = codec_or_die(GetParam(), small_params());
    if (codec->info().tiers < 2) {
        return;
    }
    const Page one = random_page(kv::DType::f16, 9, 5, 13);
    const Page two = random_page(kv::DType::f16, 9, 5, 14);
    auto mixed = encode_or_die(*codec, one.view());
    const auto straight = mixed;
    mixed[1] = encode_or_die(*codec, two.view())[1];
    Page back(kv::DType::f16, 9, 5);
    EXPECT_EQ(codec->decode(views(mixed, 2), back.view()).code(), ErrorCode::corrupt);
    const std::vector<base::Bytes> swapped{straight[1], straight[0]};
    EXPECT_EQ(codec->decode(views(swapped, 2), back.view()).code(), ErrorCode::corrupt);
    EXPECT_EQ(codec->decode(views(swapped, 1), back.view()).code(), ErrorCode::corrupt);
}

TEST_P(Conformance, WrongCallsAreInvalidArguments) {
    const auto codec = codec_or_die(GetParam(), small_params());
    const Page page = random_page(kv::DType::f16, 9, 5, 15);
    const auto payloads = encode_or_die(*codec, page.view());
    Page other_shape(kv::DType::f16, 9, 6);
    Page other_dtype(kv::DType::bf16, 9, 5);
    EXPECT_EQ(codec->decode(views(payloads, 1), other_shape.view()).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(codec->decode(views(payloads, 1), other_dtype.view()).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(codec->decode({}, page.view()).code(), ErrorCode::invalid_argument);
    CodecParams other = small_params();
    other.chunk_tokens = 8;
    EXPECT_EQ(codec_or_die(GetParam(), other)->decode(views(payloads, 1), page.view()).code(),
              ErrorCode::invalid_argument);
    std::vector<base::Bytes> out(codec->info().tiers);
    EXPECT_EQ(codec->encode(page.view().slice_tokens(0, 0), {}, out).code(), ErrorCode::invalid_argument);
    const Page too_long(kv::DType::f16, 65, 5);
    EXPECT_EQ(codec->encode(too_long.view(), {}, out).code(), ErrorCode::invalid_argument);
    out.emplace_back();
    EXPECT_EQ(codec->encode(page.view(), {}, out).code(), ErrorCode::invalid_argument);
}

TEST(Registry, DefaultComesFirstAndUnknownNamesListAll) {
    EXPECT_EQ(list_codecs().front().name, kDefaultCodec);
    const Status s = make_codec("zip", {}).status();
    EXPECT_EQ(s.code(), ErrorCode::invalid_argument);
    for (const CodecInfo& c : list_codecs()) {
        EXPECT_NE(s.message().find(c.name), std::string::npos);
    }
}

TEST(Registry, ParametersOutOfRangeAreRefused) {
    const auto code = [](auto change) {
        CodecParams p;
        change(p);
        return make_codec("alg1", p).status().code();
    };
    EXPECT_EQ(code([](CodecParams& p) { p.alpha = 0; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.alpha = std::nanf(""); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.alpha = 0x1p21F; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.chunk_tokens = 0; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.chunk_tokens = 1025; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.page_tokens = 0; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.page_tokens = 4097; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.sinks = 1025; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams& p) { p.recent = 1025; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](CodecParams&) {}), ErrorCode::ok);
}

}  // namespace
}  // namespace lynx::codec
