// The C ABI gives what the C++ codec gives, and answers nonsense with a code and a message.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <thread>

#include "codec/test_pages.h"
#include "lynx/codec_abi.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;

constexpr std::uint32_t kTokens = 40;
constexpr std::uint32_t kChannels = 67;

struct Destroy {
    void operator()(lynxkv_codec* codec) const { lynxkv_codec_destroy(codec); }
};
using Handle = std::unique_ptr<lynxkv_codec, Destroy>;

Handle create(const char* name) {
    lynxkv_codec* codec = nullptr;
    EXPECT_EQ(lynxkv_codec_create(name, nullptr, &codec), LYNXKV_OK) << lynxkv_last_error();
    return Handle(codec);
}

template <class Abi>
Abi describe_view(kv::View v) {
    return {v.data, static_cast<std::uint32_t>(v.dtype), v.tokens, v.channels, v.token_stride, v.channel_stride};
}

lynxkv_context context_of(std::uint32_t sequence_tokens) {
    lynxkv_context context;
    lynxkv_context_init(&context);
    context.sequence_tokens = sequence_tokens;
    return context;
}

/// Payloads of a page, each in a buffer of exactly the stated bound.
struct Encoded {
    std::vector<base::Bytes> memory;
    std::vector<lynxkv_payload> payloads;
};

Encoded encode(const lynxkv_codec* codec, kv::View page) {
    const std::uint32_t tiers = lynxkv_codec_tiers(codec);
    Encoded e;
    std::vector<lynxkv_buffer> buffers;
    for (std::uint32_t t = 0; t < tiers; ++t) {
        e.memory.emplace_back(
            lynxkv_encoded_bytes_max(codec, page.tokens, page.channels, static_cast<std::uint32_t>(page.dtype), t));
        buffers.push_back({e.memory[t].data(), e.memory[t].size(), 0});
    }
    const auto source = describe_view<lynxkv_source>(page);
    const lynxkv_context context = context_of(page.tokens);
    EXPECT_EQ(lynxkv_encode(codec, &source, &context, buffers.data(), tiers), LYNXKV_OK) << lynxkv_last_error();
    for (std::uint32_t t = 0; t < tiers; ++t) {
        e.memory[t].resize(buffers[t].bytes);
        e.payloads.push_back({e.memory[t].data(), e.memory[t].size()});
    }
    return e;
}

TEST(CodecAbi, EveryCodecDTypeAndLayoutGivesTheBytesOfTheCppCodec) {
    ASSERT_EQ(lynxkv_codec_count(), list_codecs().size());
    for (std::size_t i = 0; i < lynxkv_codec_count(); ++i) {
        const char* name = lynxkv_codec_name(i);
        const Handle codec = create(name);
        const auto reference = codec_or_die(name, CodecParams{});
        for (const kv::DType dtype : {kv::DType::f16, kv::DType::bf16, kv::DType::f32}) {
            const Page dense = random_page(dtype, kTokens, kChannels, 7);
            Page page(dtype, kTokens, kChannels, true, 3);
            page.copy_from(dense);
            const Encoded encoded = encode(codec.get(), page.view());
            EXPECT_EQ(encoded.memory, encode_or_die(*reference, dense.view(), {.sequence_tokens = kTokens})) << name;
            for (std::size_t tiers = 1; tiers <= encoded.payloads.size(); ++tiers) {
                const Page expected = testing::decode_or_die(*reference, encoded.memory, tiers, dense.view());
                const Page back(dtype, kTokens, kChannels, true, 3);
                const auto destination = describe_view<lynxkv_destination>(back.view());
                ASSERT_EQ(lynxkv_decode(codec.get(), encoded.payloads.data(), tiers, &destination), LYNXKV_OK)
                    << lynxkv_last_error();
                EXPECT_TRUE(back.same_elements(expected)) << name << " tier " << tiers - 1;
            }
        }
    }
    EXPECT_EQ(lynxkv_codec_name(lynxkv_codec_count()), nullptr);
}

TEST(CodecAbi, APayloadTellsHowToDecodeIt) {
    lynxkv_codec_params params;
    lynxkv_codec_params_init(&params);
    params.alpha = 100;
    params.chunk_tokens = 16;
    params.meta = LYNXKV_META_Q8;
    lynxkv_codec* raw = nullptr;
    ASSERT_EQ(lynxkv_codec_create("lynx44", &params, &raw), LYNXKV_OK);
    const Handle codec(raw);
    const Encoded encoded = encode(codec.get(), random_page(kv::DType::bf16, kTokens, kChannels, 7).view());
    for (std::uint32_t t = 0; t < 2; ++t) {
        lynxkv_payload_info info;
        ASSERT_EQ(lynxkv_payload_describe(encoded.payloads[t].data, encoded.payloads[t].bytes, &info), LYNXKV_OK);
        EXPECT_STREQ(info.codec, "lynx44");
        EXPECT_EQ(info.params.alpha, 100);
        EXPECT_EQ(info.params.chunk_tokens, 16U);
        EXPECT_EQ(info.params.page_tokens, 256U);
        EXPECT_EQ(info.params.meta, static_cast<std::uint32_t>(LYNXKV_META_Q8));
        EXPECT_EQ(info.tier, t);
        EXPECT_EQ(info.tiers, 2U);
        EXPECT_EQ(info.dtype, static_cast<std::uint32_t>(LYNXKV_BF16));
        EXPECT_EQ(info.tokens, kTokens);
        EXPECT_EQ(info.channels, kChannels);
    }
}

TEST(CodecAbi, HostilePayloadsAreRefusedAndWriteNothingOutside) {
    for (const char* name : {"nested44", "alg1", "int8"}) {
        const Handle codec = create(name);
        const Encoded encoded = encode(codec.get(), random_page(kv::DType::f16, kTokens, kChannels, 7).view());
        const base::Bytes& anchor = encoded.memory[0];
        const Page page(kv::DType::f16, kTokens, kChannels);
        const auto destination = describe_view<lynxkv_destination>(page.view());
        lynxkv_payload_info info;
        for (std::size_t n = 0; n < anchor.size(); n += n < 70 ? 1 : 97) {
            const base::Bytes prefix(anchor.begin(), anchor.begin() + static_cast<std::ptrdiff_t>(n));
            const lynxkv_payload payload{prefix.data(), n};
            EXPECT_EQ(lynxkv_decode(codec.get(), &payload, 1, &destination), LYNXKV_TRUNCATED) << name << " " << n;
            EXPECT_EQ(lynxkv_payload_describe(prefix.data(), n, &info), LYNXKV_TRUNCATED);
        }
        for (std::size_t at = 0; at < anchor.size(); at += at < 70 ? 1 : 97) {
            base::Bytes flipped = anchor;
            flipped[at] ^= std::byte{4};
            const lynxkv_payload payload{flipped.data(), flipped.size()};
            EXPECT_NE(lynxkv_decode(codec.get(), &payload, 1, &destination), LYNXKV_OK) << name << " " << at;
            EXPECT_NE(lynxkv_payload_describe(flipped.data(), flipped.size(), &info), LYNXKV_OK) << name << " " << at;
        }
    }
}

TEST(CodecAbi, ImpossibleCallsAreInvalidArguments) {
    const auto refused = [](lynxkv_status status, const char* word) {
        EXPECT_EQ(status, LYNXKV_INVALID_ARGUMENT);
        EXPECT_NE(std::string(lynxkv_last_error()).find(word), std::string::npos) << lynxkv_last_error();
    };
    lynxkv_codec* out = nullptr;
    refused(lynxkv_codec_create("zip", nullptr, &out), "nested44");
    EXPECT_EQ(out, nullptr);
    refused(lynxkv_codec_create(nullptr, nullptr, &out), "name");
    refused(lynxkv_codec_create("int8", nullptr, nullptr), "out");
    using Params = lynxkv_codec_params;
    const std::pair<void (*)(Params&), const char*> bad_params[] = {
        {[](Params& p) { p.alpha = -1; }, "alpha"},
        {[](Params& p) { p.chunk_tokens = 0; }, "chunk"},
        {[](Params& p) { p.page_tokens = 1U << 16; }, "page"},
        {[](Params& p) { p.meta = 256; }, "meta"},
        {[](Params& p) { p.sinks = 2000; }, "sinks"},
        {[](Params& p) { p.recent = UINT32_MAX; }, "recent"}};
    for (const auto& [spoil, word] : bad_params) {
        Params params;
        lynxkv_codec_params_init(&params);
        spoil(params);
        refused(lynxkv_codec_create("nested44", &params, &out), word);
    }

    const Handle codec = create("nested44");
    const Page page = random_page(kv::DType::f16, kTokens, kChannels, 7);
    const auto good = describe_view<lynxkv_source>(page.view());
    std::array<std::byte, 20000> memory;
    std::array<lynxkv_buffer, 2> buffers{{{memory.data(), 10000, 0}, {memory.data() + 10000, 10000, 0}}};
    const auto encode_with = [&](void (*spoil)(lynxkv_source&)) {
        lynxkv_source source = good;
        spoil(source);
        return lynxkv_encode(codec.get(), &source, nullptr, buffers.data(), 2);
    };
    ASSERT_EQ(encode_with([](lynxkv_source&) {}), LYNXKV_OK);
    refused(encode_with([](lynxkv_source& s) { s.data = nullptr; }), "page");
    refused(encode_with([](lynxkv_source& s) { s.dtype = 3; }), "dtype");
    refused(encode_with([](lynxkv_source& s) { s.data = static_cast<const char*>(s.data) + 1; }), "aligned");
    refused(encode_with([](lynxkv_source& s) { s.tokens = 0; }), "shape");
    refused(encode_with([](lynxkv_source& s) { s.tokens = 257; }), "shape");
    refused(encode_with([](lynxkv_source& s) { s.channels = 1U << 17; }), "shape");
    const std::pair<void (*)(lynxkv_context&), const char*> bad_contexts[] = {
        {[](lynxkv_context& c) { c.layer = 1U << 20; }, "layer"},
        {[](lynxkv_context& c) { c.kind = 259; }, "kind"},
        {[](lynxkv_context& c) { c.head_channels = kChannels + 1; }, "head"},
        {[](lynxkv_context& c) { c.rope_dims = 4; }, "rotated"}};
    for (const auto& [spoil, word] : bad_contexts) {
        lynxkv_context context = context_of(kTokens);
        spoil(context);
        refused(lynxkv_encode(codec.get(), &good, &context, buffers.data(), 2), word);
    }
    refused(lynxkv_encode(nullptr, &good, nullptr, buffers.data(), 2), "codec");
    refused(lynxkv_encode(codec.get(), nullptr, nullptr, buffers.data(), 2), "page");
    refused(lynxkv_encode(codec.get(), &good, nullptr, nullptr, 2), "out");
    refused(lynxkv_encode(codec.get(), &good, nullptr, buffers.data(), 1), "outputs");
    refused(lynxkv_encode(codec.get(), &good, nullptr, buffers.data(), SIZE_MAX), "outputs");

    const std::array<lynxkv_payload, 2> payloads{{{memory.data(), buffers[0].bytes}, {nullptr, 5}}};
    const auto destination = describe_view<lynxkv_destination>(page.view());
    refused(lynxkv_decode(nullptr, payloads.data(), 1, &destination), "codec");
    refused(lynxkv_decode(codec.get(), nullptr, 1, &destination), "payloads");
    refused(lynxkv_decode(codec.get(), payloads.data(), 1, nullptr), "destination");
    refused(lynxkv_decode(codec.get(), payloads.data(), 0, &destination), "payloads");
    refused(lynxkv_decode(codec.get(), payloads.data(), SIZE_MAX, &destination), "payloads");
    refused(lynxkv_decode(codec.get(), payloads.data(), 2, &destination), "payload");
    auto narrow = destination;
    narrow.channels -= 1;
    refused(lynxkv_decode(codec.get(), payloads.data(), 1, &narrow), "destination");
    refused(lynxkv_payload_describe(nullptr, 1, nullptr), "info");

    EXPECT_EQ(lynxkv_encoded_bytes_max(nullptr, 1, 1, 0, 0), 0U);
    EXPECT_EQ(lynxkv_encoded_bytes_max(codec.get(), 257, 1, 0, 0), 0U);
    EXPECT_EQ(lynxkv_encoded_bytes_max(codec.get(), 1, 1, 0, 2), 0U);
    EXPECT_EQ(lynxkv_codec_tiers(nullptr), 0U);
    lynxkv_codec_destroy(nullptr);
    lynxkv_codec_params_init(nullptr);
    lynxkv_context_init(nullptr);
}

TEST(CodecAbi, ASmallBufferIsToldItsSizeAndNothingIsWritten) {
    const Handle codec = create("nested44");
    const Page page = random_page(kv::DType::f16, kTokens, kChannels, 7);
    const Encoded encoded = encode(codec.get(), page.view());
    const auto source = describe_view<lynxkv_source>(page.view());
    const lynxkv_context context = context_of(kTokens);
    for (const std::size_t small : {0U, 1U}) {
        base::Bytes memory(20000, std::byte{0x5A});
        std::array<lynxkv_buffer, 2> buffers{{{memory.data(), 10000, 0}, {memory.data() + 10000, 10000, 0}}};
        buffers[small].capacity = encoded.memory[small].size() - 1;
        EXPECT_EQ(lynxkv_encode(codec.get(), &source, &context, buffers.data(), 2), LYNXKV_LIMIT_EXCEEDED);
        EXPECT_EQ(buffers[0].bytes, encoded.memory[0].size());
        EXPECT_EQ(buffers[1].bytes, encoded.memory[1].size());
        EXPECT_EQ(memory, base::Bytes(20000, std::byte{0x5A}));
    }
}

TEST(CodecAbi, MessagesBelongToTheirThread) {
    lynxkv_codec* out = nullptr;
    EXPECT_EQ(lynxkv_codec_create("zip", nullptr, &out), LYNXKV_INVALID_ARGUMENT);
    std::string other = "not empty";
    std::thread([&other] { other = lynxkv_last_error(); }).join();
    EXPECT_EQ(other, "");
    EXPECT_NE(std::string(lynxkv_last_error()).find("zip"), std::string::npos);
    EXPECT_STREQ(lynxkv_status_name(LYNXKV_INVALID_ARGUMENT), "invalid_argument");
    EXPECT_STREQ(lynxkv_status_name(77), "unknown");
}

}  // namespace
}  // namespace lynx::codec
