// The ratio rule's output is distributed as the better KV's: by exact enumeration on the fake engine, and by a G-test with stated power on
// draws through Speculation itself. Two wrong rules must fail both.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "base/rng.h"
#include "speculate/testing/fake_backend.h"
#include "speculate/testing/g_test.h"
#include "speculate/testing/ratio_enumeration.h"
#include "speculate/testing/speculation_driver.h"

namespace lynx::speculate {
namespace {

using testing::ExactRule;
using testing::Process;
using testing::RatioEnumeration;
using testing::Sequence;
using testing::SequenceDistribution;

constexpr std::size_t kSteps = 3;  // output tokens after token 1
constexpr std::uint32_t kVocabulary = 5;

// --- wrong rules, as probabilities and as what Speculation calls ---

double accept_squared(const Distribution& q, const Distribution& p, Token d) {
    return std::pow(acceptance_probability(q, p, d), 2);
}
Distribution target_as_residual(const Distribution& /*q*/, const Distribution& p) { return p; }

const ExactRule kAcceptsTooRarely{.accept = accept_squared};
const ExactRule kDrawsFromTheTarget{.residual = target_as_residual};

RatioOutcome accepts_too_rarely(const Distribution& q, const Distribution& p, Token d, double u, double v) noexcept {
    return u < accept_squared(q, p, d) ? RatioOutcome{.accepted = true, .token = d}
                                       : RatioOutcome{.accepted = false, .token = draw(residual_distribution(q, p), v)};
}
RatioOutcome draws_from_the_target(const Distribution& q, const Distribution& p, Token d, double u, double v) noexcept {
    return u < acceptance_probability(q, p, d) ? RatioOutcome{.accepted = true, .token = d}
                                               : RatioOutcome{.accepted = false, .token = draw(p, v)};
}

// --- exact enumeration on the fake engine ---

/// Next-token distributions after every output prefix shorter than kSteps, computed by plain steps on one version of the KV.
std::map<Sequence, Distribution> tabulate(testing::FakeBackend& backend, std::uint32_t prompt_tokens, Token token1,
                                          const Sampling& sampling) {
    std::map<Sequence, Distribution> table;
    std::vector<Sequence> todo{{}};
    while (!todo.empty()) {
        const Sequence prefix = todo.back();
        todo.pop_back();
        std::vector<engine::Row> rows{{.seq = 0, .token = token1, .position = prompt_tokens, .logits = true}};
        for (const Token t : prefix) {
            rows.push_back({.seq = 0, .token = t, .position = rows.back().position + 1, .logits = true});
        }
        backend.truncate(prompt_tokens);
        backend.run(rows, /*better=*/false, /*gated=*/false);
        table[prefix] = distribution(backend.logits(rows.size() - 1), sampling);
        for (Token t = 0; prefix.size() + 1 < kSteps && t < static_cast<Token>(kVocabulary); ++t) {
            todo.push_back(prefix);
            todo.back().push_back(t);
        }
    }
    return table;
}

Process process(const std::map<Sequence, Distribution>& table) {
    return [&table](const Sequence& prefix) { return table.at(prefix); };
}

TEST(RatioExact, TotalVariationToTheTargetIsZero) {
    constexpr double kTolerance = 1e-12;
    testing::FakeBackend backend(
        {.vocabulary = kVocabulary, .layers = 2, .kv_heads = 2, .head_dim = 8, .context_tokens = 32, .seed = 5});
    const std::vector<Token> prompt{0, 3, 1, 4, 1, 2, 2, 0, 3};
    const auto prompt_tokens = static_cast<std::uint32_t>(prompt.size());
    const Token token1 = argmax(backend.prefill(prompt));
    double worst = 0;
    double mildest_wrong = 1;
    for (const Sampling& sampling : {Sampling{.temperature = 1}, Sampling{.temperature = 0.7F, .top_k = 4},
                                     Sampling{.temperature = 1.5F, .top_p = 0.8F}}) {
        backend.start(backend.better());
        const auto p = tabulate(backend, prompt_tokens, token1, sampling);
        backend.start(testing::perturbed(backend.better(), 10, 77));
        const auto q = tabulate(backend, prompt_tokens, token1, sampling);
        const SequenceDistribution target = testing::target_distribution(process(p), kSteps);
        ASSERT_GT(testing::total_variation(testing::target_distribution(process(q), kSteps), target), 0.01)
            << "the anchor must be wrong enough to test something";
        for (std::size_t window = 1; window <= kSteps; ++window) {
            const auto distance = [&](const ExactRule& rule) {
                const auto out = RatioEnumeration(process(q), process(p), rule, window, kSteps).run();
                return testing::total_variation(out, target);
            };
            worst = std::max(worst, distance({}));
            mildest_wrong = std::min({mildest_wrong, distance(kAcceptsTooRarely), distance(kDrawsFromTheTarget)});
        }
    }
    std::printf("worst total variation %.2e; the wrong rules' smallest %.2e\n", worst, mildest_wrong);
    EXPECT_LT(worst, kTolerance);
    EXPECT_GT(mildest_wrong, 1e9 * kTolerance) << "the checker must reject a wrong rule";
}

// --- draws through Speculation ---

/// Logits after `output`: a fixed table by the last token and the length, of either quality.
std::vector<float> table_logits(std::span<const Token> output, bool better) {
    const std::uint64_t context = base::keyed_bits(9, static_cast<std::uint64_t>(output.back()), output.size());
    std::vector<float> logits(kVocabulary);
    for (std::size_t i = 0; i < kVocabulary; ++i) {
        const double base = 1.6 * base::to_unit(base::keyed_bits(context, i, 0));
        const double error = 1.4 * (base::to_unit(base::keyed_bits(context, i, 1)) - 0.5);
        logits[i] = static_cast<float>(better ? base : base + error);
    }
    return logits;
}

constexpr Token kTokenOne = 2;
const Sampling kSampling{.temperature = 1};

Process table_process(bool better) {
    return [better](const Sequence& prefix) {
        Sequence output{kTokenOne};
        output.insert(output.end(), prefix.begin(), prefix.end());
        return distribution(table_logits(output, better), kSampling);
    };
}

testing::Counts<Sequence> draws(std::uint32_t count, std::uint32_t window, SpeculationPeer::RatioRule rule) {
    testing::Counts<Sequence> counts;
    for (std::uint32_t i = 0; i < count; ++i) {
        Options options;
        options.sampling = kSampling;
        options.max_tokens = kSteps + 1;
        options.window.fixed = window;
        options.ratio_seed = base::mix64(i);
        Speculation s = Speculation::create(options, 4, kTokenOne).value();
        SpeculationPeer::set_ratio_rule(s, rule);
        testing::TableBackend backend(table_logits, 4);
        testing::Driver(s, backend, {}).run();
        ++counts[Sequence(s.committed().begin() + 1, s.committed().end())];
    }
    return counts;
}

TEST(RatioGTest, AcceptsTheRuleAndRejectsWrongOnes) {
    constexpr std::uint32_t kDraws = 100000;
    constexpr double kSignificance = 1e-6;  // probability of a false alarm
    constexpr double kPower = 0.999;
    constexpr std::uint32_t kWindow =
        2;  // so that rejections, the token after a full accept and plain decoding all occur
    const SequenceDistribution target = testing::target_distribution(table_process(true), kSteps);
    const double degrees = static_cast<double>(target.size()) - 1;
    const double critical = testing::chi_square_critical(kSignificance, degrees);
    ASSERT_EQ(target.size(), 125U);
    for (const auto& [sequence, probability] : target) {
        ASSERT_GT(probability * kDraws, 5) << "the chi-square approximation needs filled cells";
    }
    const double g = testing::g_statistic(draws(kDraws, kWindow, &ratio_rule), target);
    std::printf("critical %.1f at %.0e; G %.1f\n", critical, kSignificance, g);
    EXPECT_LT(g, critical);

    struct Wrong {
        const char* name;
        ExactRule exact;
        SpeculationPeer::RatioRule rule;
    };
    for (const Wrong& wrong : {Wrong{"accepts too rarely", kAcceptsTooRarely, &accepts_too_rarely},
                               Wrong{"draws from the target", kDrawsFromTheTarget, &draws_from_the_target}}) {
        const auto actual =
            RatioEnumeration(table_process(false), table_process(true), wrong.exact, kWindow, kSteps).run();
        const double noncentrality = testing::g_noncentrality(actual, target, kDraws);
        const double power = testing::noncentral_chi_square_tail(critical, degrees, noncentrality);
        const auto counts = draws(kDraws, kWindow, wrong.rule);
        const double g_wrong = testing::g_statistic(counts, target);
        std::printf("%s: noncentrality %.1f, power %.6f, G %.1f\n", wrong.name, noncentrality, power, g_wrong);
        EXPECT_GT(power, kPower) << wrong.name;
        EXPECT_GT(g_wrong, critical) << wrong.name;
        // Speculation does with a wrong rule what the enumeration says: the two agree on more than the right answer.
        EXPECT_LT(testing::g_statistic(counts, actual), critical) << wrong.name;
    }
}

TEST(ChiSquare, KnownValues) {
    EXPECT_NEAR(testing::chi_square_cdf(3.841458820694124, 1), 0.95, 1e-12);
    EXPECT_NEAR(testing::chi_square_cdf(124.3421, 100), 0.95, 1e-6);
    EXPECT_NEAR(testing::chi_square_critical(0.01, 10), 23.20925, 1e-4);
    // One degree of freedom: P(|Z + 2| > 1.96) = Phi(0.04) + Phi(-3.96).
    EXPECT_NEAR(testing::noncentral_chi_square_tail(1.96 * 1.96, 1, 4), 0.515953 + 0.0000375, 1e-5);
}

}  // namespace
}  // namespace lynx::speculate
