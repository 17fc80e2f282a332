// The closed form against a discrete simulation that runs the real Speculation, layer by layer, on virtual time.
#include "plan/latency_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "speculate/speculation.h"

namespace lynx::plan {
namespace {

using base::from_seconds;
using base::Nanos;
using base::to_seconds;

constexpr std::uint32_t kPrompt = 100;

/// Anchor 2.6 bits and 6 more bits per element of 2048 tokens of a 30-layer model, 100 Mbit/s.
LatencyInputs typical() {
    LatencyInputs in;
    in.anchor_bytes = 7.73e6;
    in.residual_bytes = 17.7e6;
    in.link_bytes_per_s = 12.5e6;
    in.delay_s = 0.0213;
    in.tpot_s = 0.0225;
    in.verify_base_s = in.tpot_s;
    in.verify_row_s = 0.0117;
    in.acceptance = 0.93;
    return in;
}

struct Simulated {
    std::vector<double> committed_s;  // of output token i + 1
    double first_provisional_s = INFINITY;
    std::uint32_t window = 0;
    std::uint32_t accepted = 0;
};

/// One request. Drafts are right with probability acceptance, keyed by (seed, position).
Simulated simulate(const LatencyInputs& in, std::uint64_t seed) {
    const double anchor_s = in.delay_s + in.anchor_bytes / in.link_bytes_per_s;
    const double transfer_s = in.residual_bytes / in.link_bytes_per_s;
    const double full_s = anchor_s + transfer_s;
    const double first_layer_s = anchor_s + transfer_s / in.layers;
    const auto layer_arrival_s = [&](std::uint32_t l) { return anchor_s + transfer_s * (l + 1) / in.layers; };

    speculate::Options options;
    options.max_tokens = in.tokens_max;
    options.window = in.window;
    options.draft = in.draft;
    options.gated = in.gated;
    options.acceptance = speculate::AcceptanceModel(in.acceptance);
    options.cost.on_draft_step(from_seconds(in.tpot_s));
    for (int i = 0; i < 100; ++i) {
        options.cost.on_verify_pass(1000, from_seconds(in.verify_base_s + 999 * in.verify_row_s));
        options.cost.on_gated_tail(from_seconds(1), from_seconds(in.exposed_fraction));
    }
    speculate::Speculation s = speculate::Speculation::create(options, kPrompt, 0).value();
    s.on_transfer_estimate(from_seconds(full_s), from_seconds(first_layer_s));

    Simulated out;
    out.committed_s.push_back(in.delay_s);
    double now_s = anchor_s;
    s.on_anchor_ready(from_seconds(now_s));
    for (;;) {
        if (now_s >= full_s) {
            s.on_residual_ready(from_seconds(now_s));
        }
        const speculate::Action action = s.next(from_seconds(now_s));
        if (action.kind == speculate::ActionKind::finished) {
            break;
        }
        if (action.kind == speculate::ActionKind::wait) {
            now_s = action.not_before ? std::min(full_s, to_seconds(*action.not_before) + 1e-9) : full_s;
            continue;
        }
        const bool pass = action.kind == speculate::ActionKind::verify;
        const double rows = static_cast<double>(action.rows.size());
        const double compute_s = pass ? in.verify_base_s + (rows - 1) * in.verify_row_s : in.tpot_s;
        // Layers share what is not exposed after the last one; each waits for its own KV when gated.
        const double layer_s = compute_s * (1 - in.exposed_fraction) / std::max(1U, in.layers - 1);
        double done_s = now_s;
        for (std::uint32_t l = 0; l < in.layers; ++l) {
            done_s = action.gated ? std::max(done_s, layer_arrival_s(l)) : done_s;
            done_s += l + 1 < in.layers ? layer_s : 0;
        }
        now_s = done_s + compute_s * (in.layers > 1 ? in.exposed_fraction : 1);
        std::vector<std::vector<float>> logits;
        for (const engine::Row& row : action.rows) {
            const double u = base::to_unit(base::keyed_bits(seed, row.position, 0));
            const bool wrong = action.kind == speculate::ActionKind::draft && u >= in.acceptance;
            logits.push_back(wrong ? std::vector<float>{0, 1} : std::vector<float>{1, 0});
        }
        s.on_step_done(action, [&](std::size_t i) { return std::span<const float>(logits[i]); },
                       {.computed = from_seconds(compute_s)});
        if (action.kind == speculate::ActionKind::draft) {
            out.first_provisional_s = std::min(out.first_provisional_s, now_s);
        }
        out.committed_s.resize(s.committed().size(), now_s);
    }
    out.window = s.counters().window;
    out.accepted = s.counters().accepted;
    return out;
}

/// The mean over `seeds` runs agrees with the prediction within 5 standard errors (and within 10 us where nothing is random).
void expect_agreement(const LatencyInputs& in, int seeds) {
    const Timeline t = predict(in);
    double accepted = 0;
    std::vector<double> sum(in.tokens_max, 0);
    std::vector<double> squares(in.tokens_max, 0);
    for (int i = 0; i < seeds; ++i) {
        const Simulated sim = simulate(in, base::mix64(static_cast<std::uint64_t>(i)));
        ASSERT_EQ(sim.window, t.window);
        ASSERT_EQ(sim.committed_s.size(), in.tokens_max);
        if (t.window > 0) {
            ASSERT_NEAR(sim.first_provisional_s, t.first_provisional_s, 1e-5);
        } else {
            ASSERT_TRUE(std::isinf(t.first_provisional_s));
        }
        accepted += sim.accepted;
        for (std::size_t n = 0; n < sum.size(); ++n) {
            sum[n] += sim.committed_s[n];
            squares[n] += sim.committed_s[n] * sim.committed_s[n];
        }
    }
    ASSERT_NEAR(accepted / seeds, t.accepted, 5.0 * t.window / std::sqrt(seeds) + 1e-9);
    for (std::uint32_t n = 1; n <= in.tokens_max; ++n) {
        const double mean = sum[n - 1] / seeds;
        const double variance = std::max(0.0, squares[n - 1] / seeds - mean * mean);
        ASSERT_NEAR(t.committed_s(n), mean, 5 * std::sqrt(variance / seeds) + 1e-5) << "token " << n;
    }
}

TEST(LatencyModel, DeterministicCasesAgreeWithTheSimulation) {
    int hidden = 0;
    int cases = 0;
    for (const double acceptance : {0.0, 1.0}) {
        for (const double rate : {2e6, 12.5e6, 60e6, 1e9}) {
            for (const double row : {0.0, 0.002, 0.0117, 0.03}) {
                for (const std::uint32_t fixed : {999U, 0U, 1U, 8U, 64U}) {
                    for (const bool gated : {true, false}) {
                        for (const std::uint32_t layers : {1U, 30U}) {
                            LatencyInputs in = typical();
                            in.acceptance = acceptance;
                            in.link_bytes_per_s = rate;
                            in.verify_row_s = row;
                            in.gated = gated;
                            in.layers = layers;
                            in.exposed_fraction = layers == 1 ? 1 : in.exposed_fraction;
                            if (fixed != 999) {
                                in.window.fixed = fixed;
                            }
                            SCOPED_TRACE("case " + std::to_string(cases++));
                            ASSERT_NO_FATAL_FAILURE(expect_agreement(in, 1));
                            const Timeline t = predict(in);
                            hidden += t.verify_start_s < t.full_s ? 1 : 0;
                        }
                    }
                }
            }
        }
    }
    EXPECT_GT(hidden, cases / 10) << "hidden verification is exercised";
}

TEST(LatencyModel, ExpectedTimesAgreeWithTheSimulation) {
    for (const double acceptance : {0.6, 0.93}) {
        LatencyInputs in = typical();
        in.acceptance = acceptance;
        ASSERT_NO_FATAL_FAILURE(expect_agreement(in, 4000));
        in.tokens_max = 20;  // shorter than the window
        ASSERT_NO_FATAL_FAILURE(expect_agreement(in, 1000));
    }
}

TEST(LatencyModel, AcceptanceIsRecoveredFromWhatPassesCount) {
    for (const std::uint32_t window : {4U, 40U}) {
        LatencyInputs in = typical();
        in.window.fixed = window;
        std::uint64_t accepted = 0;
        std::uint64_t with_rejection = 0;
        for (std::uint64_t seed = 0; seed < 2000; ++seed) {
            const Simulated sim = simulate(in, base::mix64(seed));
            accepted += sim.accepted;
            with_rejection += sim.accepted < sim.window ? 1 : 0;
        }
        EXPECT_NEAR(acceptance_of(accepted, with_rejection), in.acceptance, 0.01) << window;
    }
    EXPECT_EQ(acceptance_of(0, 0), 1);
    EXPECT_EQ(acceptance_of(0, 3), 0);
}

TEST(LatencyModel, MonolithicWaitsForEverything) {
    LatencyInputs in = typical();
    in.draft = false;
    ASSERT_NO_FATAL_FAILURE(expect_agreement(in, 1));
    const Timeline t = predict(in);
    EXPECT_DOUBLE_EQ(t.full_s, in.delay_s + 25.43e6 / 12.5e6);
    EXPECT_NEAR(t.ttft_committed_s(), t.full_s + in.tpot_s, 1e-12);
    EXPECT_NEAR(t.tt32t_s(), t.full_s + 32 * in.tpot_s, 1e-12);
    EXPECT_NEAR(t.tt64t_s(), t.full_s + 64 * in.tpot_s, 1e-12);
    EXPECT_EQ(t.window, 0U);
    EXPECT_EQ(t.token1_s, in.delay_s);
}

TEST(LatencyModel, WindowBecomesThePapersAsVerificationBecomesFree) {
    LatencyInputs in = typical();
    in.verify_base_s = 0;
    in.verify_row_s = 0;
    in.window.drafts_max = 1000;
    in.tokens_max = 2000;
    EXPECT_EQ(predict(in).window, std::ceil(in.residual_bytes / in.link_bytes_per_s / in.tpot_s));
    in.window.drafts_max = 16;
    EXPECT_EQ(predict(in).window, 16U);
    in.residual_bytes = 0;
    EXPECT_EQ(predict(in).window, 0U);
}

TEST(LatencyModel, GainOverWaitingGrowsWithAcceptance) {
    LatencyInputs in = typical();
    LatencyInputs waits = in;
    waits.draft = false;
    double last = -INFINITY;
    for (const double acceptance : {0.0, 0.5, 0.8, 0.93, 0.99, 1.0}) {
        in.acceptance = acceptance;
        const double gain = predict(waits).tt32t_s() - predict(in).tt32t_s();
        EXPECT_GT(gain, last);
        last = gain;
    }
    EXPECT_GT(last, 25 * in.tpot_s) << "every draft holds: what is left is the exposed end of the pass";
    in.acceptance = 0;
    EXPECT_EQ(predict(in).window, 0U) << "no draft is worth its row";
    in.window.fixed = 16;
    EXPECT_LT(predict(waits).tt32t_s() - predict(in).tt32t_s(), 0) << "useless drafts cost the exposed end of the pass";
}

}  // namespace
}  // namespace lynx::plan
