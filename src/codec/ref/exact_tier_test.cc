// Codecs with an exact tier: every bit pattern comes back, whatever the lossy tiers make of it; and the arithmetic below them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "codec/payload.h"
#include "codec/ref/exact_law.h"
#include "codec/ref/lynxt_model.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::decode_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;
using testing::views;

constexpr kv::DType kHalves[] = {kv::DType::f16, kv::DType::bf16};
constexpr kv::DType kAllDTypes[] = {kv::DType::f16, kv::DType::bf16, kv::DType::f32};
constexpr std::uint32_t kPatterns = 0x10000;

void set_bits(kv::View v, std::uint32_t t, std::uint32_t c, std::uint32_t bits) {
    std::memcpy(v.at(t, c), &bits, kv::dtype_bytes(v.dtype));
}

std::vector<std::string> exact_names() {
    std::vector<std::string> names;
    for (const CodecInfo& c : list_codecs()) {
        if (c.exact) {
            names.push_back(c.name);
        }
    }
    return names;
}

class ExactTier : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Codecs, ExactTier, ::testing::ValuesIn(exact_names()), [](const auto& instance) {
    std::string name = instance.param;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
});

/// All 65,536 patterns in one page: neighbours down a channel, neighbours along a token, and shuffled.
TEST_P(ExactTier, EveryPatternOfSixteenBitsSurvives) {
    const auto codec = codec_or_die(GetParam());
    std::vector<std::uint32_t> order(kPatterns);
    std::iota(order.begin(), order.end(), 0U);
    for (const char* arrangement : {"down", "along", "shuffled"}) {
        const bool down = std::string(arrangement) == "down";
        if (std::string(arrangement) == "shuffled") {
            std::shuffle(order.begin(), order.end(), base::Rng(1));
        }
        for (const kv::DType dtype : kHalves) {
            Page page(dtype, 256, 256);
            for (std::uint32_t i = 0; i < kPatterns; ++i) {
                set_bits(page.view(), down ? i % 256 : i / 256, down ? i / 256 : i % 256, order[i]);
            }
            for (const std::uint32_t sequence : {0U, 256U}) {  // without and with exact rows
                const auto payloads = encode_or_die(*codec, page.view(), {0, sequence});
                EXPECT_TRUE(decode_or_die(*codec, payloads, payloads.size(), page.view()).same_elements(page))
                    << arrangement << " dtype " << static_cast<int>(dtype) << " sequence " << sequence;
            }
        }
    }
}

TEST_P(ExactTier, EveryShapeLayoutAndDTypeComesBackBitForBit) {
    CodecParams params;
    params.page_tokens = 64;
    params.chunk_tokens = 16;
    const auto codec = codec_or_die(GetParam(), params);
    base::Rng rng(2);
    for (const kv::DType dtype : kAllDTypes) {
        for (const std::uint32_t tokens : {1U, 2U, 15U, 16U, 17U, 40U, 64U}) {
            for (const std::uint32_t channels : {1U, 2U, 16U, 31U, 65U}) {
                Page page = random_page(dtype, tokens, channels, tokens * 100 + channels);
                for (std::uint32_t c = 0; c < channels;
                     c += 3) {  // a third of the channels has strangers among its elements
                    set_bits(page.view(), static_cast<std::uint32_t>(rng.below(tokens)), c,
                             static_cast<std::uint32_t>(rng()));
                }
                Page turned(dtype, tokens, channels, true, 3);
                turned.copy_from(page);
                const auto payloads = encode_or_die(*codec, page.view(), {0, tokens + 10});
                ASSERT_EQ(encode_or_die(*codec, turned.view(), {0, tokens + 10}), payloads);
                ASSERT_TRUE(decode_or_die(*codec, payloads, payloads.size(), page.view()).same_elements(page))
                    << "dtype " << static_cast<int>(dtype) << ", " << tokens << " x " << channels;
            }
        }
    }
}

/// Refusing them is for the tiers before it.
TEST_P(ExactTier, NaNAndInfinityInExactRowsAndCoreComeBack) {
    const auto codec = codec_or_die(GetParam());
    for (const kv::DType dtype : kAllDTypes) {
        const std::uint32_t infinity = float_layout(dtype).infinity();
        Page page = random_page(dtype, 60, 20, 3);
        for (std::uint32_t t : {0U, 2U, 20U, 21U, 50U, 59U}) {
            for (std::uint32_t c = 0; c < 20; c += 4) {
                set_bits(page.view(), t, c, infinity + (t + c) % 3 + (c % 8 == 0 ? float_layout(dtype).sign() : 0));
            }
        }
        const auto payloads = encode_or_die(*codec, page.view(), {0, 60});
        EXPECT_TRUE(decode_or_die(*codec, payloads, payloads.size(), page.view()).same_elements(page));
    }
}

/// The tiers before the exact one are the lossy codec's.
TEST_P(ExactTier, EarlierTiersAreTheLossyCodecs) {
    const std::string name = GetParam();
    const auto exact = codec_or_die(name);
    const auto lossy = codec_or_die(name.substr(0, name.find("-exact")));
    for (const kv::DType dtype : kAllDTypes) {
        const Page page = random_page(dtype, 60, 40, 4);
        const auto with = encode_or_die(*exact, page.view(), {0, 60});
        const auto without = encode_or_die(*lossy, page.view(), {0, 60});
        for (std::size_t t = 0; t + 1 < with.size(); ++t) {
            EXPECT_TRUE(std::equal(with[t].begin() + kHeaderBytes, with[t].end(), without[t].begin() + kHeaderBytes,
                                   without[t].end()));
            EXPECT_TRUE(decode_or_die(*exact, with, t + 1, page.view())
                            .same_elements(decode_or_die(*lossy, without, t + 1, page.view())));
        }
    }
}

TEST_P(ExactTier, ChannelsThatRoundingRestoresTakeNoSpace) {
    const auto codec = codec_or_die(GetParam());
    Page page(kv::DType::f16, 256, 64);
    for (std::uint32_t t = 0; t < 256; ++t) {
        for (std::uint32_t c = 0; c < 64; ++c) {
            page.set(t, c, 1.5F);
        }
    }
    const auto payloads = encode_or_die(*codec, page.view());
    if (payloads.size() > 1) {
        EXPECT_LT(payloads.back().size(), kHeaderBytes + 64 + 64 * 4);
    }
    EXPECT_TRUE(decode_or_die(*codec, payloads, payloads.size(), page.view()).same_elements(page));
}

/// The lossy coder takes its own bodies' sizes for granted; here they vary as far as the header knows.
TEST(ExactTier, LossyBodiesOfAnotherSizeAreCorrupt) {
    const auto codec = codec_or_die("nested44-exact");
    const Page page = random_page(kv::DType::f16, 9, 5, 5);
    const auto payloads = encode_or_die(*codec, page.view());
    Page back(kv::DType::f16, 9, 5);
    for (const std::size_t tier : {std::size_t{0}, std::size_t{1}}) {
        for (std::uint32_t n = 0; n + kHeaderBytes < payloads[tier].size(); ++n) {
            auto cut = payloads;
            PayloadHeader h = parse_payload(payloads[tier]).value().header;
            h.body_bytes = n;
            cut[tier].resize(kHeaderBytes + n);
            std::uint32_t anchor_crc = seal_payload(h, cut[tier]);
            for (std::size_t t = 1; tier == 0 && t < cut.size(); ++t) {
                h = parse_payload(payloads[t]).value().header;
                h.anchor_crc = anchor_crc;
                seal_payload(h, cut[t]);
            }
            for (std::size_t tiers = tier + 1; tiers <= payloads.size(); ++tiers) {
                EXPECT_EQ(codec->decode(views(cut, tiers), back.view()).code(), ErrorCode::corrupt)
                    << "tier " << tier << " bytes " << n;
            }
        }
    }
}

/// One element, reconstructed as 0 in a channel of scale 0, so that its cell's magnitudes are those below 1/2: 14 * 1024 patterns.
Status decode_by_hand(std::uint32_t scale_bits, std::uint32_t symbol, std::uint32_t offset, bool trailing_word,
                      std::uint16_t* element) {
    const auto codec = codec_or_die("nested44-exact");
    Page page(kv::DType::f16, 1, 1);
    page.set(0, 0, 0.0F);
    auto payloads = encode_or_die(*codec, page.view());
    RansEncoder out;
    out.put(0, RansTable::from_weights(kLynxtClassWeights), kLynxtEscape);
    out.put_bits(0, scale_bits, 12);
    out.put(0, exact_table(exact_place(float_layout(kv::DType::f16), 0.0F, 0).table), symbol);
    out.put_bits(0, offset & 0xFFFU, 12);
    out.put_bits(0, offset >> 12U, 2);
    base::Bytes stream(out.bytes_max());
    stream.resize(out.finish(stream) + (trailing_word ? 2 : 0));
    PayloadHeader h = parse_payload(payloads.back()).value().header;
    h.body_bytes = static_cast<std::uint32_t>(stream.size());
    payloads.back().resize(kHeaderBytes);
    payloads.back().insert(payloads.back().end(), stream.begin(), stream.end());
    seal_payload(h, payloads.back());
    Status status = codec->decode(views(payloads, payloads.size()), page.view());
    std::memcpy(element, page.view().at(0, 0), sizeof *element);
    return status;
}

TEST(ExactTier, StreamsThatNoWriterMakesAreCorrupt) {
    std::uint16_t element = 0;
    constexpr std::uint32_t kScale0 = 2048;
    ASSERT_TRUE(decode_by_hand(kScale0, kExactReach, 14 * 1024 - 1, false, &element).ok());
    EXPECT_EQ(element, 14 * 1024 - 1) << "the last pattern below 1/2";
    ASSERT_TRUE(decode_by_hand(kScale0, kExactReach - 1, 0, false, &element).ok());
    EXPECT_EQ(element, 0x8000) << "the first of the other sign";
    EXPECT_EQ(decode_by_hand(kScale0, kExactReach, 14 * 1024, false, &element).code(), ErrorCode::corrupt);
    EXPECT_EQ(decode_by_hand(kScale0, kExactReach, 5, true, &element).code(), ErrorCode::corrupt);
    EXPECT_EQ(decode_by_hand(0, kExactReach, 5, false, &element).code(), ErrorCode::corrupt)
        << "the channel is not sent, but its elements are";
    // Scale 4094 - 2048: cells so wide that only those next to 0 hold numbers.
    EXPECT_EQ(decode_by_hand(4094, kExactReach + 1, 0, false, &element).code(), ErrorCode::corrupt);
}

std::vector<std::uint32_t> some_elements(const FloatLayout& layout) {
    std::vector<std::uint32_t> all;
    if (layout.bits == 16) {
        for (std::uint32_t i = 0; i < kPatterns; ++i) {
            all.push_back(i);
        }
        return all;
    }
    base::Rng rng(6);
    for (int i = 0; i < 60000; ++i) {
        all.push_back(static_cast<std::uint32_t>(rng()));
    }
    for (std::uint32_t i = 0; i < 2000; ++i) {
        all.push_back(std::bit_cast<std::uint32_t>(1.0F) - 1000 + i);
    }
    return all;
}

/// An element's symbol stands for a run of elements that holds it, and the runs of one place do not overlap.
TEST(ExactLaw, SymbolsCutTheElementsIntoRuns) {
    for (const kv::DType dtype : kAllDTypes) {
        const FloatLayout layout = float_layout(dtype);
        const std::vector<std::uint32_t> elements = some_elements(layout);
        std::size_t near = 0;
        for (const float x :
             {0.0F, 1.0F, -1.0F, 0.37F, -123.25F, 1024.0F, -0.9999F, 65504.0F, -65519.0F, 0x1p-24F, -0x1.8p-25F,
              0x1p-14F, 0x1.FFCp-15F, 0x1p-126F, -0x1.234p-130F, 0x1p-149F, 3e38F, -INFINITY}) {
            for (const std::int32_t scale : {-2047, -600, -520, -100, -57, -40, -9, 0, 3, 40, 200, 510, 2047}) {
                const ExactPlace at = exact_place(layout, x, scale);
                ASSERT_GE(at.exponent, layout.ulp_min);
                std::vector<ExactElements> runs;
                for (std::uint32_t symbol = 0; symbol < kExactEscape; ++symbol) {
                    runs.push_back(exact_elements(layout, at, symbol));
                }
                for (const std::uint32_t element : elements) {
                    const std::uint32_t symbol = exact_symbol(layout, at, element);
                    for (std::uint32_t s = 0; s < runs.size(); ++s) {
                        ASSERT_EQ(element - runs[s].first < runs[s].count, s == symbol)
                            << "x " << x << " scale " << scale << " element " << element << " symbol " << s;
                    }
                    near += symbol != kExactEscape ? 1 : 0;
                }
            }
        }
        EXPECT_GT(near, 10000U);
    }
}

/// What rounding makes of the reconstruction is the likeliest of all elements, or shares its cell with it.
TEST(ExactLaw, TheReconstructionItselfLiesInItsCell) {
    for (const float x : {1.0F, -1.0F, 0.37F, -123.25F, 0x1.003p0F, 1000.0F}) {
        for (const std::int32_t scale : {-60, -40, -20, 0}) {
            const ExactPlace at = exact_place(float_layout(kv::DType::f16), x, scale);
            const std::uint32_t symbol = exact_symbol(float_layout(kv::DType::f16), at, base::f32_to_f16(x));
            EXPECT_NEAR(static_cast<double>(symbol), 15.0, 1.0) << x << " scale " << scale;
        }
    }
}

TEST(ExactLaw, TablesAreSymmetricAboutTheMiddleOfACell) {
    for (std::uint32_t table = 0; table < 128; ++table) {
        const RansTable& here = exact_table(table);
        const RansTable& mirrored = exact_table(table / 8 * 8 + 7 - table % 8);
        std::uint32_t total = 0;
        for (std::uint32_t s = 0; s < here.symbols; ++s) {
            total += here.frequency[s];
            EXPECT_GE(here.frequency[s], 1U);
        }
        EXPECT_EQ(total, kRansTotal);
        const auto peak = std::max_element(here.frequency.begin(), here.frequency.end()) - here.frequency.begin();
        EXPECT_EQ(peak, kExactReach) << "table " << table;
        for (std::uint32_t s = 0; s < kExactEscape; ++s) {
            EXPECT_NEAR(here.frequency[s], mirrored.frequency[30 - s], 31) << "table " << table << " symbol " << s;
        }
    }
}

}  // namespace
}  // namespace lynx::codec
