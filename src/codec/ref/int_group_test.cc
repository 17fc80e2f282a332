#include <gtest/gtest.h>

#include "codec/payload.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::decode_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;

TEST(IntGroup, EveryIntegerOfAllTiersDecodesToItself) {
    // Scale 1: group 0 holds 127, so q is the element itself.
    for (const std::string name : {"int8", "int8-split", "int4"}) {
        const auto codec = codec_or_die(name);
        const int q_max = name == "int4" ? 7 : 127;
        Page page(kv::DType::f16, static_cast<std::uint32_t>(2 * q_max + 1), 32);
        for (int q = -q_max; q <= q_max; ++q) {
            const auto t = static_cast<std::uint32_t>(q + q_max);
            page.set(t, 0, static_cast<float>(q_max));
            page.set(t, 1, static_cast<float>(q));
        }
        const auto payloads = encode_or_die(*codec, page.view());
        const Page full = decode_or_die(*codec, payloads, payloads.size(), page.view());
        const Page anchor = decode_or_die(*codec, payloads, 1, page.view());
        for (int q = -q_max; q <= q_max; ++q) {
            const auto t = static_cast<std::uint32_t>(q + q_max);
            EXPECT_EQ(full.at(t, 1), q);
            if (name == "int8-split") {
                EXPECT_EQ(anchor.at(t, 1), 16.0 * std::floor(q / 16.0) + 7.5);
            }
        }
    }
}

TEST(IntGroup, BitsPerElement) {
    const Page page = random_page(kv::DType::f16, 256, 192, 2);
    const double elements = 256 * 192;
    for (const auto& [name, bits] : {std::pair{"int8", 8.5}, std::pair{"int4", 4.5}}) {
        const auto payloads = encode_or_die(*codec_or_die(name), page.view());
        EXPECT_NEAR(8.0 * static_cast<double>(payloads[0].size() - kHeaderBytes) / elements, bits, 1e-12);
    }
}

TEST(RawF16, KeepsEveryBitOfAHalf) {
    const auto codec = codec_or_die("f16");
    Page page = random_page(kv::DType::f16, 20, 33, 3);
    page.set(3, 3, -0.0F);
    page.set(4, 4, 0x1p-24F);
    EXPECT_TRUE(decode_or_die(*codec, encode_or_die(*codec, page.view()), 1, page.view()).same_elements(page));
}

}  // namespace
}  // namespace lynx::codec
