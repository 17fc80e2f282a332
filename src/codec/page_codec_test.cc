// What PageCodec does for a coder whose bodies vary in size and whose decoder needs the page's context, with a coder that
// does nothing else.
#include "codec/page_codec.h"

#include <gtest/gtest.h>

#include "codec/context.h"
#include "codec/test_pages.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

using testing::Page;
using testing::random_page;
using testing::views;

constexpr std::uint8_t kTiers = 3;

/// Tier t holds float16 rows t, t + 3, .. of the core; each is preceded by a byte, and rows of zeros are left out.
class SkippingCoder final : public PageCoder {
public:
    [[nodiscard]] CodecId id() const noexcept override { return CodecId::f16; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return kTiers; }
    [[nodiscard]] bool keeps_exact_rows() const noexcept override { return true; }
    [[nodiscard]] bool carries_context() const noexcept override { return true; }
    [[nodiscard]] bool fixed_size() const noexcept override { return false; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return s.tokens * (std::size_t{s.channels} * 2 + 1);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        base::Bytes row(core.channels * std::size_t{2});
        std::size_t used[kTiers] = {};
        for (std::uint32_t t = 0; t < core.tokens; ++t) {
            copy_rows_out(core.slice_tokens(t, 1), row.data());
            const bool zero = std::all_of(row.begin(), row.end(), [](std::byte b) { return b == std::byte{0}; });
            std::byte* at = bodies[t % kTiers].data() + used[t % kTiers];
            *at = static_cast<std::byte>(zero ? 0 : 1 + context.first_token % 100);
            std::memcpy(at + 1, row.data(), zero ? 0 : row.size());
            used[t % kTiers] += 1 + (zero ? 0 : row.size());
        }
        for (std::uint8_t t = 0; t < kTiers; ++t) {
            bodies[t] = bodies[t].first(used[t]);
        }
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override {
        std::vector<base::Reader> readers(bodies.begin(), bodies.end());
        const std::size_t row_bytes = dst.channels * std::size_t{2};
        for (std::uint32_t t = 0; t < dst.tokens; ++t) {
            base::Bytes row(row_bytes);
            if (t % kTiers < bodies.size()) {
                base::Reader& r = readers[t % kTiers];
                const auto mark = r.get<std::uint8_t>();
                if (mark != 0 && mark != 1 + context.first_token % 100) {
                    return {ErrorCode::corrupt, "another first token"};
                }
                if (const base::ByteView stored = r.take(mark == 0 ? 0 : row_bytes); mark != 0 && !stored.empty()) {
                    row.assign(stored.begin(), stored.end());
                }
            }
            copy_rows_in(row.data(), dst.slice_tokens(t, 1));
        }
        for (const base::Reader& r : readers) {
            if (!r.status("row").ok() || r.remaining() != 0) {
                return {ErrorCode::corrupt, "body length"};
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> /*bodies*/, CoreShape /*shape*/,
                                 PageSymbols& /*out*/) const override {
        return {};
    }
};

PageCodec make(bool mono) {
    return {{"skipping", mono ? std::uint8_t{1} : kTiers, ""}, {}, std::make_unique<SkippingCoder>(), mono};
}

Page half_zero_page(std::uint32_t tokens) {
    Page page = random_page(kv::DType::f16, tokens, 10, 1);
    for (std::uint32_t t = 0; t < tokens; t += 2) {
        for (std::uint32_t c = 0; c < 10; ++c) {
            page.set(t, c, 0.0F);
        }
    }
    return page;
}

const PageContext kKeys{.first_token = 7,
                        .sequence_tokens = 0,
                        .layer = 3,
                        .layers = 0,
                        .kind = kv::Kind::key,
                        .head_channels = 5,
                        .rope = {.dims = 4, .base = 1e4F, .scale = 0.5F, .interleaved = true}};

TEST(PageCodec, BodiesOfVariableSizeAreCutAndFoundAgain) {
    for (const bool mono : {false, true}) {
        const PageCodec codec = make(mono);
        for (const std::uint32_t tokens : {1U, 2U, 3U, 20U, 40U}) {
            const Page page = half_zero_page(tokens);
            PageContext context = kKeys;
            context.sequence_tokens = 30;  // of 40 tokens from position 7 the last 33 are exact
            const auto payloads = testing::encode_or_die(codec, page.view(), context);
            std::size_t bytes = 0;
            for (std::size_t t = 0; t < payloads.size(); ++t) {
                EXPECT_LE(payloads[t].size(),
                          codec.encoded_bytes_max(tokens, 10, kv::DType::f16, static_cast<std::uint8_t>(t)));
                bytes += payloads[t].size() - kHeaderBytes;
            }
            const std::uint32_t core = std::min(tokens, 7U);  // positions 7 .. 13
            EXPECT_EQ(bytes, kContextBytes + (tokens - core) * 20 + core + core / 2 * 20 + (mono ? 8 : 0));
            EXPECT_TRUE(testing::decode_or_die(codec, payloads, payloads.size(), page.view()).same_elements(page));
        }
    }
}

TEST(PageCodec, AnyCutOrLengthOfAVariableBodyIsRefused) {
    for (const bool mono : {false, true}) {
        const PageCodec codec = make(mono);
        const Page page = half_zero_page(9);
        const auto payloads = testing::encode_or_die(codec, page.view(), kKeys);
        Page back(kv::DType::f16, 9, 10);
        for (std::size_t t = 0; t < payloads.size(); ++t) {
            PayloadHeader h = parse_payload(payloads[t]).value().header;
            for (std::uint32_t n = 0; n < payloads[t].size() - kHeaderBytes; ++n) {
                auto cut = payloads;
                cut[t].resize(kHeaderBytes + n);
                h.body_bytes = n;
                seal_payload(h, cut[t]);
                EXPECT_EQ(codec.decode(views(cut, t + 1), back.view()).code(), ErrorCode::corrupt) << n;
            }
        }
    }
    const PageCodec codec = make(true);
    auto payloads = testing::encode_or_die(codec, half_zero_page(9).view(), kKeys);
    Page back(kv::DType::f16, 9, 10);
    for (const std::uint32_t length : {0U, 1U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
        std::memcpy(payloads[0].data() + kHeaderBytes + kContextBytes, &length, sizeof length);
        seal_payload(parse_payload(testing::encode_or_die(codec, half_zero_page(9).view(), kKeys)[0]).value().header,
                     payloads[0]);
        EXPECT_EQ(codec.decode(views(payloads, 1), back.view()).code(), ErrorCode::corrupt) << length;
    }
}

TEST(PageCodec, ContextTravelsInTheAnchor) {
    std::array<std::byte, kContextBytes> bytes{};
    write_context(kKeys, bytes);
    PageContext expected = kKeys;
    expected.sequence_tokens = 0;
    EXPECT_EQ(read_context(bytes, 10).value(), expected);
    for (std::size_t bit = 0; bit < kContextBytes * 8; ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        const Result<PageContext> other = read_context(bytes, 10);
        EXPECT_FALSE(other.ok() && other.value() == expected) << bit;
        bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    }
}

TEST(PageCodec, ImpossibleContextsAreRefused) {
    const PageCodec codec = make(false);
    const Page page = half_zero_page(3);
    std::vector<base::Bytes> out(kTiers);
    const auto code = [&](auto change) {
        PageContext c = kKeys;
        change(c);
        return codec.encode(page.view(), c, out).code();
    };
    EXPECT_EQ(code([](PageContext&) {}), ErrorCode::ok);
    EXPECT_EQ(code([](PageContext& c) { c.first_token = kv::kContextTokensMax + 1; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.layer = kv::kLayersMax; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.head_channels = 4; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.kind = kv::Kind::value; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.rope.dims = 3; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.rope.dims = 6; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.rope.dims = 0; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.rope.base = 1.0F; }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.rope.base = std::nanf(""); }), ErrorCode::invalid_argument);
    EXPECT_EQ(code([](PageContext& c) { c.rope.scale = 0; }), ErrorCode::invalid_argument);
}

TEST(PageCodec, ContextOfALayer) {
    const kv::LayerGeometry layer{.kv_heads = 2,
                                  .key_dim = 8,
                                  .value_dim = 6,
                                  .dtype = kv::DType::f16,
                                  .window = 0,
                                  .rope = {.dims = 8, .base = 1e4F, .scale = 1, .interleaved = false}};
    const kv::Geometry geometry{{layer, layer}};
    const kv::Paging paging{100, 32};
    const PageContext key = page_context(geometry, 1, kv::Kind::key, paging, 3);
    EXPECT_EQ(key, (PageContext{96, 100, 1, 2, kv::Kind::key, 8, layer.rope}));
    const PageContext value = page_context(geometry, 1, kv::Kind::value, paging, 0);
    EXPECT_EQ(value, (PageContext{0, 100, 1, 2, kv::Kind::value, 6, {}}));
    EXPECT_TRUE(validate_context(key, 16).ok());
    EXPECT_TRUE(validate_context(value, 12).ok());
}

}  // namespace
}  // namespace lynx::codec
