#include "speculate/window.h"

#include <gtest/gtest.h>

namespace lynx::speculate {
namespace {

using namespace std::chrono_literals;

CostModel measured(Nanos tpot, Nanos row) {
    CostModel cost;
    cost.on_draft_step(tpot);
    for (int i = 0; i < 200; ++i) {
        cost.on_verify_pass(33, tpot + 32 * row);
    }
    return cost;
}

/// How many drafts an adaptive window makes when the estimate is right and steps take what they cost.
std::uint32_t drafts_until(const CostModel& cost, Nanos eta, std::uint32_t drafts_max = 64) {
    Nanos now{0};
    std::uint32_t drafted = 0;
    while (keep_drafting({.drafts_max = drafts_max}, cost, drafted, now, eta)) {
        ++drafted;
        now += cost.tpot();
    }
    return drafted;
}

TEST(CostModel, NothingMeasuredCostsNothing) {
    const CostModel cost;
    EXPECT_EQ(cost.tpot(), 0ns);
    EXPECT_EQ(cost.verify(20), 0ns);
    EXPECT_EQ(cost.verify(0), 0ns);
}

TEST(CostModel, PriorBeforeTheFirstPass) {
    CostModel cost;
    cost.on_draft_step(20ms);
    EXPECT_EQ(cost.verify_per_token(), 10ms);
    EXPECT_EQ(cost.verify(1), 20ms);
    EXPECT_EQ(cost.verify(21), 220ms) << "DESIGN section 6: 20 rows took 190 to 256 ms at a TPOT of 22";
}

TEST(CostModel, TpotIsASlidingAverage) {
    CostModel cost;
    cost.on_draft_step(10ms);
    cost.on_draft_step(20ms);
    EXPECT_EQ(cost.tpot(), 15ms) << "a plain average at first";
    for (int i = 0; i < 100; ++i) {
        cost.on_draft_step(40ms);
    }
    EXPECT_NEAR(base::to_seconds(cost.tpot()), 0.040, 1e-6) << "forgets";
    cost.on_draft_step(400ms);
    EXPECT_LT(cost.tpot(), 90ms) << "one outlier moves it by an eighth";
}

TEST(CostModel, OneLargePassMovesThePriorMostOfTheWay) {
    CostModel cost;
    cost.on_draft_step(20ms);
    cost.on_verify_pass(65, 20ms + 64 * 2ms);
    EXPECT_NEAR(base::to_seconds(cost.verify_per_token()), 0.0036, 1e-4);
    CostModel small = cost;
    small.on_verify_pass(2, 60ms);
    EXPECT_LT(small.verify_per_token(), 6ms) << "a pass over two rows says little";
}

TEST(CostModel, PassesNeverMakeItNegative) {
    CostModel cost;
    cost.on_draft_step(20ms);
    for (int i = 0; i < 50; ++i) {
        cost.on_verify_pass(30, 1ms);
    }
    EXPECT_GE(cost.verify_per_token(), 0ns);
    EXPECT_GE(cost.verify(30), cost.tpot());
    cost.on_verify_pass(1, 30ms);
    EXPECT_GT(cost.tpot(), 20ms) << "one row is a step";
}

TEST(KeepDrafting, FollowsTheFormula) {
    for (const int row_us : {0, 1000, 5000, 10000, 20000}) {
        const CostModel cost = measured(20ms, std::chrono::microseconds(row_us));
        for (const int eta_ms : {25, 100, 333, 1000}) {
            const Nanos eta = std::chrono::milliseconds(eta_ms);
            const double k =
                base::to_seconds(eta - cost.tpot()) / base::to_seconds(cost.tpot() + cost.verify_per_token());
            EXPECT_NEAR(drafts_until(cost, eta), k, 1.001) << row_us << " us, " << eta_ms << " ms";
        }
    }
    EXPECT_EQ(drafts_until(measured(20ms, 0ns), 1010ms), 50U) << "t_res / TPOT as v -> 0, less the pass itself";
}

TEST(KeepDrafting, Edges) {
    const CostModel cost = measured(20ms, 10ms);
    const WindowOptions adaptive{.drafts_max = 8};
    EXPECT_TRUE(keep_drafting(adaptive, cost, 7, 0ns, std::nullopt)) << "unknown arrival";
    EXPECT_FALSE(keep_drafting(adaptive, cost, 8, 0ns, std::nullopt));
    EXPECT_FALSE(keep_drafting(adaptive, cost, 8, 0ns, 100s));
    EXPECT_FALSE(keep_drafting(adaptive, cost, 0, 1s, 1s - 1ms)) << "past arrival";
    EXPECT_FALSE(keep_drafting(adaptive, cost, 3, 1s, 1s + 10ms));
    EXPECT_TRUE(keep_drafting(adaptive, cost, 3, 1s, 2s)) << "the same drafts, but the arrival moved later";
    EXPECT_TRUE(keep_drafting(adaptive, CostModel{}, 0, 0ns, 1ns)) << "nothing measured: the first draft measures";
}

TEST(KeepDrafting, FixedIgnoresEverythingElse) {
    const WindowOptions fixed{.fixed = 3, .drafts_max = 1};
    const CostModel cost = measured(20ms, 10ms);
    EXPECT_TRUE(keep_drafting(fixed, cost, 2, 5s, 1s));
    EXPECT_FALSE(keep_drafting(fixed, cost, 3, 0s, 100s));
    EXPECT_FALSE(keep_drafting({.fixed = 0}, cost, 0, 0s, 100s));
}

TEST(GatedStart, WaitsInsideAtMostOneTpot) {
    const CostModel cost = measured(20ms, 10ms);
    const Nanos pass = cost.verify(11);
    const TransferEstimate spread{.last_page = 1s, .first_layer = 100ms};
    EXPECT_EQ(gated_start(cost, 11, spread), 1s - pass - cost.tpot());
    const TransferEstimate late_start{.last_page = 1s, .first_layer = 950ms};
    EXPECT_EQ(gated_start(cost, 11, late_start), 950ms - cost.tpot());
    const TransferEstimate no_gate{.last_page = 1s, .first_layer = 1s};
    EXPECT_EQ(gated_start(cost, 11, no_gate), 1s - cost.tpot());
}

}  // namespace
}  // namespace lynx::speculate
