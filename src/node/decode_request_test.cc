// What a decode step sees: drafts attend to every layer whose last tier is there, commits to nothing less than all of them.
#include "node/decode_request.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/half.h"
#include "base/rng.h"
#include "codec/codec.h"
#include "node/model.h"

namespace lynx::node {
namespace {

constexpr std::uint32_t kTokens = 70;

ModelConfig fake_model() {
    ModelConfig model;
    model.path = "fake";
    model.context_tokens = 256;
    model.batch_tokens = 128;
    return model;
}

/// One request whose pages the test delivers by hand.
class DecodeRequestTest : public ::testing::Test {
protected:
    void SetUp() override {
        codec::CodecParams params;
        params.page_tokens = 32;
        params.sinks = 0;
        params.recent = 0;  // no page of the anchor is exact already
        codec = codec::make_codec("nested44", params).value();
        engine = open_engine(fake_model(), true).value();
        base::Rng rng(11);
        for (const kv::LayerGeometry& layer : engine->info().geometry.layers) {
            for (const std::uint32_t dim : {layer.key_dim, layer.value_dim}) {
                std::vector<std::uint16_t>& plane = source.emplace_back(std::size_t{kTokens} * layer.kv_heads * dim);
                for (std::uint16_t& x : plane) {
                    x = base::f32_to_f16(static_cast<float>(rng.unit() * 2 - 1));
                }
            }
        }
        start({});
    }

    void start(std::optional<std::uint32_t> top_logprobs) {
        speculate::Options speculation;
        speculation.max_tokens = 16;
        speculation.window.fixed = 8;
        speculation.top_logprobs = top_logprobs;
        live = DecodeRequest::create({.request = 1,
                                      .generation = 1,
                                      .engine = *engine,
                                      .seq = 0,
                                      .clock = clock,
                                      .codec = *codec,
                                      .paging = paging,
                                      .speculation = speculation,
                                      .last_prompt_token = 5,
                                      .prefill_timeout = std::chrono::seconds(600),
                                      .stall_timeout = std::chrono::seconds(30),
                                      .on_change = {},
                                      .wait_for_layer = {}})
                   .value();
    }

    /// Asks what to do, and does it.
    speculate::Action step() {
        speculate::Action action = live->next(true).value();
        const base::Nanos start = clock.now();
        EXPECT_TRUE(live->prepare(action).ok());
        EXPECT_TRUE(engine->step(action.rows, live->gate(action)).ok());
        EXPECT_TRUE(live->complete(action, 0, start, clock.now()).ok());
        return action;
    }

    [[nodiscard]] std::uint32_t layers() const {
        return static_cast<std::uint32_t>(engine->info().geometry.layers.size());
    }

    /// One layer's plane as the codec restores it at `tier`; delivers its payloads of `tier` when `deliver` is set.
    std::vector<std::byte> plane_at(std::uint32_t layer, kv::Kind kind, std::uint8_t tier, bool deliver) {
        const kv::View like = engine->kv_view(0, layer, kind).value();
        const std::vector<std::uint16_t>& from = source[2 * layer + (kind == kv::Kind::key ? 0 : 1)];
        std::vector<std::byte> out(from.size() * kv::dtype_bytes(like.dtype));
        const kv::ConstView in =
            kv::token_major(reinterpret_cast<const std::byte*>(from.data()), like.dtype, kTokens, like.channels);
        const kv::View to = kv::token_major(out.data(), like.dtype, kTokens, like.channels);
        for (std::uint32_t page = 0; page < paging.pages(); ++page) {
            const std::uint32_t first = paging.first_token(page);
            std::vector<base::Bytes> payloads(2);
            EXPECT_TRUE(codec->encode(in.slice_tokens(first, paging.tokens_in(page)), {first, kTokens}, payloads).ok());
            const std::vector<base::ByteView> views(payloads.begin(), payloads.begin() + tier + 1);
            EXPECT_TRUE(codec->decode(views, to.slice_tokens(first, paging.tokens_in(page))).ok());
            if (deliver) {
                live->on_event(wire::PageReceived{
                    {1, 1, static_cast<std::uint16_t>(layer), kind, tier, page, first}, payloads[tier], 0});
            }
        }
        return out;
    }
    void deliver(std::uint32_t layer, std::uint8_t tier) {
        plane_at(layer, kv::Kind::key, tier, true);
        plane_at(layer, kv::Kind::value, tier, true);
    }

    /// Whether the engine's prompt rows of `layer` are those of `tier`.
    bool holds(std::uint32_t layer, std::uint8_t tier) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const std::vector<std::byte> expected = plane_at(layer, kind, tier, false);
            const kv::View view = engine->kv_view(0, layer, kind).value();
            const std::size_t width = kv::dtype_bytes(view.dtype);
            for (std::uint32_t t = 0; t < kTokens; ++t) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    if (std::memcmp(view.at(t, c), expected.data() + (t * view.channels + c) * width, width) != 0) {
                        return false;
                    }
                }
            }
        }
        return true;
    }

    base::SteadyClock clock;
    kv::Paging paging{kTokens, 32};
    std::unique_ptr<codec::Codec> codec;
    std::unique_ptr<engine::Engine> engine;
    std::vector<std::vector<std::uint16_t>> source;  // [2 * layer + (0 key, 1 value)] = [tokens][channels]
    std::unique_ptr<DecodeRequest> live;
};

TEST_F(DecodeRequestTest, LaterDraftsAttendToTheLayersThatAreComplete) {
    live->on_event(wire::FirstToken{1, 1, 3});
    for (std::uint32_t layer = 0; layer < layers(); ++layer) {
        deliver(layer, 0);
    }
    EXPECT_EQ(step().kind, speculate::ActionKind::draft);
    EXPECT_TRUE(holds(0, 0));
    EXPECT_FALSE(holds(0, 1));
    deliver(0, 1);
    EXPECT_TRUE(holds(0, 0)) << "a tier that arrives waits until no step runs";
    EXPECT_EQ(step().kind, speculate::ActionKind::draft);
    EXPECT_TRUE(holds(0, 1));
    EXPECT_TRUE(holds(1, 0)) << "the other layers are still the anchor's";
    EXPECT_EQ(live->speculation()->committed().size(), 1U) << "token 1 and nothing that was computed on this mixture";
}

TEST_F(DecodeRequestTest, ScoringToken1LeavesTheKvAsItArrived) {
    start(4);
    live->on_event(wire::FirstToken{1, 1, 3});
    for (std::uint32_t layer = 0; layer < layers(); ++layer) {
        deliver(layer, 0);
    }
    EXPECT_EQ(live->next(true).value().kind, speculate::ActionKind::wait) << "its rows would not survive the scoring";
    for (std::uint32_t layer = 0; layer < layers(); ++layer) {
        deliver(layer, 1);
    }
    ASSERT_TRUE(live->score_pending());
    const speculate::Action score = step();
    EXPECT_EQ(score.rows.size(), 1U);
    EXPECT_EQ(score.rows.front().position, kTokens - 1);
    EXPECT_EQ(score.rows.front().token, 5);
    EXPECT_FALSE(live->score_pending());
    ASSERT_EQ(live->speculation()->logprobs().size(), 1U);
    EXPECT_EQ(live->speculation()->logprobs().front().chosen.token, 3);
    EXPECT_LT(live->speculation()->logprobs().front().chosen.logprob, 0);
    for (std::uint32_t layer = 0; layer < layers(); ++layer) {
        EXPECT_TRUE(holds(layer, 1)) << "layer " << layer;
    }
    while (step().kind != speculate::ActionKind::verify) {
    }
    EXPECT_GT(live->speculation()->committed().size(), 1U);
    EXPECT_EQ(live->speculation()->logprobs().size(), live->speculation()->committed().size());
}

TEST_F(DecodeRequestTest, TheFirstReasonOfAFailureCounts) {
    live->fail({ErrorCode::peer_lost, "the first"});
    live->on_event(wire::FirstToken{1, 1, -5});
    EXPECT_EQ(live->next(true).status().code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace lynx::node
