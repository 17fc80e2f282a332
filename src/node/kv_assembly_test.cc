// Pages in any order end as the codec's own decode, and nothing shows before it is whole.
#include "node/kv_assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/half.h"
#include "base/rng.h"

namespace lynx::node {
namespace {

constexpr std::uint32_t kTokens = 83;  // a partial last page
constexpr std::uint32_t kChannels = 24;
constexpr std::uint32_t kLayers = 2;

/// An engine's memory: K token-major with padding, V channel-major, as llama.cpp keeps them without flash attention.
struct Memory {
    std::vector<std::byte> bytes = std::vector<std::byte>(2 * kLayers * 2 * 128 * kChannels);
    std::vector<LayerViews> views() {
        std::vector<LayerViews> all;
        std::byte* at = bytes.data();
        for (std::uint32_t l = 0; l < kLayers; ++l) {
            LayerViews v;
            v.key = {at, kv::DType::f16, 128, kChannels, kChannels, 1};
            v.value = {at + 2 * 128 * kChannels, kv::DType::f16, 128, kChannels, 1, 128};
            at += 2 * 2 * 128 * kChannels;
            all.push_back(v);
        }
        return all;
    }
};

struct Page {
    kv::PageKey key;
    base::Bytes payload;
};

struct Fixture {
    std::unique_ptr<codec::Codec> codec;
    kv::Geometry geometry;
    kv::Paging paging{kTokens, 32};
    std::vector<std::vector<std::uint16_t>> planes;
    std::vector<Page> pages;

    explicit Fixture(const char* name) {
        codec::CodecParams params;
        params.page_tokens = 32;
        params.chunk_tokens = 16;
        codec = codec::make_codec(name, params).value();
        geometry.layers.assign(
            kLayers, {.kv_heads = 2, .key_dim = 12, .value_dim = 12, .dtype = kv::DType::f16, .window = 0, .rope = {}});
        base::Rng rng(7);
        for (std::uint32_t i = 0; i < 2 * kLayers; ++i) {
            std::vector<std::uint16_t>& plane = planes.emplace_back(kTokens * kChannels);
            for (std::uint16_t& x : plane) {
                x = base::f32_to_f16(static_cast<float>(rng.unit() * 8 - 4));
            }
        }
        for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
            for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                for (std::uint32_t page = 0; page < paging.pages(); ++page) {
                    std::vector<base::Bytes> out(codec->info().tiers);
                    EXPECT_TRUE(
                        codec->encode(source(layer, kind, page), {paging.first_token(page), kTokens}, out).ok());
                    for (std::size_t tier = 0; tier < out.size(); ++tier) {
                        pages.push_back({{1, 1, static_cast<std::uint16_t>(layer), kind,
                                          static_cast<std::uint8_t>(tier), page, paging.first_token(page)},
                                         out[tier]});
                    }
                }
            }
        }
    }

    kv::ConstView source(std::uint32_t layer, kv::Kind kind, std::uint32_t page) {
        const auto* data =
            reinterpret_cast<const std::byte*>(planes[2 * layer + (kind == kv::Kind::key ? 0 : 1)].data());
        return kv::token_major(data, kv::DType::f16, kTokens, kChannels)
            .slice_tokens(paging.first_token(page), paging.tokens_in(page));
    }

    /// What the engine's memory must hold at that tier.
    Memory expected(std::uint8_t tier) {
        Memory memory;
        auto views = memory.views();
        for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
            for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                for (std::uint32_t page = 0; page < paging.pages(); ++page) {
                    std::vector<base::Bytes> out(codec->info().tiers);
                    EXPECT_TRUE(
                        codec->encode(source(layer, kind, page), {paging.first_token(page), kTokens}, out).ok());
                    const std::vector<base::ByteView> up_to(out.begin(), out.begin() + tier + 1);
                    const kv::View target = kind == kv::Kind::key ? views[layer].key : views[layer].value;
                    EXPECT_TRUE(
                        codec->decode(up_to, target.slice_tokens(paging.first_token(page), paging.tokens_in(page)))
                            .ok());
                }
            }
        }
        return memory;
    }
};

TEST(KvAssembly, AnyOrderEndsAsTheCodecsOwnDecode) {
    for (const char* name : {"nested44", "alg1", "f16", "nested44-mono", "nested44-exact", "lynxt-exact"}) {
        Fixture f(name);
        const Memory anchor = f.expected(0);
        const Memory full = f.expected(f.codec->info().tiers - 1);
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            std::vector<Page> order = f.pages;
            std::shuffle(order.begin(), order.end(), base::Rng(seed));
            Memory memory;
            KvAssembly assembly(*f.codec, f.geometry, f.paging, memory.views());
            bool anchor_seen = false;
            for (Page& page : order) {
                ASSERT_FALSE(assembly.full_complete());
                ASSERT_TRUE(assembly.accept(page.key, page.payload).ok());
                if (assembly.anchor_complete() && !anchor_seen) {
                    anchor_seen = true;
                    EXPECT_EQ(memory.bytes, anchor.bytes) << name << " seed " << seed;
                }
            }
            ASSERT_TRUE(assembly.full_complete() && anchor_seen);
            if (f.codec->info().tiers > 1) {
                EXPECT_EQ(memory.bytes, anchor.bytes) << "later tiers stay staged until they are applied";
                for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
                    ASSERT_TRUE(assembly.layer_staged(layer));
                    assembly.apply_layer(layer);
                }
            }
            EXPECT_EQ(memory.bytes, full.bytes) << name << " seed " << seed;
        }
    }
}

TEST(KvAssembly, TheExactTierLeavesTheOriginalInTheEnginesMemory) {
    for (const char* name : {"nested44-exact", "lynxt-exact", "lynxt-exact-mono"}) {
        Fixture f(name);
        const Memory last = f.expected(f.codec->info().tiers - 1);
        Memory original;
        auto views = original.views();
        for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
            for (std::uint32_t t = 0; t < kTokens; ++t) {
                for (std::uint32_t c = 0; c < kChannels; ++c) {
                    std::memcpy(views[layer].key.at(t, c), &f.planes[2 * layer][t * kChannels + c], 2);
                    std::memcpy(views[layer].value.at(t, c), &f.planes[2 * layer + 1][t * kChannels + c], 2);
                }
            }
        }
        EXPECT_EQ(last.bytes, original.bytes) << name;
    }
}

TEST(KvAssembly, ADamagedPayloadIsRefused) {
    Fixture f("nested44");
    for (std::size_t at : {std::size_t{0}, std::size_t{40}, f.pages[0].payload.size() - 1}) {
        Memory memory;
        KvAssembly assembly(*f.codec, f.geometry, f.paging, memory.views());
        base::Bytes damaged = f.pages[0].payload;
        damaged[at] ^= std::byte{4};
        const Status status = assembly.accept(f.pages[0].key, damaged);
        EXPECT_FALSE(status.ok());
        EXPECT_NE(status.message().find("page 0 of layer 0 K"), std::string::npos) << status.to_string();
        EXPECT_FALSE(assembly.anchor_complete());
    }
}

TEST(KvAssembly, APayloadOfAnotherPlaceIsRefusedWhenItsShapeDiffers) {
    Fixture f("nested44");
    Memory memory;
    KvAssembly assembly(*f.codec, f.geometry, f.paging, memory.views());
    // The last page is partial: its payload cannot stand for a whole one.
    const auto last =
        std::find_if(f.pages.begin(), f.pages.end(), [&](const Page& p) { return p.key.page == f.paging.pages() - 1; });
    EXPECT_FALSE(assembly.accept(f.pages[0].key, last->payload).ok());
}

}  // namespace
}  // namespace lynx::node
