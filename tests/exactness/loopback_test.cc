// Two nodes on the fake engine over real sockets: the output equals the reference run for every codec, window and sampler.
#include <atomic>

#include "base/rng.h"
#include "codec/codec.h"
#include "nodes_fixture.h"

namespace lynx {
namespace {

using testing::PrefillThread;
using testing::ReferenceRun;

ModelConfig fake_model() {
    ModelConfig model;
    model.path = "fake";
    model.context_tokens = 1024;
    model.batch_tokens = 64;
    return model;
}

std::vector<std::int32_t> prompt_of(std::uint32_t tokens, std::uint64_t seed) {
    base::Rng rng(seed);
    std::vector<std::int32_t> prompt(tokens);
    for (std::int32_t& t : prompt) {
        t = static_cast<std::int32_t>(rng.below(60));
    }
    return prompt;
}

struct Nodes {
    explicit Nodes(LinkEmulation link = {}) : prefill(config(link)) {
        DecodeConfig decode_config;
        decode_config.model = fake_model();
        decode_config.prefill = prefill.address();
        auto made = DecodeNode::create(decode_config);
        EXPECT_TRUE(made.ok()) << made.status().to_string();
        decode = std::move(made).value();
    }
    static PrefillConfig config(LinkEmulation link) {
        PrefillConfig c;
        c.model = fake_model();
        c.model.sequences = 2;
        c.link = link;
        return c;
    }
    PrefillThread prefill;
    std::unique_ptr<DecodeNode> decode;
};

GenerateRequest request_for(std::vector<std::int32_t> prompt, const std::string& codec) {
    GenerateRequest request;
    request.prompt_tokens = std::move(prompt);
    request.codec.name = codec;
    request.codec.page_tokens = 64;
    request.max_tokens = 48;
    request.ignore_end = true;
    return request;
}

TEST(Loopback, EveryCodecGivesTheReferenceRunsTokens) {
    Nodes nodes({.rate_bits_per_s = 20e6, .delay_s = 0.001});
    const std::vector<std::int32_t> prompt = prompt_of(333, 1);
    ReferenceRun reference(fake_model(), prompt);
    for (const codec::CodecInfo& info : codec::list_codecs()) {
        GenerateRequest request = request_for(prompt, info.name);
        request.window = 6;
        const auto report = nodes.decode->generate(request, {}, {});
        ASSERT_TRUE(report.ok()) << info.name << ": " << report.status().to_string();
        EXPECT_EQ(report.value().tokens, reference.tokens(request.codec, {}, 48)) << info.name;
        EXPECT_EQ(report.value().drafted, info.tiers > 1 ? 6U : 0U) << info.name;
    }
}

TEST(Loopback, WindowAndSamplerDoNotChangeWhatASeedSays) {
    Nodes nodes({.rate_bits_per_s = 50e6, .delay_s = 0});
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const std::vector<std::int32_t> prompt = prompt_of(120 + 41 * static_cast<std::uint32_t>(seed), seed);
        ReferenceRun reference(fake_model(), prompt);
        for (const float temperature : {0.0F, 0.8F}) {
            const speculate::Sampling sampling{temperature, 20, 0.95F, seed};
            GenerateRequest request = request_for(prompt, "nested44");
            const auto expected = reference.tokens(request.codec, sampling, 48);
            request.temperature = temperature;
            request.top_k = 20;
            request.top_p = 0.95F;
            request.seed = seed;
            for (const std::optional<std::uint32_t> window :
                 {std::optional<std::uint32_t>(1), std::optional<std::uint32_t>(8), std::optional<std::uint32_t>(64),
                  std::optional<std::uint32_t>()}) {
                request.window = window;
                const auto report = nodes.decode->generate(request, {}, {});
                ASSERT_TRUE(report.ok()) << report.status().to_string();
                EXPECT_EQ(report.value().tokens, expected) << "seed " << seed << " temperature " << temperature;
                drafted += report.value().drafted;
                accepted += report.value().accepted;
            }
        }
    }
    // The test means something only if drafts were both accepted and refused.
    EXPECT_GT(accepted, 0U);
    EXPECT_LT(accepted, drafted);
}

TEST(Loopback, TheVisibleTextIsTheCommittedText) {
    Nodes nodes({.rate_bits_per_s = 10e6, .delay_s = 0});
    GenerateRequest request = request_for(prompt_of(300, 9), "nested44");
    request.window = 8;
    std::string committed;
    bool drafts_seen = false;
    GenerateEvents events;
    events.on_text = [&](const TextUpdate& update) {
        committed += update.committed;
        drafts_seen = drafts_seen || !update.provisional.empty();
    };
    const auto report = nodes.decode->generate(request, events, {});
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(committed, report.value().text);
    EXPECT_TRUE(drafts_seen);
}

TEST(Loopback, TheSamePromptAgainIsAPrefixHit) {
    Nodes nodes;
    const GenerateRequest request = request_for(prompt_of(200, 3), "f16");
    EXPECT_FALSE(nodes.decode->generate(request, {}, {}).value().prefix_hit);
    EXPECT_TRUE(nodes.decode->generate(request, {}, {}).value().prefix_hit);
}

TEST(Loopback, AnotherModelIsRefusedByName) {
    PrefillConfig config = Nodes::config({});
    config.model.path = "fake:2";
    PrefillThread prefill(config);
    DecodeConfig decode_config;
    decode_config.model = fake_model();
    decode_config.prefill = prefill.address();
    const auto made = DecodeNode::create(decode_config);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), ErrorCode::invalid_argument);
    EXPECT_NE(made.status().message().find("fingerprint"), std::string::npos) << made.status().to_string();
}

TEST(Loopback, ACancelledRequestLeavesBothNodesUsable) {
    Nodes nodes({.rate_bits_per_s = 1e6, .delay_s = 0});  // the transfer would take many seconds
    std::stop_source stop;
    GenerateRequest request = request_for(prompt_of(400, 4), "f16");
    GenerateEvents events;
    events.on_prefill = [&](std::uint32_t, std::uint32_t, bool) { stop.request_stop(); };
    const auto cancelled = nodes.decode->generate(request, events, stop.get_token());
    ASSERT_FALSE(cancelled.ok());
    EXPECT_EQ(cancelled.status().code(), ErrorCode::cancelled);
    request = request_for(prompt_of(30, 5), "nested44");
    ReferenceRun reference(fake_model(), request.prompt_tokens);
    const auto next = nodes.decode->generate(request, {}, {});
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    EXPECT_EQ(next.value().tokens, reference.tokens(request.codec, {}, 48));
}

TEST(Loopback, AStoppedPrefillNodeFailsTheRequestAndAReturnedOneServesTheNext) {
    auto prefill = std::make_unique<PrefillThread>(Nodes::config({.rate_bits_per_s = 1e6, .delay_s = 0}));
    DecodeConfig config;
    config.model = fake_model();
    config.prefill = prefill->address();
    const auto decode = DecodeNode::create(config).value();
    std::atomic<bool> started = false;
    GenerateEvents events;
    events.on_prefill = [&](std::uint32_t, std::uint32_t, bool) { started = true; };
    std::jthread killer([&] {
        while (!started) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        EXPECT_TRUE(prefill->stop().ok());
    });
    const auto failed = decode->generate(request_for(prompt_of(400, 6), "nested44"), events, {});
    ASSERT_FALSE(failed.ok());
    killer.join();
    PrefillConfig again = Nodes::config({});
    again.listen = config.prefill;
    PrefillThread returned(again);
    ASSERT_EQ(returned.address(), config.prefill);
    const auto next = decode->generate(request_for(prompt_of(50, 7), "nested44"), {}, {});
    EXPECT_TRUE(next.ok()) << next.status().to_string();
}

}  // namespace
}  // namespace lynx
