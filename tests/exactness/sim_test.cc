// Both nodes' own code over a simulated link, in one thread and virtual time: output equals the reference run on every seed, or
// the request fails; never a third thing. LYNX_SIM_SEED replays one seed, LYNX_SIM_RUNS sets how many.
#include <cstdlib>

#include "base/rng.h"
#include "base/try.h"
#include "node/codec_negotiation.h"
#include "node/decode_request.h"
#include "node/prefill_service.h"
#include "nodes_fixture.h"
#include "transport/sim/sim_loop.h"

namespace lynx {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::uint32_t kTokensOut = 24;

ModelConfig fake_model() {
    ModelConfig model;
    model.path = "fake";
    model.context_tokens = 512;
    model.batch_tokens = 256;
    return model;
}

/// The decode node's inference loop as an application of the simulated loop: every engine step takes virtual time.
class SimDecode {
public:
    SimDecode(node::DecodeRequest& live, engine::Engine& engine, wire::Request request, base::VirtualClock& clock,
              base::Nanos step_time)
        : live_(live), engine_(engine), request_(std::move(request)), clock_(clock), step_time_(step_time) {}

    base::Nanos operator()(wire::Session& session, base::Nanos now) {
        while (auto event = session.poll_event()) {
            if (std::holds_alternative<wire::PeerReady>(*event)) {
                EXPECT_TRUE(session.request(request_, now).ok());
            }
            if (const auto* page = std::get_if<wire::PageReceived>(&*event)) {
                session.release(*page, now);
            }
            live_.on_event(std::move(*event));
        }
        if (!session.status().ok()) {
            live_.fail(session.status());
        }
        if (stepping_ || over_) {
            return base::Nanos::max();  // called from inside a gate: deliver only
        }
        auto action = live_.next(true);
        if (!action.ok()) {
            status_ = action.status();
            over_ = true;
            return base::Nanos::max();
        }
        switch (action.value().kind) {
            case speculate::ActionKind::finished: over_ = true; return base::Nanos::max();
            case speculate::ActionKind::wait: return action.value().not_before.value_or(base::Nanos::max());
            default: break;
        }
        stepping_ = true;
        gated_ = gated_ || action.value().gated;
        clock_.advance_to(clock_.now() + step_time_);
        const Status ran = run(action.value());
        stepping_ = false;
        if (!ran.ok()) {
            status_ = ran;
            over_ = true;
            return base::Nanos::max();
        }
        return clock_.now();
    }
    Status run(const speculate::Action& action) {
        const base::Nanos start = clock_.now();
        LYNX_TRY(live_.prepare(action));
        LYNX_TRY(engine_.step(action.rows, live_.gate(action)));
        return live_.complete(action, 0, start, clock_.now());
    }
    [[nodiscard]] bool over() const { return over_; }
    [[nodiscard]] bool gated() const { return gated_; }
    [[nodiscard]] const Status& status() const { return status_; }

private:
    node::DecodeRequest& live_;
    engine::Engine& engine_;
    wire::Request request_;
    base::VirtualClock& clock_;
    base::Nanos step_time_;
    Status status_;
    bool stepping_ = false;
    bool over_ = false;
    bool gated_ = false;
};

struct Outcome {
    Status status;
    std::vector<engine::Token> tokens;
    std::vector<std::vector<std::byte>> kv{};  ///< of the prompt, on the decode node
    bool over = false;
    bool gated = false;
    std::uint32_t drafted = 0;
};

/// The models are made once: a run uses sequence 0 of each.
class SimNodes {
public:
    SimNodes()
        : prefill_(node::open_engine(fake_model(), false).value()),
          decode_(node::open_engine(fake_model(), true).value()) {}

    Outcome run(const std::vector<engine::Token>& prompt, const CodecOptions& codec_config,
                const speculate::Sampling& sampling, std::optional<std::uint32_t> window,
                const transport::SimOptions& network_options, base::Nanos step_time) {
        base::VirtualClock clock;
        transport::SimNetwork network(clock, network_options);
        transport::SimLoop loop(clock, network);
        const auto codec = codec::make_codec(codec_config.name, codec::to_params(codec_config).value()).value();
        wire::Request message;
        message.request = 1;
        message.generation = 1;
        message.prompt = prompt;
        message.codec = codec->info().name;
        message.codec_params = node::serialize_params(codec->params());
        message.page_tokens = codec->params().page_tokens;
        message.tiers = codec->info().tiers;
        message.sampler = {sampling.temperature, sampling.top_k, sampling.top_p, sampling.seed};
        speculate::Options options;
        options.sampling = sampling;
        options.max_tokens = kTokensOut;
        options.window.fixed = window;
        auto live = node::DecodeRequest::create(
                        {.request = 1,
                         .generation = 1,
                         .engine = *decode_,
                         .seq = 0,
                         .clock = clock,
                         .codec = *codec,
                         .paging = {static_cast<std::uint32_t>(prompt.size()), message.page_tokens},
                         .speculation = options,
                         .prefill_timeout = std::chrono::seconds(30),
                         .stall_timeout = std::chrono::seconds(30),
                         .on_change = {},
                         .wait_for_layer =
                             [&](node::DecodeRequest& request, std::uint32_t layer) {
                                 const bool there =
                                     loop.run([&] { return request.layer_staged(layer) || !request.status().ok(); },
                                              std::chrono::minutes(5));
                                 return there && request.status().ok() ? Status{}
                                        : !request.status().ok()       ? request.status()
                                                                 : Status{ErrorCode::timeout, "the layer never came"};
                             }})
                        .value();
        SimDecode decode(*live, *decode_, message, clock, step_time);
        node::PrefillWorker worker(*prefill_);
        node::PrefillService service(*prefill_, worker, {.notify = [] {}, .log = [](const std::string&) {}});
        wire::SessionOptions session;
        session.hello = node::hello_of(decode_->info(), wire::Role::decode);
        session.hello.connection_id = 7;
        loop.add(0, session, [&](wire::Session& s, base::Nanos now) { return decode(s, now); });
        session.hello = node::hello_of(prefill_->info(), wire::Role::prefill);
        session.hello.connection_id = 7;
        loop.add(1, session, [&](wire::Session& s, base::Nanos now) {
            const auto more = service.step(s, now);
            // The worker is a real thread; virtual time stands still until it has something to say.
            if (service.prefilling()) {
                std::this_thread::yield();
                return now;
            }
            return more.ok() && more.value() ? now : base::Nanos::max();
        });
        Outcome outcome;
        outcome.over = loop.run([&] { return decode.over(); }, std::chrono::minutes(10));
        outcome.status = decode.over() ? decode.status() : live->status();
        outcome.gated = decode.gated();
        if (decode.over() && outcome.status.ok()) {
            outcome.tokens = live->speculation()->committed();
            outcome.kv = bench::read_kv(*decode_, static_cast<std::uint32_t>(prompt.size())).value();
            outcome.drafted = live->speculation()->counters().drafted;
        }
        return outcome;
    }

private:
    std::unique_ptr<engine::Engine> prefill_;
    std::unique_ptr<engine::Engine> decode_;
};

std::uint64_t env(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(Sim, AnySeedGivesTheReferenceRunsTokensOrAnError) {
    SimNodes nodes;
    const std::vector<std::string> codecs{"nested44", "alg1", "lynx44", "int8-split", "int8", "nested44-mono"};
    const std::uint64_t first = env("LYNX_SIM_SEED", 1);
    const std::uint64_t runs = env("LYNX_SIM_SEED", 0) != 0 ? 1 : env("LYNX_SIM_RUNS", 300);
    std::uint32_t finished = 0, failed = 0, gated = 0, drafted = 0;
    for (std::uint64_t seed = first; seed < first + runs; ++seed) {
        base::Rng rng(seed);
        std::vector<engine::Token> prompt(20 + rng.below(150));
        for (engine::Token& t : prompt) {
            t = static_cast<engine::Token>(rng.below(60));
        }
        CodecOptions codec;
        codec.name = codecs[rng.below(codecs.size())];
        codec.page_tokens = 32;
        codec.chunk_tokens = 16;
        const speculate::Sampling sampling{rng.below(2) == 0 ? 0.0F : 0.9F, 0, 1.0F, seed};
        const std::optional<std::uint32_t> windows[] = {1, 8, 64, std::nullopt};
        const std::optional<std::uint32_t> window = windows[rng.below(4)];
        transport::SimOptions network;
        network.seed = seed;
        network.rate_bits_per_s = 1e6 * static_cast<double>(1 + rng.below(50));
        network.delay = microseconds(rng.below(20000));
        network.clog_chance = rng.below(3) == 0 ? 0.02 : 0;
        network.clog_max = milliseconds(300);
        const std::uint64_t fault = rng.below(8);
        const std::uint64_t at = rng.below(60000);
        if (fault == 0) {
            network.disconnect_at = at;
        } else if (fault == 1) {
            network.corrupt_at = at;
        } else if (fault == 2) {
            network.stall_at = at;
        }
        const Outcome outcome =
            nodes.run(prompt, codec, sampling, window, network, microseconds(200 + rng.below(3000)));
        const std::string replay = "replay: LYNX_SIM_SEED=" + std::to_string(seed) + " bin/sim_test";
        ASSERT_TRUE(outcome.over) << "neither an answer nor an error in ten minutes; " << replay;
        if (!outcome.status.ok()) {
            EXPECT_LT(fault, 3U) << outcome.status.to_string() << "; " << replay;
            ++failed;
            continue;
        }
        testing::ReferenceRun reference(fake_model(), prompt);
        ASSERT_EQ(outcome.tokens, reference.tokens(codec, sampling, kTokensOut)) << codec.name << "; " << replay;
        ++finished;
        gated += outcome.gated ? 1 : 0;
        drafted += outcome.drafted;
    }
    if (runs >= 300) {  // the sweep must have seen all of it
        EXPECT_GT(finished, 0U);
        EXPECT_GT(failed, 0U);
        EXPECT_GT(gated, 0U);
        EXPECT_GT(drafted, 0U);
    }
    std::printf("%u finished, %u failed as they must, %u gated passes, %u drafts\n", finished, failed, gated, drafted);
}

/// Behind the exact tier nothing is left of the transfer: the decode node has the prefill node's KV to the bit, and says what one process
/// says that never sent it.
TEST(Sim, AfterTheExactTierTheDecodeNodeHasThePrefillNodesKv) {
    SimNodes nodes;
    std::uint32_t drafted = 0;
    std::uint32_t lossy_differs = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        base::Rng rng(seed);
        std::vector<engine::Token> prompt(70 + rng.below(100));
        for (engine::Token& t : prompt) {
            t = static_cast<engine::Token>(rng.below(60));
        }
        const auto prefill = node::open_engine(fake_model(), false).value();
        const bench::PromptKv original = bench::prefill_prompt(*prefill, prompt).value();
        testing::ReferenceRun monolithic(fake_model(), prompt);
        for (const char* name :
             {"nested44-exact", "lynxt-exact", "nested44-exact-mono", "lynxt-exact-mono", "nested44"}) {
            CodecOptions codec;
            codec.name = name;
            codec.page_tokens = 32;
            transport::SimOptions network;
            network.seed = seed;
            network.rate_bits_per_s = 5e6;
            network.delay = milliseconds(2);
            for (const speculate::Sampling& sampling :
                 {speculate::Sampling{}, speculate::Sampling{0.9F, 0, 1.0F, seed}}) {
                const Outcome outcome = nodes.run(prompt, codec, sampling, 8, network, microseconds(800));
                ASSERT_TRUE(outcome.over && outcome.status.ok()) << name << ": " << outcome.status.to_string();
                if (std::string(name) == "nested44") {
                    lossy_differs += outcome.kv != original.planes ? 1U : 0U;
                    continue;
                }
                EXPECT_EQ(outcome.kv, original.planes) << name << ", seed " << seed;
                EXPECT_EQ(outcome.tokens, monolithic.tokens({.name = "f16"}, sampling, kTokensOut))
                    << name << ", seed " << seed;
                drafted += outcome.drafted;
            }
        }
    }
    EXPECT_GT(drafted, 0U);
    EXPECT_EQ(lossy_differs, 24U) << "a lossy codec must not pass for an exact one";
}

}  // namespace
}  // namespace lynx
