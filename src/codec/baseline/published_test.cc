// What the published baselines promise beyond conformance: the axes of KIVI's groups and its exact tokens, CacheGen's sizes and
// layers, KVQuant's outliers and keys, TurboQuant's rotation.
#include <gtest/gtest.h>

#include "codec/baseline/range_coder.h"
#include "codec/baseline/rotation.h"
#include "codec/context.h"
#include "codec/payload.h"
#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::decode_or_die;
using testing::encode_or_die;
using testing::Page;
using testing::random_page;

PageContext context_of(kv::Kind kind, std::uint32_t first, std::uint32_t sequence) {
    PageContext context;
    context.kind = kind;
    context.first_token = first;
    context.sequence_tokens = sequence;
    return context;
}

/// A page that is constant along tokens, or along channels.
Page stripes(bool along_tokens) {
    Page page(kv::DType::f16, 64, 64);
    for (std::uint32_t t = 0; t < 64; ++t) {
        for (std::uint32_t c = 0; c < 64; ++c) {
            page.set(t, c, static_cast<float>(along_tokens ? c * c : t * t));
        }
    }
    return page;
}

TEST(Kivi, KeysAreGroupedAlongTokensAndValuesAlongChannels) {
    const auto codec = codec_or_die("kivi2");
    for (const bool along_tokens : {true, false}) {
        const Page page = stripes(along_tokens);
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const auto payloads = encode_or_die(*codec, page.view(), context_of(kind, 0, 0));
            const bool exact = decode_or_die(*codec, payloads, 1, page.view()).same_elements(page);
            EXPECT_EQ(exact, along_tokens == (kind == kv::Kind::key)) << along_tokens << static_cast<int>(kind);
        }
    }
}

TEST(Kivi, TheNewestTokensAreExact) {
    CodecParams params;
    params.page_tokens = 64;
    const auto codec = codec_or_die("kivi4", params);
    const Page page = random_page(kv::DType::f16, 64, 40, 3);
    struct Case {
        kv::Kind kind;
        std::uint32_t first;
        std::uint32_t sequence;
        std::uint32_t tail;
    };
    for (const Case& c :
         {Case{kv::Kind::key, 128, 300, 0}, Case{kv::Kind::key, 192, 300, 0}, Case{kv::Kind::key, 236, 300, 44},
          Case{kv::Kind::key, 192, 256, 0}, Case{kv::Kind::value, 128, 300, 20}, Case{kv::Kind::value, 192, 300, 64}}) {
        const auto payloads = encode_or_die(*codec, page.view(), context_of(c.kind, c.first, c.sequence));
        EXPECT_EQ(parse_payload(payloads[0]).value().header.exact_tail, c.tail) << c.first;
        EXPECT_EQ(parse_payload(payloads[0]).value().header.exact_head, 0);
        const Page back = decode_or_die(*codec, payloads, 1, page.view());
        for (std::uint32_t t = 64 - c.tail; t < 64; ++t) {
            for (std::uint32_t i = 0; i < 40; ++i) {
                EXPECT_EQ(back.at(t, i), page.at(t, i));
            }
        }
    }
}

PageContext rotated(bool interleaved, std::uint32_t first) {
    PageContext context = context_of(kv::Kind::key, first, 0);
    context.head_channels = 16;
    context.rope = {.dims = 12, .base = 1e4F, .scale = 0.5F, .interleaved = interleaved};
    return context;
}

TEST(Rotation, IsTheClosedFormAndComesBack) {
    for (std::uint64_t i = 0; i < 4096; ++i) {
        const std::uint64_t phase = base::mix64(i);
        const double angle = std::ldexp(static_cast<double>(phase), -64) * 2 * 3.14159265358979323846;
        EXPECT_NEAR(sine_cosine(phase).sine, std::sin(angle), 4e-15);
        EXPECT_NEAR(sine_cosine(phase).cosine, std::cos(angle), 4e-15);
    }
    for (const bool interleaved : {false, true}) {
        const std::uint32_t first = 1000000;
        std::vector<float> x(2 * 32);
        base::Rng rng(4);
        for (float& e : x) {
            e = static_cast<float>(rng.unit());
        }
        std::vector<float> y = x;
        const Rotation rotation(rotated(interleaved, first));
        rotation.apply(y, 2, 32);
        for (std::size_t i = 0; i < 6; ++i) {
            const double angle = (first + 1) * 0.5 * std::pow(1e4, -2.0 * static_cast<double>(i) / 12);
            const std::size_t a = 32 + 16 + (interleaved ? 2 * i : i);
            const std::size_t b = 32 + 16 + (interleaved ? 2 * i + 1 : i + 6);
            EXPECT_NEAR(y[a], x[a] * std::cos(angle) - x[b] * std::sin(angle), 1e-6) << i;
            EXPECT_NEAR(y[b], x[a] * std::sin(angle) + x[b] * std::cos(angle), 1e-6) << i;
        }
        EXPECT_EQ(y[12], x[12]);
        rotation.undo(y, 2, 32);
        for (std::size_t i = 0; i < x.size(); ++i) {
            EXPECT_NEAR(y[i], x[i], 1e-6) << i;
        }
    }
}

/// Keys whose channels are constant before rotation cost nothing but float16's rounding, wherever their page begins.
TEST(KvQuant, KeysAreQuantisedBeforeTheirRotation) {
    const auto codec = codec_or_die("kvquant3");
    for (const bool interleaved : {false, true}) {
        const PageContext context = rotated(interleaved, 777);
        std::vector<float> x(std::size_t{100} * 32);
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = static_cast<float>(i % 32) - 15.0F;
        }
        Rotation(context).apply(x, 100, 32);
        Page page(kv::DType::f32, 100, 32);
        for (std::uint32_t t = 0; t < 100; ++t) {
            for (std::uint32_t c = 0; c < 32; ++c) {
                page.set(t, c, x[std::size_t{t} * 32 + c]);
            }
        }
        for (const bool told : {true, false}) {
            const auto payloads =
                encode_or_die(*codec, page.view(), told ? context : context_of(kv::Kind::key, 777, 0));
            const Page back = decode_or_die(*codec, payloads, 1, page.view());
            double worst = 0;
            for (std::uint32_t t = 0; t < 100; ++t) {
                for (std::uint32_t c = 0; c < 32; ++c) {
                    worst = std::max(worst, std::fabs(back.at(t, c) - page.at(t, c)));
                }
            }
            EXPECT_EQ(worst < 0.01, told) << worst;
        }
    }
}

TEST(KvQuant, OutliersAreKept) {
    const auto codec = codec_or_die("kvquant4");
    Page page(kv::DType::f16, 5, 200);
    base::Rng rng(5);
    for (std::uint32_t t = 0; t < 5; ++t) {
        for (std::uint32_t c = 0; c < 200; ++c) {
            page.set(t, c, static_cast<float>(rng.unit()));
        }
        page.set(t, 17 * t, 1000.0F);
        page.set(t, 190 - t, -500.0F);
    }
    const auto payloads = encode_or_die(*codec, page.view(), context_of(kv::Kind::value, 50, 1000));
    const Page back = decode_or_die(*codec, payloads, 1, page.view());
    for (std::uint32_t t = 0; t < 5; ++t) {
        EXPECT_EQ(back.at(t, 17 * t), 1000.0);
        EXPECT_EQ(back.at(t, 190 - t), -500.0);
        EXPECT_NEAR(back.at(t, 100), page.at(t, 100), 0.1);
    }
}

TEST(CacheGen, SmoothPagesAreSmallAndLaterLayersSmaller) {
    const auto codec = codec_or_die("cachegen");
    Page page(kv::DType::f16, 256, 64);
    base::Rng rng(1);
    for (std::uint32_t c = 0; c < 64; ++c) {
        for (std::uint32_t t = 0; t < 256; ++t) {
            page.set(t, c, static_cast<float>(static_cast<int>(c) - 32 + 0.01 * rng.unit() * (c == 5 ? 300 : 1)));
        }
    }
    const auto bytes = [&](std::uint16_t layer) {
        PageContext context;
        context.layer = layer;
        context.layers = 30;
        const auto payloads = encode_or_die(*codec, page.view(), context);
        const Page back = decode_or_die(*codec, payloads, 1, page.view());
        EXPECT_NEAR(back.at(17, 9), page.at(17, 9), 0.5);
        return payloads[0].size();
    };
    const std::size_t packed = (26 * 8 + 230 * 5) * 64 / 8;
    EXPECT_LT(bytes(9), packed * 3 / 5);
    EXPECT_LT(bytes(10), bytes(9));
    EXPECT_EQ(bytes(29), bytes(10));
}

TEST(RangeCoder, AnySymbolsComeBackAndBytesAreUsedExactly) {
    base::Rng rng(2);
    for (const unsigned bits : {1U, 4U, 5U, 8U}) {
        for (const std::uint64_t kinds : {std::uint64_t{1}, std::uint64_t{3}, std::uint64_t{1} << bits}) {
            std::vector<std::uint32_t> symbols(2000);
            for (std::uint32_t& s : symbols) {
                s = static_cast<std::uint32_t>(rng.below(kinds) & ((1U << bits) - 1));
            }
            base::Bytes coded;
            RangeEncoder encoder(coded);
            SymbolModel model;
            for (const std::uint32_t s : symbols) {
                encoder.put(model, bits, s);
            }
            encoder.finish();
            for (const int change : {0, 1, -1}) {
                base::Bytes bytes = coded;
                bytes.resize(static_cast<std::size_t>(static_cast<std::ptrdiff_t>(coded.size()) + change));
                RangeDecoder decoder(bytes);
                SymbolModel again;
                bool same = true;
                for (const std::uint32_t s : symbols) {
                    same = decoder.get(again, bits) == s && same;
                }
                EXPECT_TRUE(same || change < 0) << bits;
                EXPECT_EQ(decoder.done(), change == 0) << bits << " " << change;
            }
        }
    }
}

TEST(TurboQuant, SpreadsOneElementAndKeepsMostEnergy) {
    for (const auto& [name, share] : {std::pair{"turboquant3", 0.05}, std::pair{"turboquant4", 0.015}}) {
        const auto codec = codec_or_die(name);
        Page page(kv::DType::f32, 200, 128);
        base::Rng rng(3);
        double energy = 0;
        for (std::uint32_t t = 0; t < 200; ++t) {
            for (std::uint32_t c = 0; c < 128; ++c) {
                const double x = rng.unit() + rng.unit() + rng.unit() - 1.5 + (c == 7 ? 5 : 0);
                page.set(t, c, static_cast<float>(x));
                energy += page.at(t, c) * page.at(t, c);
            }
        }
        const Page back = decode_or_die(*codec, encode_or_die(*codec, page.view()), 1, page.view());
        double error = 0;
        for (std::uint32_t t = 0; t < 200; ++t) {
            for (std::uint32_t c = 0; c < 128; ++c) {
                error += (back.at(t, c) - page.at(t, c)) * (back.at(t, c) - page.at(t, c));
            }
        }
        EXPECT_LT(error, energy * share) << name;
    }
}

}  // namespace
}  // namespace lynx::codec
