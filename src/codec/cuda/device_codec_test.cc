// The GPU algorithms, run as loops on this processor, against the scalar reference: payloads and decoded elements bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "codec/cuda/crc_block.h"
#include "codec/cuda/cuda_codec.h"
#include "codec/math/alpha_math.h"
#include "codec/payload.h"
#include "codec/ref/alpha_law.h"
#include "codec/test_pages.h"

namespace lynx::codec::cuda {
namespace {

using codec::testing::encode_or_die;
using codec::testing::Page;
using codec::testing::random_page;

constexpr kv::DType kAllDTypes[] = {kv::DType::f16, kv::DType::bf16, kv::DType::f32};
constexpr std::size_t kSharedBytes = std::size_t{227} << 10;

/// Payload memory at multiples of 16 whose every byte starts as 0xAB.
class PayloadMemory {
public:
    explicit PayloadMemory(std::size_t bytes) : words_(bytes / sizeof(Words4) + 1), bytes_(bytes) {
        std::memset(words_.data(), 0xAB, words_.size() * sizeof(Words4));
    }
    explicit PayloadMemory(base::ByteView from) : PayloadMemory(from.size()) {
        std::memcpy(words_.data(), from.data(), from.size());
    }
    [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }
    [[nodiscard]] DevicePayload payload() { return {data(), bytes_}; }

private:
    std::vector<Words4> words_;
    std::size_t bytes_;
};

std::unique_ptr<DeviceCodec> device_codec_or_die(std::string_view name, const CodecParams& params,
                                                 std::size_t shared_bytes = kSharedBytes) {
    Result<std::unique_ptr<DeviceCodec>> made = make_emulated_codec(name, params, shared_bytes);
    if (!made.ok()) {
        throw std::runtime_error(made.status().to_string());
    }
    return std::move(made).value();
}

struct Item {
    Page page;
    PageContext context;
};

/// Encodes all items in one call and decodes every tier, into views like the items', and compares with the reference.
void expect_same_as_reference(DeviceCodec& device, const std::vector<Item>& items) {
    const Codec& host = device.host();
    std::vector<PayloadMemory> memory;
    std::vector<EncodePage> pages;
    memory.reserve(items.size() * host.info().tiers);
    for (const Item& item : items) {
        EncodePage p{item.page.view(), item.context, {}};
        for (std::uint8_t t = 0; t < host.info().tiers; ++t) {
            memory.emplace_back(host.encoded_bytes_max(p.page.tokens, p.page.channels, p.page.dtype, t));
            p.payloads[t] = memory.back().payload();
        }
        pages.push_back(p);
    }
    const Status encoded = device.encode(pages);
    ASSERT_TRUE(encoded.ok()) << encoded.to_string();
    std::vector<std::vector<base::Bytes>> expected;
    for (std::size_t i = 0; i < items.size(); ++i) {
        expected.push_back(encode_or_die(host, items[i].page.view(), items[i].context));
        for (std::size_t t = 0; t < host.info().tiers; ++t) {
            const DevicePayload& out = pages[i].payloads[t];
            ASSERT_EQ(out.bytes, expected[i][t].size());
            ASSERT_EQ(std::memcmp(out.data, expected[i][t].data(), out.bytes), 0) << "page " << i << " tier " << t;
        }
    }
    for (std::size_t tiers = 1; tiers <= host.info().tiers; ++tiers) {
        std::vector<DecodePage> in;
        std::vector<Page> back;
        back.reserve(items.size());
        for (std::size_t i = 0; i < items.size(); ++i) {
            back.push_back(items[i].page.same_layout());
            DecodePage p{{}, tiers, back.back().view()};
            for (std::size_t t = 0; t < tiers; ++t) {
                p.payloads[t] = {pages[i].payloads[t].data, pages[i].payloads[t].bytes};
            }
            in.push_back(p);
        }
        const Status decoded = device.decode(in);
        ASSERT_TRUE(decoded.ok()) << decoded.to_string();
        for (std::size_t i = 0; i < items.size(); ++i) {
            Page reference = items[i].page.same_layout();
            ASSERT_TRUE(host.decode(codec::testing::views(expected[i], tiers), reference.view()).ok());
            ASSERT_TRUE(back[i].same_memory(reference)) << "page " << i << " tiers " << tiers;
        }
    }
}

class DeviceConformance : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(GpuCodecs, DeviceConformance,
                         ::testing::Values("nested44", "nested44-mono", "lynx44", "lynx44-mono"),
                         [](const auto& instance) {
                             std::string name = instance.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

CodecParams small_params(MetaFormat meta = MetaFormat::f32) {
    CodecParams p;
    p.page_tokens = 64;
    p.chunk_tokens = 16;
    p.meta = meta;
    return p;
}

TEST_P(DeviceConformance, EveryShapeDTypeAndLayout) {
    const bool has_meta = GetParam().starts_with("lynx");
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        if (meta != MetaFormat::f32 && !has_meta) {
            break;
        }
        const auto device = device_codec_or_die(GetParam(), small_params(meta));
        for (const kv::DType dtype : kAllDTypes) {
            for (const std::uint32_t channels : {1U, 2U, 8U, 63U, 64U, 65U, 129U, 264U}) {
                std::vector<Item> items;
                for (const std::uint32_t tokens : {1U, 2U, 15U, 16U, 17U, 64U}) {
                    for (const bool channel_major : {false, true}) {
                        for (const std::uint32_t gap : {0U, 3U, 8U}) {
                            Page page(dtype, tokens, channels, channel_major, gap);
                            page.copy_from(random_page(dtype, tokens, channels, tokens * 1000 + channels));
                            items.push_back({std::move(page), {.first_token = 0, .sequence_tokens = tokens + 10}});
                        }
                    }
                }
                ASSERT_NO_FATAL_FAILURE(expect_same_as_reference(*device, items))
                    << channels << " channels, dtype " << static_cast<int>(dtype);
            }
        }
    }
}

TEST_P(DeviceConformance, LargePagesAndEveryChunkSize) {
    for (const std::uint16_t chunk_tokens : std::initializer_list<std::uint16_t>{1, 3, 32, 100, 1024}) {
        CodecParams p;
        p.page_tokens = 1500;
        p.chunk_tokens = chunk_tokens;
        for (const bool channel_major : {false, true}) {
            std::vector<Item> items;
            for (const std::uint32_t tokens : {256U, 1500U}) {
                Page page(kv::DType::f16, tokens, 72, channel_major);
                page.copy_from(random_page(kv::DType::f16, tokens, 72, tokens + chunk_tokens));
                items.push_back({std::move(page), {.first_token = 1500, .sequence_tokens = 3010}});
            }
            for (const std::size_t shared_bytes : {kSharedBytes, std::size_t{64} << 10}) {
                const auto device = device_codec_or_die(GetParam(), p, shared_bytes);
                ASSERT_NO_FATAL_FAILURE(expect_same_as_reference(*device, items)) << "chunk " << chunk_tokens;
            }
        }
    }
}

TEST_P(DeviceConformance, ExtremeFinitePages) {
    for (const MetaFormat meta : {MetaFormat::f32, MetaFormat::f16, MetaFormat::q8}) {
        for (const float alpha : {0x1p-10F, 5.0F, 255.0F, 0x1p20F}) {
            CodecParams params = small_params(meta);
            params.alpha = alpha;
            const auto device = device_codec_or_die(GetParam(), params);
            for (const kv::DType dtype : kAllDTypes) {
                const float largest = dtype == kv::DType::f16 ? 65504.0F : 0x1.FEp127F;
                const float smallest = dtype == kv::DType::f16 ? 0x1p-24F : 0x1p-133F;
                std::vector<Item> items;
                items.push_back({Page(dtype, 20, 8), {}});
                Page& page = items[0].page;
                for (std::uint32_t t = 0; t < 20; ++t) {
                    page.set(t, 0, t % 2 == 0 ? largest : -largest);
                    page.set(t, 1, t == 3 ? largest : 0.0F);
                    page.set(t, 2, t % 3 == 0 ? smallest : -smallest);
                    page.set(t, 3, t % 2 == 0 ? -0.0F : 0.0F);
                    page.set(t, 4, t == 0 ? -largest : smallest);
                    page.set(t, 5, largest);
                    page.set(t, 6, t % 2 == 0 ? -largest : -largest / 2);
                    page.set(t, 7, t < 17 ? 0.0F : -0.0F);
                }
                // Any finite bits.
                base::Rng rng(17);
                items.push_back({Page(dtype, 61, 8), {.sequence_tokens = 61}});
                const kv::View v = items[1].page.view();
                for (std::uint32_t t = 0; t < v.tokens; ++t) {
                    for (std::uint32_t c = 0; c < v.channels; ++c) {
                        auto bits = static_cast<std::uint32_t>(rng());
                        const unsigned low = dtype == kv::DType::f16 ? 10 : (dtype == kv::DType::bf16 ? 7 : 23);
                        bits &= ~(static_cast<std::uint32_t>(rng.below(2)) << low);
                        bits &= dtype == kv::DType::f32 ? ~0U : 0xFFFFU;
                        const unsigned exponent = dtype == kv::DType::f16 ? 0x1FU : 0xFFU;
                        bits = (bits >> low & exponent) == exponent ? bits & ~(1U << low) : bits;
                        std::memcpy(v.at(t, c), &bits, kv::dtype_bytes(dtype));
                    }
                }
                ASSERT_NO_FATAL_FAILURE(expect_same_as_reference(*device, items)) << "alpha " << alpha;
            }
        }
    }
}

TEST_P(DeviceConformance, TheFirstNonFiniteElementIsNamed) {
    const auto device = device_codec_or_die(GetParam(), small_params());
    for (const kv::DType dtype : kAllDTypes) {
        for (const std::uint32_t channels : {64U, 70U}) {
            for (const bool channel_major : {false, true}) {
                for (const std::uint32_t token : {0U, 13U, 19U}) {
                    Page good(dtype, 20, channels, channel_major);
                    good.copy_from(random_page(dtype, 20, channels, 12));
                    Page bad = good.same_layout();
                    bad.copy_from(good);
                    bad.set(token, 40, std::numeric_limits<float>::quiet_NaN());
                    bad.set(token, 63, -std::numeric_limits<float>::infinity());
                    bad.set(19, 1, std::numeric_limits<float>::infinity());
                    std::vector<PayloadMemory> memory;
                    std::vector<EncodePage> pages;
                    for (const Page* page : {&good, &bad}) {
                        EncodePage p{page->view(), {.first_token = 2, .sequence_tokens = 30}, {}};
                        for (std::uint8_t t = 0; t < device->host().info().tiers; ++t) {
                            memory.emplace_back(device->host().encoded_bytes_max(20, channels, dtype, t));
                            p.payloads[t] = memory.back().payload();
                        }
                        pages.push_back(p);
                    }
                    std::vector<base::Bytes> out(device->host().info().tiers);
                    const Status expected = device->host().encode(bad.view(), pages[1].context, out);
                    const Status s = device->encode(pages);
                    EXPECT_EQ(s.code(), ErrorCode::invalid_argument);
                    EXPECT_EQ(s.message(), "page 1: " + expected.message());
                }
            }
        }
    }
}

/// The device must refuse what the reference refuses, for the same reason, and decode the rest to the same elements.
TEST_P(DeviceConformance, HostilePayloadsAreRefusedLikeTheReferenceDoes) {
    const auto device = device_codec_or_die(GetParam(), small_params(MetaFormat::f16));
    const Codec& host = device->host();
    Page page(kv::DType::f16, 37, 24);
    page.copy_from(random_page(kv::DType::f16, 37, 24, 9));
    const auto payloads = encode_or_die(host, page.view(), {.sequence_tokens = 40});
    base::Rng rng(10);
    int accepted = 0;
    for (int round = 0; round < 2000; ++round) {
        auto hostile = payloads;
        const std::size_t t = rng.below(payloads.size());
        PayloadHeader header = parse_payload(payloads[t]).value().header;
        const std::uint64_t kind = rng.below(8);
        for (std::uint64_t i = 0; i < 1 + rng.below(40); ++i) {
            hostile[t][kHeaderBytes + rng.below(hostile[t].size() - kHeaderBytes)] =
                static_cast<std::byte>(rng() & 255U);
        }
        switch (kind) {
            case 0: header.tokens = static_cast<std::uint32_t>(rng.below(70)); break;
            case 1: header.channels = static_cast<std::uint32_t>(rng.below(70000)); break;
            case 2: header.exact_head = static_cast<std::uint16_t>(rng.below(40)); break;
            default: break;
        }
        if (kind != 3) {
            seal_payload(header, hostile[t]);
        }
        if (kind == 4) {
            hostile[t].resize(rng.below(hostile[t].size()));
        } else if (kind == 5) {
            hostile[t].resize(hostile[t].size() + 1 + rng.below(30));
        } else if (kind == 6) {
            hostile[t][rng.below(kHeaderBytes)] ^= std::byte{4};
        }
        std::vector<PayloadMemory> memory;
        DecodePage in{{}, payloads.size(), {}};
        for (std::size_t i = 0; i < payloads.size(); ++i) {
            memory.emplace_back(base::ByteView(hostile[i]));
            in.payloads[i] = {memory.back().data(), hostile[i].size()};
        }
        Page reference = page.same_layout();
        Page back = page.same_layout();
        in.dst = back.view();
        const Status expected = host.decode(codec::testing::views(hostile, hostile.size()), reference.view());
        const Status s = device->decode(std::span(&in, 1));
        ASSERT_EQ(s.code(), expected.code()) << s.to_string() << " / " << expected.to_string();
        if (s.ok()) {
            ++accepted;
            ASSERT_TRUE(back.same_memory(reference));
        }
    }
    EXPECT_GT(accepted, 0);
}

TEST_P(DeviceConformance, WrongCallsAreInvalidArguments) {
    const auto device = device_codec_or_die(GetParam(), small_params());
    const std::uint8_t tiers = device->host().info().tiers;
    const Page one = random_page(kv::DType::f16, 9, 8, 1);
    const Page other = random_page(kv::DType::f16, 9, 16, 1);
    std::vector<PayloadMemory> memory;
    const auto encode_page = [&](const Page& page) {
        EncodePage p{page.view(), {}, {}};
        for (std::uint8_t t = 0; t < tiers; ++t) {
            memory.emplace_back(std::size_t{4000});
            p.payloads[t] = memory.back().payload();
        }
        return p;
    };
    memory.reserve(100);
    std::vector<EncodePage> differing{encode_page(one), encode_page(other)};
    EXPECT_EQ(device->encode(differing).code(), ErrorCode::invalid_argument);
    std::vector<EncodePage> small{encode_page(one)};
    small[0].payloads[0].bytes = 100;
    EXPECT_EQ(device->encode(small).code(), ErrorCode::invalid_argument);
    std::vector<EncodePage> misaligned{encode_page(one)};
    misaligned[0].payloads[0].data += 8;
    EXPECT_EQ(device->encode(misaligned).code(), ErrorCode::invalid_argument);
    std::vector<EncodePage> good{encode_page(one)};
    ASSERT_TRUE(device->encode(good).ok());
    EXPECT_TRUE(device->encode({}).ok());
    EXPECT_TRUE(device->decode({}).ok());
    Page back(kv::DType::f16, 9, 8);
    DecodePage in{{}, 0, back.view()};
    EXPECT_EQ(device->decode(std::span(&in, 1)).code(), ErrorCode::invalid_argument);
    in.tiers = tiers;
    for (std::uint8_t t = 0; t < tiers; ++t) {
        in.payloads[t] = {good[0].payloads[t].data, good[0].payloads[t].bytes};
    }
    EXPECT_TRUE(device->decode(std::span(&in, 1)).ok());
    Page wrong(kv::DType::f16, 9, 16);
    in.dst = wrong.view();
    EXPECT_EQ(device->decode(std::span(&in, 1)).code(), ErrorCode::invalid_argument);
}

TEST(DeviceCodecs, OthersHaveNoGpuCode) {
    for (const char* name : {"f16", "int8", "alg1", "zip"}) {
        EXPECT_EQ(make_emulated_codec(name, {}, kSharedBytes).status().code(), ErrorCode::invalid_argument) << name;
    }
    EXPECT_EQ(make_emulated_codec("lynx44", {}, 1000).value()->encode({}).code(), ErrorCode::ok);
}

TEST(DeviceCodecs, TooLittleSharedMemoryIsSaid) {
    const auto device = device_codec_or_die("nested44", {}, 1000);
    const Page page = random_page(kv::DType::f16, 9, 8, 1);
    PayloadMemory anchor(4000);
    PayloadMemory residual(4000);
    EncodePage p{page.view(), {}, {anchor.payload(), residual.payload()}};
    EXPECT_EQ(device->encode(std::span(&p, 1)).code(), ErrorCode::limit_exceeded);
}

TEST(AlphaLevel, AnyGuessLeadsToTheLevel) {
    for (const int levels : {127, 120}) {
        const AlphaLaw law(255.0F, levels);
        std::vector<float> threshold(law.thresholds().begin(), law.thresholds().end());
        threshold.push_back(std::numeric_limits<float>::infinity());
        base::Rng rng(4);
        for (int i = 0; i < 5000; ++i) {
            float a = static_cast<float>(rng.unit());
            if (i % 5 == 0) {
                a = std::max(0.0F, threshold[rng.below(static_cast<std::uint64_t>(levels) + 1)]);
            }
            const auto guess = static_cast<std::int32_t>(rng.below(128));
            ASSERT_EQ(alpha_level_from(threshold.data(), guess, a), alpha_level(threshold.data(), a)) << a;
        }
    }
}

TEST(Crc, SegmentsJoinToTheChecksumOfTheLibrary) {
    const CrcTables tables = make_crc_tables();
    const std::uint32_t segment_shift = crc_shift(kCrcSegmentBytes);
    base::Rng rng(5);
    std::vector<Words4> shared(CrcSegments::shared_bytes() / sizeof(Words4) + 1);
    for (const std::size_t bytes :
         {0U, 1U, 15U, 16U, 17U, 4095U, 4096U, 4097U, 65535U, 65536U, 65537U, 70001U, 2 * 65536U, 3 * 65536U + 4097U}) {
        PayloadMemory memory(bytes);
        for (std::size_t i = 0; i < bytes; ++i) {
            memory.data()[i] = static_cast<std::byte>(rng() & 255U);
        }
        const CrcJob job = [&] {
            CrcJob j = crc_job(nullptr, static_cast<std::uint32_t>(bytes));
            j.data = memory.data();
            return j;
        }();
        std::vector<std::uint32_t> remainders(5);
        const CrcSegments body{&job, &tables, remainders.data(), 5};
        for (std::uint32_t b = 0; b < 5; ++b) {
            HostBlock block(reinterpret_cast<std::byte*>(shared.data()), b);
            body(block, b);
        }
        const std::uint32_t rest = crc_of_segments(job, remainders.data(), segment_shift);
        EXPECT_EQ(crc_joined(~0U, job.body_shift, rest), base::crc32({memory.data(), bytes})) << bytes;
        const std::byte head[] = {std::byte{1}, std::byte{200}};
        EXPECT_EQ(crc_joined(crc_update(~0U, head, 2), job.body_shift, rest),
                  base::crc32({memory.data(), bytes}, base::crc32(head)))
            << bytes;
    }
}

}  // namespace
}  // namespace lynx::codec::cuda
