// The fake engine: the contract, and what the contract does not ask of others: every single KV element counts.
#include <gtest/gtest.h>

#include <array>

#include <cmath>
#include <cstring>
#include <set>

#include "base/half.h"
#include "engine/engine_contract.h"

namespace lynx::engine {
namespace {

ContractCase contract_case(const std::string& name, FakeOptions options) {
    options.context_tokens = EngineContract::kContextTokens;
    options.sequences = EngineContract::kSequences;
    options.batch_tokens = EngineContract::kBatchTokens;
    return {.name = name, .make = [options]() -> Result<std::unique_ptr<Engine>> { return make_fake(options); }};
}

INSTANTIATE_TEST_SUITE_P(
    Fake, EngineContract,
    testing::Values(contract_case("default", {}), contract_case("five_tokens", {.vocabulary = 5}),
                    contract_case("odd_shape",
                                  {.vocabulary = 300, .layers = 5, .kv_heads = 3, .head_dim = 10, .seed = 9})),
    [](const auto& test) { return test.param.name; });

std::vector<Row> rows_of(std::uint32_t count, std::uint32_t vocabulary) {
    std::vector<Row> rows;
    for (std::uint32_t i = 0; i < count; ++i) {
        rows.push_back({.seq = 0, .token = static_cast<Token>((i * i + 3 * i) % vocabulary), .position = i});
    }
    return rows;
}

std::vector<float> logits_after(Engine& e, std::uint32_t held) {
    const Row row{.seq = 0, .token = 1, .position = held, .logits = true};
    EXPECT_TRUE(e.step({&row, 1}, nullptr).ok());
    std::vector<float> logits(e.logits(0).begin(), e.logits(0).end());
    EXPECT_TRUE(e.truncate(0, held).ok());
    return logits;
}

TEST(Fake, ASmallErrorInAnyElementOfAnyLayerMovesTheLogits) {
    const auto e = make_fake({.context_tokens = 512});
    constexpr std::uint32_t kHeld = 400;
    ASSERT_TRUE(e->step(rows_of(kHeld, 64), nullptr).ok());
    const std::vector<float> expected = logits_after(*e, kHeld);
    for (std::uint32_t l = 0; l < 3; ++l) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const kv::View view = e->kv_view(0, l, kind).value();
            for (std::uint32_t t = 0; t < kHeld; t += 57) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    std::uint16_t right = 0;
                    std::memcpy(&right, view.at(t, c), sizeof right);
                    const std::uint16_t wrong = base::f32_to_f16(base::f16_to_f32(right) + 0.01F);
                    std::memcpy(view.at(t, c), &wrong, sizeof wrong);
                    EXPECT_TRUE(logits_after(*e, kHeld) != expected) << l << ' ' << t << ' ' << c;
                    std::memcpy(view.at(t, c), &right, sizeof right);
                }
            }
        }
    }
    EXPECT_TRUE(logits_after(*e, kHeld) == expected);
}

TEST(Fake, SwappedTokensMoveTheLogits) {
    const auto e = make_fake({});
    ASSERT_TRUE(e->step(rows_of(300, 64), nullptr).ok());
    const std::vector<float> expected = logits_after(*e, 300);
    const kv::View view = e->kv_view(0, 1, kv::Kind::value).value();
    for (std::uint32_t c = 0; c < view.channels; ++c) {
        std::swap_ranges(view.at(10, c), view.at(10, c) + 2, view.at(200, c));
    }
    EXPECT_TRUE(logits_after(*e, 300) != expected);
}

TEST(Fake, KvLooksLikeKvAndLogitsAreSpread) {
    const auto e = make_fake({});
    ASSERT_TRUE(e->step(rows_of(500, 64), nullptr).ok());
    for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
        const kv::View view = e->kv_view(0, 2, kind).value();
        double squares = 0;
        for (std::uint32_t t = 0; t < 500; ++t) {
            for (std::uint32_t c = 0; c < view.channels; ++c) {
                std::uint16_t half = 0;
                std::memcpy(&half, view.at(t, c), sizeof half);
                squares += std::pow(static_cast<double>(base::f16_to_f32(half)), 2);
            }
        }
        const double rms = std::sqrt(squares / (500.0 * view.channels));
        EXPECT_GT(rms, 0.5);
        EXPECT_LT(rms, 5);
    }
    const std::vector<float> logits = logits_after(*e, 500);
    const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
    EXPECT_GT(*most - *least, 5);
    EXPECT_LT(*most - *least, 40);
}

TEST(Fake, EightBitKvSometimesChangesTheGreedyToken) {
    const auto exact = make_fake({});
    const auto rough = make_fake({});
    std::uint32_t differing = 0;
    for (std::uint32_t start = 0; start < 40; ++start) {
        std::vector<Row> rows = rows_of(120, 61);
        for (Row& row : rows) {
            row.token = static_cast<Token>((static_cast<std::uint32_t>(row.token) + 7 * start) % 63);
        }
        ASSERT_TRUE(exact->step(rows, nullptr).ok());
        ASSERT_TRUE(rough->step(rows, nullptr).ok());
        for (std::uint32_t l = 0; l < 3; ++l) {
            for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                const kv::View view = rough->kv_view(0, l, kind).value();
                for (std::uint32_t t = 0; t < 120; ++t) {
                    for (std::uint32_t c = 0; c < view.channels; ++c) {
                        *view.at(t, c) = std::byte{0x80};  // leaves sign, exponent and two bits of mantissa
                    }
                }
            }
        }
        const std::vector<float> a = logits_after(*exact, 120);
        const std::vector<float> b = logits_after(*rough, 120);
        differing +=
            std::max_element(a.begin(), a.end()) - a.begin() != std::max_element(b.begin(), b.end()) - b.begin();
        ASSERT_TRUE(exact->clear(0).ok());
        ASSERT_TRUE(rough->clear(0).ok());
    }
    EXPECT_GE(differing, 1U);
    EXPECT_LE(differing, 25U);
}

TEST(Fake, TokensPiecesAndTheEndToken) {
    const auto e = make_fake({.vocabulary = 96});
    const std::string text = "Hello, World! 0~";
    const std::vector<Token> tokens = e->tokenize(text, true).value();
    std::string back;
    for (const Token t : tokens) {
        back += e->piece(t);
    }
    EXPECT_EQ(back, text);
    EXPECT_EQ(e->info().end_tokens, std::vector<Token>{95});
    EXPECT_EQ(e->piece(95), "");
    EXPECT_TRUE(make_fake({.vocabulary = 5})->info().end_tokens.empty());
    EXPECT_NE(e->chat_prompt(std::array{ChatMessage{"user", "x"}}).value().find('x'), std::string::npos);
}

TEST(Fake, IdentityIsWeightsAndShapeOnly) {
    const Fingerprint base = make_fake({})->info().fingerprint;
    EXPECT_EQ(make_fake({.context_tokens = 64, .sequences = 1, .batch_tokens = 8})->info().fingerprint, base);
    const std::set<Fingerprint> all = {
        base, make_fake({.seed = 2})->info().fingerprint, make_fake({.vocabulary = 65})->info().fingerprint,
        make_fake({.layers = 4})->info().fingerprint, make_fake({.head_dim = 32})->info().fingerprint};
    EXPECT_EQ(all.size(), 5U);
}

}  // namespace
}  // namespace lynx::engine
