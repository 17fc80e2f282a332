// The acceptance benchmark against the long way: drafting token by token on a tier's KV.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/prompt_kv.h"
#include "codec/options.h"
#include "lynx/bench.h"
#include "node/model.h"

namespace lynx::bench {
namespace {

constexpr std::uint32_t kTokens = 24;
constexpr std::uint32_t kPrefixMax = 400;

std::string long_text() {
    std::string text;
    for (int i = 0; i < 60; ++i) {
        text += "call " + std::to_string(i * i) + " me Ishmael. ";
    }
    return text;
}

ModelConfig fake_model() {
    ModelConfig model;
    model.path = "fake";
    model.context_tokens = 1024;
    return model;
}

/// How many greedy drafts on the tier equal the greedy tokens on the original KV, both made one by one.
std::uint32_t drafts_that_hold(const std::string& codec_name, std::uint8_t tier, std::uint32_t prefix) {
    const auto prefill = node::open_engine(fake_model(), false).value();
    const PromptKv all =
        prefill_prompt(*prefill, tokenize_text(*prefill, long_text(), kPrefixMax + kTokens + 1).value()).value();
    PromptKv kv = prefill_prompt(*prefill, prefix_of(all, prefix).prompt).value();
    const auto engine = node::open_engine(fake_model(), true).value();
    const auto codec = codec::make_codec(codec_name, codec::CodecParams{}).value();
    Reference reference(*engine, kv);
    EXPECT_TRUE(load_original(*engine, kv).ok());
    const auto truth = reference.decode(kTokens + 1, speculate::Sampling{}).value();
    EXPECT_TRUE(reference.load(*codec, tier).ok());
    const auto drafts = reference.decode(kTokens + 1, speculate::Sampling{}).value();
    EXPECT_EQ(truth[0], drafts[0]);
    std::uint32_t held = 0;
    while (held < kTokens && truth[held + 1] == drafts[held + 1]) {
        ++held;
    }
    return held;
}

TEST(Accept, OnePassCountsWhatFreeDraftingWouldKeep) {
    AcceptConfig config;
    config.model = fake_model();
    config.texts = {{"text", long_text()}};
    config.prompt_tokens_max = kPrefixMax;
    config.tokens = kTokens;
    config.places = 4;
    for (const char* name : {"nested44", "alg1", "int4"}) {
        config.codecs.emplace_back().name = name;
    }
    const AcceptReport report = run_accept(config, {}).value();
    ASSERT_EQ(report.prefix_tokens, (std::vector<std::uint32_t>{100, 200, 300, 400}));
    ASSERT_EQ(report.rows.size(), 5U);
    bool some_fail = false;
    for (const AcceptRow& row : report.rows) {
        const std::uint8_t tier = row.tier == "full" && row.codec.name != "int4" ? 1 : 0;
        double total = 0;
        double held_10 = 0;
        for (const std::uint32_t prefix : report.prefix_tokens) {
            const std::uint32_t held = drafts_that_hold(row.codec.name, tier, prefix);
            total += held;
            held_10 += held >= 10 ? 1 : 0;
            some_fail = some_fail || held < kTokens;
        }
        EXPECT_DOUBLE_EQ(row.original.accepted_prefix.mean, total / 4) << row.codec.name << " " << row.tier;
        EXPECT_DOUBLE_EQ(row.original.p_accept_10.value().mean, held_10 / 4) << row.codec.name << " " << row.tier;
        EXPECT_GT(row.original.kl.mean, 0) << row.codec.name;
        EXPECT_LE(row.original.expected_accept.mean, 1) << row.codec.name;
        // min(p, q) summed is 1 - total variation, and Pinsker bounds that by the KL.
        EXPECT_GE(row.original.expected_accept.mean, 1 - std::sqrt(row.original.kl.mean / 2)) << row.codec.name;
    }
    EXPECT_TRUE(some_fail) << "every draft holds, so nothing was compared";
}

TEST(Accept, AblationVariesOneParameterAtATime) {
    const CodecOptions standard;
    for (const CodecOptions& o : ablation_codecs()) {
        const int changed = (o.alpha != standard.alpha) + (o.chunk_tokens != standard.chunk_tokens) +
                            (o.page_tokens != standard.page_tokens) + (o.meta != standard.meta) +
                            (o.sinks != standard.sinks) + (o.recent != standard.recent);
        EXPECT_LE(changed, 1) << o.name;
        ASSERT_TRUE(codec::make_codec(o.name, codec::to_params(o).value()).ok()) << o.name;
    }
}

}  // namespace
}  // namespace lynx::bench
