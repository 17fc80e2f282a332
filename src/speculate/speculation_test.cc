// The life of one request, scenario by scenario, on a model that counts: after token t comes t + 1; a draft table may say otherwise.
#include "speculate/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "speculate/testing/speculation_driver.h"

namespace lynx::speculate {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kPrompt = 10;
constexpr std::uint32_t kVocabulary = 300;

std::vector<float> one_hot(Token token) {
    std::vector<float> logits(kVocabulary, 0);
    logits[static_cast<std::size_t>(token)] = 10;
    return logits;
}

/// Runs a single step of `s`, answering with `after(row token)`.
template <class After>
void step(Speculation& s, const Action& action, After after, Nanos took = 20ms) {
    std::vector<std::vector<float>> logits;
    for (const engine::Row& row : action.rows) {
        logits.push_back(one_hot(after(row.token)));
    }
    s.on_step_done(action, [&](std::size_t i) { return std::span<const float>(logits[i]); }, {.computed = took});
}

Token count_up(Token t) { return t + 1; }

Speculation make(Options options, Token token1 = 100) {
    Result<Speculation> s = Speculation::create(std::move(options), kPrompt, token1);
    EXPECT_TRUE(s.ok()) << s.status().to_string();
    return std::move(s).value();
}

Options with_window(std::optional<std::uint32_t> fixed, std::uint32_t max_tokens = 8) {
    Options o;
    o.max_tokens = max_tokens;
    o.window.fixed = fixed;
    return o;
}

std::vector<Token> tokens_of(const Action& action) {
    std::vector<Token> tokens;
    for (const engine::Row& row : action.rows) {
        tokens.push_back(row.token);
    }
    return tokens;
}

TEST(Speculation, CreateRefusesBadOptions) {
    const auto code = [](Options o) { return Speculation::create(std::move(o), kPrompt, 1).status().code(); };
    EXPECT_EQ(code({.max_tokens = 0}), ErrorCode::invalid_argument);
    EXPECT_EQ(code({.sampling = {.temperature = -1}}), ErrorCode::invalid_argument);
    EXPECT_EQ(code({.stop_strings = {"x"}}), ErrorCode::invalid_argument) << "no way to get text";
    const auto piece = [](Token) { return std::string("x"); };
    EXPECT_EQ(code({.stop_strings = {""}, .piece = piece}), ErrorCode::invalid_argument);
    EXPECT_EQ(code({.stop_strings = std::vector<std::string>(kStopStringsMax + 1, "a"), .piece = piece}),
              ErrorCode::limit_exceeded);
    EXPECT_EQ(code({.stop_strings = {std::string(kStopStringBytesMax + 1, 'a')}, .piece = piece}),
              ErrorCode::limit_exceeded);
    EXPECT_EQ(code({.stop_strings = {std::string(kStopStringBytesMax, 'a')}, .piece = piece}), ErrorCode::ok);
}

TEST(Speculation, DraftVerifyDecode) {
    Speculation s = make(with_window(3));
    EXPECT_EQ(s.next(0ns).kind, ActionKind::wait);
    s.on_anchor_ready(0ns);
    for (std::uint32_t i = 0; i < 3; ++i) {
        const Action a = s.next(0ns);
        ASSERT_EQ(a.kind, ActionKind::draft);
        ASSERT_EQ(a.rows.size(), 1U);
        EXPECT_EQ(a.rows[0].token, 100 + static_cast<Token>(i));
        EXPECT_EQ(a.rows[0].position, kPrompt + i);
        EXPECT_TRUE(a.rows[0].logits);
        EXPECT_EQ(a.truncate_to, kPrompt + i);
        step(s, a, [](Token t) { return t == 102 ? 7 : t + 1; });  // the third draft is wrong
    }
    EXPECT_EQ(s.next(0ns).kind, ActionKind::wait);
    EXPECT_FALSE(s.next(0ns).not_before.has_value()) << "no estimate: only an event can help";
    s.on_residual_ready(0ns);
    const Action verify = s.next(0ns);
    ASSERT_EQ(verify.kind, ActionKind::verify);
    EXPECT_FALSE(verify.gated);
    EXPECT_EQ(verify.truncate_to, kPrompt);
    EXPECT_THAT(tokens_of(verify), ElementsAre(100, 101, 102, 7));
    for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ(verify.rows[i].position, kPrompt + i);
        EXPECT_TRUE(verify.rows[i].logits);
    }
    step(s, verify, count_up);
    EXPECT_THAT(s.committed(), ElementsAre(100, 101, 102, 103));
    EXPECT_EQ(s.counters().drafted, 3U);
    EXPECT_EQ(s.counters().window, 3U);
    EXPECT_EQ(s.counters().accepted, 2U);
    EXPECT_FALSE(s.counters().full_accept);
    const Action decode = s.next(0ns);
    ASSERT_EQ(decode.kind, ActionKind::decode);
    EXPECT_THAT(tokens_of(decode), ElementsAre(103));
    EXPECT_EQ(decode.rows[0].position, kPrompt + 3);
    EXPECT_EQ(decode.truncate_to, kPrompt + 3) << "the rejected row goes";
    while (s.next(0ns).kind == ActionKind::decode) {
        step(s, s.next(0ns), count_up);
    }
    EXPECT_EQ(s.next(0ns).kind, ActionKind::finished);
    EXPECT_EQ(s.finish_reason(), FinishReason::length);
    EXPECT_EQ(s.committed().back(), 107);
    EXPECT_EQ(s.committed().size(), 8U);
}

TEST(Speculation, AllAcceptedGivesOneTokenMore) {
    Speculation s = make(with_window(2));
    s.on_anchor_ready(0ns);
    step(s, s.next(0ns), count_up);
    step(s, s.next(0ns), count_up);
    s.on_residual_ready(0ns);
    step(s, s.next(0ns), count_up);
    EXPECT_THAT(s.committed(), ElementsAre(100, 101, 102, 103));
    EXPECT_TRUE(s.counters().full_accept);
    EXPECT_EQ(s.next(0ns).truncate_to, kPrompt + 3);
}

TEST(Speculation, ResidualBeforeAnyDraftGoesStraightToDecoding) {
    Speculation s = make(with_window(std::nullopt));
    s.on_residual_ready(0ns);
    const Action a = s.next(0ns);
    ASSERT_EQ(a.kind, ActionKind::decode);
    EXPECT_THAT(tokens_of(a), ElementsAre(100));
    EXPECT_EQ(a.truncate_to, kPrompt);
    step(s, a, count_up);
    EXPECT_THAT(s.committed(), ElementsAre(100, 101));
    EXPECT_EQ(s.counters().drafted, 0U);
    EXPECT_FALSE(s.counters().full_accept);
}

TEST(Speculation, ResidualDuringAdaptiveDraftingStopsIt) {
    Speculation s = make(with_window(std::nullopt));
    s.on_anchor_ready(0ns);
    const Action a = s.next(0ns);
    s.on_residual_ready(0ns);  // while the step runs
    step(s, a, count_up);
    EXPECT_EQ(s.next(0ns).kind, ActionKind::verify);
    EXPECT_THAT(tokens_of(s.next(0ns)), ElementsAre(100, 101));
}

TEST(Speculation, FixedWindowDraftsAlthoughTheResidualIsThere) {
    Speculation s = make(with_window(2));
    s.on_residual_ready(0ns);
    ASSERT_EQ(s.next(0ns).kind, ActionKind::draft);
    step(s, s.next(0ns), count_up);
    ASSERT_EQ(s.next(0ns).kind, ActionKind::draft);
    step(s, s.next(0ns), count_up);
    EXPECT_EQ(s.next(0ns).kind, ActionKind::verify);
}

TEST(Speculation, FixedWindowOfZeroNeverDrafts) {
    Speculation s = make(with_window(0));
    s.on_anchor_ready(0ns);
    EXPECT_EQ(s.next(0ns).kind, ActionKind::wait);
    s.on_residual_ready(0ns);
    EXPECT_EQ(s.next(0ns).kind, ActionKind::decode);
}

TEST(Speculation, WithoutDraftingItWaitsForAllOfTheKv) {
    Options o = with_window(std::nullopt);
    o.draft = false;
    Speculation s = make(o);
    s.on_anchor_ready(0ns);
    s.on_transfer_estimate(1s, 1s);
    EXPECT_EQ(s.next(0ns).kind, ActionKind::wait);
    EXPECT_EQ(s.next(1s).kind, ActionKind::wait) << "the baseline is not gated";
    s.on_residual_ready(1s);
    EXPECT_EQ(s.next(1s).kind, ActionKind::decode);
}

/// TPOT 20 ms and 10 ms per further row, as if measured before.
CostModel known_cost() {
    CostModel cost;
    cost.on_draft_step(20ms);
    return cost;
}

TEST(Speculation, GatedPassStartsJustInTime) {
    Options o = with_window(2);
    o.cost = known_cost();
    Speculation s = make(o);
    s.on_anchor_ready(0ns);
    s.on_transfer_estimate(500ms, 100ms);
    step(s, s.next(0ns), count_up);
    step(s, s.next(0ns), count_up);
    // V(3) = 40 ms: the pass may start at 500 - 40 - 20.
    const Action wait = s.next(50ms);
    ASSERT_EQ(wait.kind, ActionKind::wait);
    ASSERT_EQ(wait.not_before, 440ms);
    const Action verify = s.next(440ms);
    ASSERT_EQ(verify.kind, ActionKind::verify);
    EXPECT_TRUE(verify.gated);
    s.on_transfer_estimate(500ms, 490ms);
    EXPECT_EQ(s.next(440ms).not_before, 470ms) << "the first layer comes late";
    s.on_transfer_estimate(600ms, 100ms);
    EXPECT_EQ(s.next(440ms).not_before, 540ms) << "all of it comes later";
    step(s, s.next(540ms), count_up);
    EXPECT_EQ(s.committed().size(), 4U);
    EXPECT_EQ(s.next(541ms).kind, ActionKind::decode) << "a pass that ended has passed every gate";
    step(s, s.next(541ms), count_up);
    EXPECT_EQ(s.committed().size(), 5U);
}

TEST(Speculation, NeverGatedWhenTheCallerCannotGate) {
    Options o = with_window(2);
    o.cost = known_cost();
    o.gated = false;
    Speculation s = make(o);
    s.on_anchor_ready(0ns);
    s.on_transfer_estimate(500ms, 100ms);
    step(s, s.next(0ns), count_up);
    step(s, s.next(0ns), count_up);
    for (const Nanos now : {Nanos(0ms), Nanos(440ms), Nanos(500ms), Nanos(510ms)}) {
        EXPECT_EQ(s.next(now).kind, ActionKind::wait);
        EXPECT_FALSE(s.next(now).not_before.has_value());
    }
    s.on_residual_ready(510ms);
    EXPECT_EQ(s.next(510ms).kind, ActionKind::verify);
    EXPECT_FALSE(s.next(510ms).gated);
}

TEST(Speculation, AStalledTransferIsNotTrusted) {
    Options o = with_window(1);
    o.cost = known_cost();
    Speculation s = make(o);
    s.on_anchor_ready(0ns);
    s.on_transfer_estimate(500ms, 100ms);
    step(s, s.next(0ns), count_up);
    EXPECT_EQ(s.next(520ms).kind, ActionKind::verify);
    const Action wait = s.next(521ms);
    EXPECT_EQ(wait.kind, ActionKind::wait);
    EXPECT_FALSE(wait.not_before.has_value());
    s.on_residual_ready(2s);
    EXPECT_EQ(s.next(2s).kind, ActionKind::verify);
}

TEST(Speculation, AdaptiveWindowStopsAndResumes) {
    Options o = with_window(std::nullopt, 64);
    o.cost = known_cost();
    Speculation s = make(o);
    s.on_anchor_ready(0ns);
    s.on_transfer_estimate(100ms, 100ms);
    Nanos now{0};
    while (s.next(now).kind == ActionKind::draft) {
        const Action a = s.next(now);
        now += 20ms;
        step(s, a, count_up);
    }
    EXPECT_EQ(s.counters().drafted, 3U) << "100 = 3 * 20 + V(4) = 50, rounded up to the draft that reaches it";
    EXPECT_EQ(s.next(now).kind, ActionKind::wait);
    EXPECT_EQ(s.next(now).not_before, 80ms) << "it cannot gate: waiting inside would last until 100";
    s.on_transfer_estimate(1s, 1s);
    EXPECT_EQ(s.next(now).kind, ActionKind::draft) << "the link slowed down: draft on";
}

TEST(Speculation, NothingDraftedButTheFirstLayersAreThere) {
    Options o = with_window(std::nullopt);
    o.cost = known_cost();
    Speculation s = make(o);
    s.on_anchor_ready(80ms);
    s.on_transfer_estimate(95ms, 10ms);
    const Action a = s.next(80ms);
    ASSERT_EQ(a.kind, ActionKind::verify) << "too late to draft: token 1's row hides behind the rest";
    EXPECT_TRUE(a.gated);
    EXPECT_THAT(tokens_of(a), ElementsAre(100));
    step(s, a, count_up);
    EXPECT_THAT(s.committed(), ElementsAre(100, 101));
    EXPECT_EQ(s.counters().window, 0U);
    EXPECT_FALSE(s.counters().full_accept);
}

TEST(Speculation, FailedStepIsOfferedAgain) {
    Speculation s = make(with_window(1));
    s.on_anchor_ready(0ns);
    const Action first = s.next(0ns);
    const Action again = s.next(0ns);
    EXPECT_EQ(first.kind, again.kind);
    EXPECT_EQ(tokens_of(first), tokens_of(again));
    step(s, again, count_up);
    EXPECT_EQ(s.counters().drafted, 1U);
}

TEST(Speculation, CostIsCarriedOver) {
    Speculation s = make(with_window(1));
    s.on_anchor_ready(0ns);
    step(s, s.next(0ns), count_up, 30ms);
    EXPECT_EQ(s.cost().tpot(), 30ms);
    s.on_residual_ready(0ns);
    step(s, s.next(0ns), count_up, 60ms);
    EXPECT_GT(s.cost().verify_per_token(), 15ms);
    Options next = with_window(1);
    next.cost = s.cost();
    EXPECT_EQ(make(next).cost().verify_per_token(), s.cost().verify_per_token());
}

TEST(Speculation, OutputShowsProvisionalThenConfirmsOrRetracts) {
    Speculation s = make(with_window(4));
    EXPECT_THAT(s.take_output().committed, ElementsAre(100));
    EXPECT_THAT(s.take_output().committed, IsEmpty());
    s.on_anchor_ready(0ns);
    const auto wrong_third = [](Token t) { return t == 102 ? 7 : t + 1; };
    step(s, s.next(0ns), wrong_third);
    step(s, s.next(0ns), wrong_third);
    EXPECT_THAT(s.take_output().provisional, ElementsAre(101, 102));
    step(s, s.next(0ns), wrong_third);
    EXPECT_THAT(s.take_output().provisional, ElementsAre(7));
    step(s, s.next(0ns), wrong_third);  // drafted, but never shown
    s.on_residual_ready(0ns);
    step(s, s.next(0ns), count_up);
    const Output out = s.take_output();
    EXPECT_EQ(out.retracted, 1U);
    EXPECT_THAT(out.committed, ElementsAre(101, 102, 103));
    EXPECT_EQ(out.confirmed, 2U);
    EXPECT_THAT(out.provisional, IsEmpty());
}

}  // namespace
}  // namespace lynx::speculate
