// Continuous batching: many requests share the decode node's steps, and each gets what it would get alone.
#include <condition_variable>
#include <mutex>

#include "base/rng.h"
#include "node/decode_scheduler.h"
#include "nodes_fixture.h"

namespace lynx {
namespace {

ModelConfig fake_model(std::uint32_t sequences) {
    ModelConfig model;
    model.path = "fake";
    model.context_tokens = 512;
    model.batch_tokens = 48;  // so small that not every request fits every step
    model.sequences = sequences;
    return model;
}

/// Collects the outcomes of submitted requests.
class Outcomes {
public:
    node::DecodeScheduler::Done taker(std::size_t index) {
        return [this, index](Result<GenerateReport> report) {
            const std::lock_guard lock(mutex_);
            reports_.emplace(index, std::move(report));
            changed_.notify_all();
        };
    }
    void wait_for(std::size_t count) {
        std::unique_lock lock(mutex_);
        ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [&] { return reports_.size() >= count; }));
    }
    const Result<GenerateReport>& of(std::size_t index) const { return reports_.at(index); }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::size_t, Result<GenerateReport>> reports_;
};

struct Nodes {
    Nodes(std::uint32_t sequences, std::size_t queue_max) : prefill(config()) {
        DecodeConfig decode;
        decode.model = fake_model(sequences);
        decode.prefill = prefill.address();
        auto opened = node::DecodeScheduler::open(decode, queue_max);
        EXPECT_TRUE(opened.ok()) << opened.status().to_string();
        scheduler = std::move(opened).value();
    }
    static PrefillConfig config() {
        PrefillConfig c;
        c.model = fake_model(3);
        c.link = {.rate_bits_per_s = 20e6, .delay_s = 0.001};
        return c;
    }
    testing::PrefillThread prefill;
    std::unique_ptr<node::DecodeScheduler> scheduler;
};

GenerateRequest request_of(std::uint64_t seed) {
    base::Rng rng(seed);
    GenerateRequest request;
    request.prompt_tokens.resize(30 + rng.below(200));
    for (std::int32_t& t : request.prompt_tokens) {
        t = static_cast<std::int32_t>(rng.below(60));
    }
    const char* codecs[] = {"nested44", "alg1", "int8-split", "int8"};
    request.codec.name = codecs[rng.below(4)];
    request.codec.page_tokens = 64;
    request.max_tokens = static_cast<std::uint32_t>(8 + rng.below(40));
    request.ignore_end = true;
    if (rng.below(2) == 1) {
        request.temperature = 0.9F;
        request.seed = seed;
    }
    const std::optional<std::uint32_t> windows[] = {std::nullopt, 1, 8, 40};
    request.window = windows[rng.below(4)];
    return request;
}

TEST(Batching, EveryRequestGetsTheReferenceRunsTokens) {
    constexpr std::size_t kRequests = 24;
    Nodes nodes(4, kRequests);
    Outcomes outcomes;
    for (std::size_t i = 0; i < kRequests; ++i) {
        ASSERT_TRUE(nodes.scheduler->submit(request_of(i), {}, outcomes.taker(i)).ok());
    }
    outcomes.wait_for(kRequests);
    std::uint32_t drafted = 0;
    for (std::size_t i = 0; i < kRequests; ++i) {
        const GenerateRequest request = request_of(i);
        ASSERT_TRUE(outcomes.of(i).ok()) << i << ": " << outcomes.of(i).status().to_string();
        testing::ReferenceRun reference(fake_model(1), request.prompt_tokens);
        const speculate::Sampling sampling{request.temperature, request.top_k, request.top_p, request.seed};
        EXPECT_EQ(outcomes.of(i).value().tokens, reference.tokens(request.codec, sampling, request.max_tokens)) << i;
        drafted += outcomes.of(i).value().drafted;
    }
    EXPECT_GT(drafted, 0U);
}

TEST(Batching, ACancelledRequestFreesItsSequenceAndDisturbsNobody) {
    Nodes nodes(2, 8);
    Outcomes outcomes;
    std::vector<node::DecodeScheduler::JobId> ids;
    for (std::size_t i = 0; i < 6; ++i) {
        GenerateRequest request = request_of(100 + i);
        request.max_tokens = 200;
        const auto id = nodes.scheduler->submit(request, {}, outcomes.taker(i));
        ASSERT_TRUE(id.ok());
        ids.push_back(id.value());
    }
    nodes.scheduler->cancel(ids[0]);  // runs, or is about to
    nodes.scheduler->cancel(ids[4]);  // waits
    outcomes.wait_for(6);
    for (const std::size_t i : {std::size_t{0}, std::size_t{4}}) {
        EXPECT_EQ(outcomes.of(i).status().code(), ErrorCode::cancelled);
    }
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{5}}) {
        ASSERT_TRUE(outcomes.of(i).ok()) << outcomes.of(i).status().to_string();
        EXPECT_EQ(outcomes.of(i).value().tokens.size(), 200U);
    }
}

TEST(Batching, AFullQueueRefusesAndAStopFailsWhatIsLeft) {
    Outcomes outcomes;
    {
        Nodes nodes(1, 2);
        std::size_t taken = 0;
        Status refused;
        for (std::size_t i = 0; i < 20 && refused.ok(); ++i) {
            GenerateRequest request = request_of(7);
            request.max_tokens = 250;
            const auto id = nodes.scheduler->submit(request, {}, outcomes.taker(i));
            refused = id.status();
            taken += id.ok() ? 1U : 0U;
        }
        EXPECT_EQ(refused.code(), ErrorCode::limit_exceeded);
        nodes.scheduler.reset();
        outcomes.wait_for(taken);
        EXPECT_EQ(outcomes.of(taken - 1).status().code(), ErrorCode::cancelled);
    }
}

TEST(Batching, ABadRequestIsRefusedAtOnce) {
    Nodes nodes(1, 2);
    GenerateRequest request = request_of(1);
    request.max_tokens = 100000;
    EXPECT_EQ(nodes.scheduler->submit(request, {}, [](const auto&) {}).status().code(), ErrorCode::invalid_argument);
    request = request_of(1);
    request.codec.name = "no-such";
    EXPECT_EQ(nodes.scheduler->submit(request, {}, [](const auto&) {}).status().code(), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace lynx
