// Real models, two nodes over TCP with an emulated link: 64 tokens identical to the reference run, greedy and coupled, for every
// window. LYNX_GRID=full: 20 prompts x 3 rates (./dev ci --long); otherwise 3 prompts x 1 rate.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "nodes_fixture.h"

namespace lynx {
namespace {

constexpr std::uint32_t kTokensOut = 64;

bool full_grid() {
    const char* grid = std::getenv("LYNX_GRID");
    return grid != nullptr && std::string(grid) == "full";
}

ModelConfig model_named(const std::string& file) {
    ModelConfig model;
    model.path = std::string(LYNX_MODELS_DIR) + "/" + file;
    model.context_tokens = 2304;
    return model;
}

/// `tokens` tokens of a text from `offset` bytes on.
std::vector<engine::Token> slice(const engine::Engine& engine, const std::string& file, std::size_t offset,
                                 std::size_t tokens) {
    std::ifstream in(std::string(LYNX_MODELS_DIR) + "/" + file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_GT(text.size(), offset + 8 * tokens) << file;
    std::vector<engine::Token> all = engine.tokenize(text.substr(offset, 8 * tokens), false).value();
    EXPECT_GE(all.size(), tokens);
    all.resize(tokens);
    return all;
}

struct Prompt {
    std::string file;
    std::size_t offset;
    std::size_t tokens;
};

std::vector<Prompt> prompts() {
    const char* files[] = {"debian-history.txt", "debian-reference.txt", "bible-kjv.txt"};
    std::vector<Prompt> all;
    if (!full_grid()) {
        for (std::size_t i = 0; i < 3; ++i) {
            all.push_back({files[i], 4000 + 3000 * i, 300 + 100 * i});
        }
        return all;
    }
    for (std::size_t i = 0; i < 20; ++i) {
        all.push_back({files[i % 3], 2000 + 2500 * (i / 3), 300 + 1700 * i / 19});
    }
    return all;
}

/// Every window and both samplers for one prompt at one rate; counts drafts.
struct Tally {
    std::uint32_t runs = 0, drafted = 0, accepted = 0;
};

void expect_identical(const ModelConfig& model, const std::vector<engine::Token>& prompt, double rate_bits_per_s,
                      testing::ReferenceRun& reference, const std::string& codec, Tally& tally) {
    PrefillConfig prefill_config;
    prefill_config.model = model;
    prefill_config.link = {.rate_bits_per_s = rate_bits_per_s, .delay_s = 0.002};
    testing::PrefillThread prefill(prefill_config);
    DecodeConfig decode_config;
    decode_config.model = model;
    decode_config.prefill = prefill.address();
    const auto decode = DecodeNode::create(decode_config);
    ASSERT_TRUE(decode.ok()) << decode.status().to_string();
    GenerateRequest request;
    request.prompt_tokens = prompt;
    request.codec.name = codec;
    request.max_tokens = kTokensOut;
    request.ignore_end = true;
    for (const bool coupled : {false, true}) {
        speculate::Sampling sampling;
        if (coupled) {
            sampling = {0.8F, 40, 0.95F, 1234};
            request.temperature = 0.8F;
            request.top_k = 40;
            request.top_p = 0.95F;
            request.seed = 1234;
        }
        const std::vector<engine::Token> expected = reference.tokens(request.codec, sampling, kTokensOut);
        for (const std::optional<std::uint32_t> window :
             {std::optional<std::uint32_t>(1), std::optional<std::uint32_t>(8), std::optional<std::uint32_t>(64),
              std::optional<std::uint32_t>()}) {
            request.window = window;
            const auto report = decode.value()->generate(request, {}, {});
            ASSERT_TRUE(report.ok()) << report.status().to_string();
            EXPECT_EQ(report.value().tokens, expected)
                << model.path << ", " << prompt.size() << " tokens, window "
                << (window ? std::to_string(*window) : "adaptive") << (coupled ? ", coupled" : ", greedy");
            ++tally.runs;
            tally.drafted += report.value().drafted;
            tally.accepted += report.value().accepted;
        }
    }
}

TEST(ModelGrid, SixtyFourTokensIdenticalToTheReferenceRun) {
    const ModelConfig model = model_named("SmolLM2-135M-Instruct.Q4_0.gguf");
    const auto tokenizer = node::open_engine(model, true).value();
    const std::vector<double> rates = full_grid() ? std::vector<double>{50e6, 250e6, 1e9} : std::vector<double>{100e6};
    Tally tally;
    for (const Prompt& prompt : prompts()) {
        const std::vector<engine::Token> tokens = slice(*tokenizer, prompt.file, prompt.offset, prompt.tokens);
        testing::ReferenceRun reference(model, tokens);
        for (const double rate : rates) {
            expect_identical(model, tokens, rate, reference, "nested44", tally);
        }
        std::printf("%s, %zu tokens: %u runs so far, %u of %u drafts accepted\n", prompt.file.c_str(), prompt.tokens,
                    tally.runs, tally.accepted, tally.drafted);
        std::fflush(stdout);
    }
    EXPECT_GT(tally.accepted, 0U);
    EXPECT_LT(tally.accepted, tally.drafted) << "the grid must also have refused drafts";
}

/// The other models, and a codec whose anchor is coarser, once each.
class OtherModels : public ::testing::TestWithParam<const char*> {};

TEST_P(OtherModels, IdenticalToTheReferenceRun) {
    const ModelConfig model = model_named(GetParam());
    const auto tokenizer = node::open_engine(model, true).value();
    const std::vector<engine::Token> tokens = slice(*tokenizer, "debian-history.txt", 9000, 280);
    testing::ReferenceRun reference(model, tokens);
    Tally tally;
    expect_identical(model, tokens, 100e6, reference, "alg1", tally);
    EXPECT_GT(tally.drafted, 0U);
}

/// With an exact tier it is the run that knows no transfer at all.
TEST(ExactTier, IdenticalToTheMonolithicRun) {
    const ModelConfig model = model_named("SmolLM2-135M-Instruct.Q4_1.gguf");
    const auto tokenizer = node::open_engine(model, true).value();
    const std::vector<engine::Token> tokens = slice(*tokenizer, "bible-kjv.txt", 20000, 300);
    testing::ReferenceRun reference(model, tokens);
    const std::vector<engine::Token> expected = reference.tokens({.name = "f16"}, {}, kTokensOut);
    PrefillConfig prefill_config;
    prefill_config.model = model;
    prefill_config.link = {.rate_bits_per_s = 100e6, .delay_s = 0.002};
    testing::PrefillThread prefill(prefill_config);
    DecodeConfig decode_config;
    decode_config.model = model;
    decode_config.prefill = prefill.address();
    const auto decode = DecodeNode::create(decode_config);
    ASSERT_TRUE(decode.ok()) << decode.status().to_string();
    for (const char* name : {"nested44-exact", "lynxt-exact"}) {
        GenerateRequest request;
        request.prompt_tokens = tokens;
        request.codec.name = name;
        request.max_tokens = kTokensOut;
        request.ignore_end = true;
        request.window = 8;
        const auto report = decode.value()->generate(request, {}, {});
        ASSERT_TRUE(report.ok()) << report.status().to_string();
        EXPECT_EQ(report.value().tokens, expected) << name;
        EXPECT_EQ(report.value().drafted, 8U) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, OtherModels,
                         ::testing::Values("SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"),
                         [](const auto& model) { return model.index == 0 ? "SmolLM2Q41" : "Gemma3"; });

}  // namespace
}  // namespace lynx
