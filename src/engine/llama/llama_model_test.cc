// What the contract does not cover of real models: geometry, text, identity, damaged files, requantising, the two KV
// layouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <array>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/half.h"
#include "engine/engine.h"

namespace lynx::engine {
namespace {

using testing::HasSubstr;

std::string model_path(const std::string& name) { return std::string(LYNX_MODELS_DIR) + "/" + name; }
const std::string kSmol = model_path("SmolLM2-135M-Instruct.Q4_1.gguf");
const std::string kSmolQ40 = model_path("SmolLM2-135M-Instruct.Q4_0.gguf");
const std::string kGemma = model_path("gemma-3-270m-q4_k_m.gguf");

std::unique_ptr<Engine> load(const LlamaOptions& options) {
    Result<std::unique_ptr<Engine>> engine = load_llama(options);
    EXPECT_TRUE(engine.ok()) << engine.status().to_string();
    return engine.ok() ? std::move(engine).value() : nullptr;
}

std::string temporary(const std::string& name) {
    return testing::TempDir() + "llama_model_test_" + std::to_string(getpid()) + "_" + name;
}

double element(const kv::View& view, std::uint32_t t, std::uint32_t c) {
    std::uint16_t half = 0;
    std::memcpy(&half, view.at(t, c), sizeof half);
    return static_cast<double>(base::f16_to_f32(half));
}

std::vector<Row> rows_of(std::span<const Token> tokens) {
    std::vector<Row> rows;
    for (const Token t : tokens) {
        rows.push_back({.seq = 0, .token = t, .position = static_cast<std::uint32_t>(rows.size())});
    }
    rows.back().logits = true;
    return rows;
}

TEST(LlamaModel, SmolLm2Geometry) {
    const auto e = load({.model_path = kSmol, .context_tokens = 300});
    ASSERT_NE(e, nullptr);
    const ModelInfo& info = e->info();
    EXPECT_EQ(info.name, "SmolLM2-135M-Instruct.Q4_1");
    EXPECT_EQ(info.vocabulary, 49152U);
    EXPECT_EQ(info.context_tokens, 300U);
    ASSERT_EQ(info.geometry.layers.size(), 30U);
    for (const kv::LayerGeometry& layer : info.geometry.layers) {
        EXPECT_EQ(layer, (kv::LayerGeometry{.kv_heads = 3,
                                            .key_dim = 64,
                                            .value_dim = 64,
                                            .dtype = kv::DType::f16,
                                            .window = 0,
                                            .rope = {.dims = 64, .base = 100000, .scale = 1, .interleaved = true}}));
    }
    EXPECT_EQ(info.geometry.token_bytes(), 23040U);
    EXPECT_THAT(info.end_tokens, testing::Contains(2));
    EXPECT_EQ(e->kv_view(0, 0, kv::Kind::key).value().tokens, 300U);
}

TEST(LlamaModel, Gemma3HasSlidingLayersWithTheirOwnRotation) {
    const auto e = load({.model_path = kGemma, .context_tokens = 256, .batch_tokens = 32});
    ASSERT_NE(e, nullptr);
    const std::vector<kv::LayerGeometry>& layers = e->info().geometry.layers;
    ASSERT_EQ(layers.size(), 18U);
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const bool full = l % 6 == 5;
        EXPECT_EQ(layers[l].window, full ? 0U : 512U) << l;
        EXPECT_EQ(layers[l].rope.base, full ? 1e6F : 1e4F) << l;
        EXPECT_EQ(layers[l].rope.dims, 256U);
        EXPECT_FALSE(layers[l].rope.interleaved);
        EXPECT_EQ(layers[l].kv_heads, 1U);
        EXPECT_EQ(layers[l].key_dim, 256U);
    }
    EXPECT_EQ(e->chat_prompt(std::array{ChatMessage{"user", "hello"}}).status().code(), ErrorCode::invalid_argument)
        << "the base model has no chat template";
    EXPECT_EQ(e->tokenize("a", false).value().front(), 2) << "it wants a BOS";
}

TEST(LlamaModel, TextGoesInAndComesOut) {
    const auto e = load({.model_path = kSmol, .context_tokens = 512});
    ASSERT_NE(e, nullptr);
    const std::string text = "Größe, naïve; x = 3.5\n";
    std::string back;
    const std::vector<Token> tokens = e->tokenize(text, false).value();
    for (const Token t : tokens) {
        back += e->piece(t);
    }
    EXPECT_EQ(back, text);
    EXPECT_EQ(e->tokenize("<|im_end|>", true).value(), std::vector<Token>{2});
    EXPECT_GT(e->tokenize("<|im_end|>", false).value().size(), 1U);
    EXPECT_EQ(e->piece(2), "");
    EXPECT_EQ(e->piece(-1), "");
    EXPECT_TRUE(e->tokenize("", true).value().empty());

    const std::string prompt =
        e->chat_prompt(std::array{ChatMessage{"user", "What is the capital of France?"}}).value();
    EXPECT_THAT(prompt,
                HasSubstr("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"));
    std::vector<Row> rows = rows_of(e->tokenize(prompt, true).value());
    std::string answer;
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(e->step(rows, nullptr).ok());
        const std::span<const float> logits = e->logits(rows.size() - 1);
        const auto token = static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
        answer += e->piece(token);
        rows = {{.seq = 0, .token = token, .position = rows.back().position + 1, .logits = true}};
    }
    EXPECT_THAT(answer, HasSubstr("Paris"));
}

TEST(LlamaModel, FlashPrefillWritesTheSameKvInItsOwnLayout) {
    const LlamaOptions options{.model_path = kSmol, .context_tokens = 512, .sequences = 2};
    LlamaOptions flash_options = options;
    flash_options.exact = false;
    const auto flash = load(flash_options);
    const auto exact = load(options);
    ASSERT_TRUE(flash != nullptr && exact != nullptr);
    EXPECT_EQ(flash->info().fingerprint, exact->info().fingerprint);
    EXPECT_EQ(flash->info().geometry, exact->info().geometry);
    const std::vector<Token> tokens =
        exact
            ->tokenize(
                "Prefill and decode run on different machines; the cache between them is what the user waits for.",
                false)
            .value();
    ASSERT_TRUE(flash->step(rows_of(tokens), nullptr).ok());
    ASSERT_TRUE(exact->step(rows_of(tokens), nullptr).ok());
    for (std::uint32_t l = 0; l < 30; ++l) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const kv::View a = flash->kv_view(0, l, kind).value();
            const kv::View b = exact->kv_view(0, l, kind).value();
            double error = 0;
            double energy = 0;
            for (std::uint32_t t = 0; t < tokens.size(); ++t) {
                for (std::uint32_t c = 0; c < a.channels; ++c) {
                    error += std::pow(element(a, t, c) - element(b, t, c), 2);
                    energy += std::pow(element(b, t, c), 2);
                }
            }
            EXPECT_GT(energy, 0);
            EXPECT_LT(error / energy, 0.02) << "layer " << l;
        }
    }
    EXPECT_EQ(exact->kv_view(0, 0, kv::Kind::value).value().token_stride, 1) << "transposed";
    EXPECT_EQ(flash->kv_view(0, 0, kv::Kind::value).value().channel_stride, 1);
}

TEST(LlamaModel, ReserveIsQuick) {
    const auto e = load({.model_path = kSmol, .context_tokens = 2304});
    ASSERT_NE(e, nullptr);
    double best_s = 1e9;
    for (int i = 0; i < 5; ++i) {
        const auto start = std::chrono::steady_clock::now();
        ASSERT_TRUE(e->reserve(0, 2048).ok());
        best_s = std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        ASSERT_TRUE(e->clear(0).ok());
    }
    RecordProperty("reserve_2048_ms", std::to_string(best_s * 1e3));
    EXPECT_LT(best_s, 0.2) << "30 ms on a quiet machine";
}

TEST(LlamaModel, IdentityFollowsTheFile) {
    const LlamaOptions options{.model_path = kSmol, .context_tokens = 256, .exact = false};
    const auto first = load(options);
    LlamaOptions other = options;
    other.context_tokens = 512;
    other.sequences = 2;
    const auto again = load(other);
    other.model_path = kSmolQ40;
    const auto q40 = load(other);
    ASSERT_TRUE(first != nullptr && again != nullptr && q40 != nullptr);
    EXPECT_EQ(first->info().fingerprint, again->info().fingerprint);
    EXPECT_NE(first->info().fingerprint, q40->info().fingerprint);
    EXPECT_NE(first->info().fingerprint, Fingerprint{});
}

TEST(LlamaModel, WeightsCutShortAreCorrupt) {
    const std::string cut = temporary("cut.gguf");
    std::filesystem::copy_file(kSmol, cut);
    std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 4096);
    const Result<std::unique_ptr<Engine>> engine = load_llama({.model_path = cut, .context_tokens = 256});
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.status().code(), ErrorCode::corrupt) << engine.status().to_string();
    EXPECT_THAT(engine.status().message(), HasSubstr("corrupted or incomplete"));
    std::filesystem::remove(cut);
}

TEST(LlamaModel, RequantizedModelsLoadAndDecode) {
    const std::string out = temporary("q8_0.gguf");
    const Status status = requantize_llama(kSmol, out, "q8_0");
    ASSERT_TRUE(status.ok()) << status.to_string();
    std::vector<Token> greedy;
    for (const std::string& model : {kSmol, out}) {
        const auto e =
            load({.model_path = model, .context_tokens = 256});  // exact: also checks that it is batch invariant
        ASSERT_NE(e, nullptr);
        const std::vector<Row> rows = rows_of(e->tokenize("The capital of France is the city of", false).value());
        ASSERT_TRUE(e->step(rows, nullptr).ok());
        const std::span<const float> logits = e->logits(rows.size() - 1);
        greedy.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    }
    EXPECT_EQ(greedy[0], greedy[1]);
    for (const auto& entry : std::filesystem::directory_iterator(testing::TempDir())) {
        EXPECT_EQ(entry.path().string().find(out + ".partial"), std::string::npos) << "left behind";
    }
    std::filesystem::remove(out);
}

}  // namespace
}  // namespace lynx::engine
