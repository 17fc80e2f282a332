#include "speculate/window.h"

#include <gtest/gtest.h>

#include <cmath>

#include "speculate/acceptance.h"

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
    while (keep_drafting({.drafts_max = drafts_max}, cost, {.drafted = drafted, .eta = eta}, now)) {
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
    EXPECT_TRUE(keep_drafting(adaptive, cost, {.drafted = 7, .eta = std::nullopt}, 0ns)) << "unknown arrival";
    EXPECT_FALSE(keep_drafting(adaptive, cost, {.drafted = 8, .eta = std::nullopt}, 0ns));
    EXPECT_FALSE(keep_drafting(adaptive, cost, {.drafted = 8, .eta = 100s}, 0ns));
    EXPECT_FALSE(keep_drafting(adaptive, cost, {.drafted = 0, .eta = 1s - 1ms}, 1s)) << "past arrival";
    EXPECT_FALSE(keep_drafting(adaptive, cost, {.drafted = 3, .eta = 1s + 10ms}, 1s));
    EXPECT_TRUE(keep_drafting(adaptive, cost, {.drafted = 3, .eta = 2s}, 1s))
        << "the same drafts, but the arrival moved later";
    EXPECT_TRUE(keep_drafting(adaptive, CostModel{}, {.drafted = 0, .eta = 1ns}, 0ns))
        << "nothing measured: the first draft measures";
}

TEST(KeepDrafting, FixedIgnoresEverythingElse) {
    const WindowOptions fixed{.fixed = 3, .drafts_max = 1};
    const CostModel cost = measured(20ms, 10ms);
    EXPECT_TRUE(keep_drafting(fixed, cost, {.drafted = 2, .eta = 1s}, 5s));
    EXPECT_FALSE(keep_drafting(fixed, cost, {.drafted = 3, .eta = 100s}, 0s));
    EXPECT_FALSE(keep_drafting({.fixed = 0}, cost, {.drafted = 0, .eta = 100s}, 0s));
}

TEST(KeepDrafting, AsLongAsADraftIsWorthItsRow) {
    const CostModel cost = measured(20ms, 10ms);  // e v / tpot = 0.0788
    const auto most = [&](double acceptance, bool gated) {
        WindowInputs in{.acceptance = acceptance, .gated = gated};
        while (keep_drafting({}, cost, in, 0ns)) {
            ++in.drafted;
        }
        return in.drafted;
    };
    EXPECT_EQ(most(1, true), 64U) << "only drafts_max";
    EXPECT_EQ(most(0.9, true), 24U) << "0.9^24 > 0.0788 > 0.9^25";
    EXPECT_EQ(most(0.5, true), 3U);
    EXPECT_EQ(most(0.05, true), 0U) << "below break-even nothing is drafted";
    EXPECT_EQ(most(0.9, false), 6U) << "an exposed row costs half a tpot";
    EXPECT_EQ(most(0.4, false), 0U);
    EXPECT_EQ(most(0, true), 0U);
}

TEST(WorthwhileDrafts, IsTheLastThatPays) {
    for (const double acceptance : {0.01, 0.3, 0.77, 0.99}) {
        for (const double row : {0.001, 0.1, 0.5, 0.999, 1.5}) {
            const std::uint32_t k = worthwhile_drafts(1, row, acceptance, 1000);
            EXPECT_TRUE(k == 0 || std::pow(acceptance, k) > row) << acceptance << ' ' << row;
            EXPECT_TRUE(k == 1000 || std::pow(acceptance, k + 1) <= row * (1 + 1e-9)) << acceptance << ' ' << row;
        }
    }
    EXPECT_EQ(worthwhile_drafts(1, 0, 0.5, 10), 10U) << "rows for nothing";
    EXPECT_EQ(worthwhile_drafts(0, 0, 0.5, 10), 10U) << "nothing measured: the first draft measures";
    EXPECT_EQ(worthwhile_drafts(1, 1, 1, 10), 0U);
}

TEST(CostModel, TheTailFollowsWhatIsMeasured) {
    CostModel cost;
    EXPECT_EQ(cost.tail_share(), kTailSharePrior);
    for (int i = 0; i < 50; ++i) {
        cost.on_gated_tail(100ms, 30ms);
    }
    EXPECT_NEAR(cost.tail_share(), 0.3, 1e-3);
    cost.on_gated_tail(10ms, 100ms);
    EXPECT_LE(cost.tail_share(), 1.0) << "a clock that jumps cannot make it larger than the pass";
}

TEST(AcceptanceModel, EstimatesForgetsAndProbes) {
    AcceptanceModel model;
    EXPECT_EQ(model.acceptance(), 0.9);
    for (int i = 0; i < 100; ++i) {
        model.on_pass(10, 7);  // 7 held, one failed, two were never judged
    }
    EXPECT_NEAR(model.acceptance(), 7.0 / 8, 0.01);
    for (int i = 0; i < 30; ++i) {
        model.on_pass(10, 0);
    }
    EXPECT_LT(model.acceptance(), 0.4) << "few drafts are made now ...";
    for (int i = 0; i < 30; ++i) {
        model.on_pass(10, 0);
    }
    EXPECT_NEAR(model.acceptance(), 1.8 / 12, 0.01) << "... then hardly any ...";
    int requests = 0;
    for (; model.acceptance() < 0.6; ++requests) {
        model.on_request_without_pass();
    }
    EXPECT_GT(requests, 10) << "... for a while ...";
    EXPECT_LT(requests, 60) << "... and then they get a chance again";
    for (int i = 0; i < 1000; ++i) {
        model.on_pass(10, 10);
    }
    EXPECT_GT(model.acceptance(), 0.99);
    EXPECT_LT(model.acceptance(), 1.0);
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
