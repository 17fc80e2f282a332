#include "speculate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "speculate/testing/g_test.h"

namespace lynx::speculate {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(base::Rng& rng, std::size_t n) {
    std::vector<float> logits(n);
    for (float& l : logits) {
        l = static_cast<float>(8 * rng.unit() - 4);
    }
    return logits;
}

double sum(const Distribution& d) { return std::accumulate(d.probabilities.begin(), d.probabilities.end(), 0.0); }

TEST(Sampling, RuleFollowsFromTemperatureAndSeed) {
    EXPECT_EQ(Sampling{}.rule(), Rule::greedy);
    EXPECT_EQ((Sampling{.temperature = 0, .seed = 7}.rule()), Rule::greedy);
    EXPECT_EQ((Sampling{.temperature = 1}.rule()), Rule::ratio);
    EXPECT_EQ((Sampling{.temperature = 1, .seed = 0}.rule()), Rule::coupled);
}

TEST(Sampling, ValidateNamesTheField) {
    EXPECT_TRUE(Sampling{}.validate().ok());
    EXPECT_TRUE((Sampling{.temperature = 2, .top_k = 40, .top_p = 0.01F}.validate().ok()));
    for (const float bad : {-0.1F, kInf, kNan}) {
        const Status s = Sampling{.temperature = bad}.validate();
        EXPECT_EQ(s.code(), ErrorCode::invalid_argument);
        EXPECT_THAT(s.message(), HasSubstr("temperature"));
    }
    for (const float bad : {0.0F, -1.0F, 1.0001F, kNan}) {
        const Status s = Sampling{.temperature = 1, .top_p = bad}.validate();
        EXPECT_EQ(s.code(), ErrorCode::invalid_argument);
        EXPECT_THAT(s.message(), HasSubstr("top_p"));
    }
}

TEST(Argmax, TiesGoToTheLowestId) {
    EXPECT_EQ(argmax(std::vector<float>{1, 3, 3, 2}), 1);
    EXPECT_EQ(argmax(std::vector<float>{-0.0F, 0.0F}), 0);
    EXPECT_EQ(argmax(std::vector<float>{5}), 0);
}

TEST(Argmax, BrokenLogits) {
    EXPECT_EQ(argmax(std::vector<float>{kNan, 1, kNan, 2}), 3);
    EXPECT_EQ(argmax(std::vector<float>{kNan, kNan}), 0);
    EXPECT_EQ(argmax(std::vector<float>{-kInf, kNan, -kInf}), 0);
    EXPECT_EQ(argmax(std::vector<float>{0, kInf, kInf}), 1);
}

TEST(Distribution, SoftmaxWithTemperature) {
    const std::vector<float> logits{0, 1, 2};
    const Distribution d = distribution(logits, {.temperature = 0.5F});
    const double z = std::exp(-4.0) + std::exp(-2.0) + 1;
    EXPECT_THAT(d.tokens, ElementsAre(0, 1, 2));
    EXPECT_THAT(d.probabilities, ElementsAre(DoubleNear(std::exp(-4.0) / z, 1e-15),
                                             DoubleNear(std::exp(-2.0) / z, 1e-15), DoubleNear(1 / z, 1e-15)));
    EXPECT_EQ(d.of(2), d.probabilities[2]);
    EXPECT_EQ(d.of(3), 0);
    EXPECT_EQ(d.of(-1), 0);
}

TEST(Distribution, TemperatureZeroIsCertain) {
    const Distribution d = distribution(std::vector<float>{0, 2, 2}, {});
    EXPECT_THAT(d.tokens, ElementsAre(1));
    EXPECT_THAT(d.probabilities, ElementsAre(1.0));
}

TEST(Distribution, TopKKeepsTheLargestAndBreaksTiesLow) {
    const std::vector<float> logits{1, 2, 2, 0, 2};
    EXPECT_THAT(distribution(logits, {.temperature = 1, .top_k = 2}).tokens, ElementsAre(1, 2));
    EXPECT_THAT(distribution(logits, {.temperature = 1, .top_k = 4}).tokens, ElementsAre(0, 1, 2, 4));
    EXPECT_EQ(distribution(logits, {.temperature = 1, .top_k = 5}).tokens.size(), 5U);
    EXPECT_EQ(distribution(logits, {.temperature = 1, .top_k = 500}).tokens.size(), 5U);
    EXPECT_NEAR(sum(distribution(logits, {.temperature = 1, .top_k = 2})), 1, 1e-15);
}

TEST(Distribution, TopPKeepsTheSmallestSufficientSet) {
    std::vector<float> logits;
    for (const double p : {0.125, 0.5, 0.125, 0.25}) {
        logits.push_back(static_cast<float>(std::log(p)));
    }
    const auto kept = [&](float top_p) { return distribution(logits, {.temperature = 1, .top_p = top_p}); };
    EXPECT_THAT(kept(1e-6F).tokens, ElementsAre(1));
    EXPECT_THAT(kept(0.49F).tokens, ElementsAre(1));
    EXPECT_THAT(kept(0.51F).tokens, ElementsAre(1, 3));
    EXPECT_THAT(kept(0.74F).tokens, ElementsAre(1, 3));
    EXPECT_THAT(kept(0.76F).tokens, ElementsAre(0, 1, 3)) << "the tie goes to the lower id";
    EXPECT_THAT(kept(0.99F).tokens, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(kept(0.51F).probabilities, ElementsAre(DoubleNear(2.0 / 3, 1e-7), DoubleNear(1.0 / 3, 1e-7)));
}

TEST(Distribution, TopKComesBeforeTopP) {
    // After top-k the first token alone holds 0.6 of what is left; before it would hold only 0.3.
    std::vector<float> logits;
    for (const double p : {0.3, 0.2, 0.125, 0.125, 0.125, 0.125}) {
        logits.push_back(static_cast<float>(std::log(p)));
    }
    EXPECT_THAT(distribution(logits, {.temperature = 1, .top_k = 2, .top_p = 0.55F}).tokens, ElementsAre(0));
    EXPECT_THAT(distribution(logits, {.temperature = 1, .top_p = 0.55F}).tokens, ElementsAre(0, 1, 2));
}

TEST(Distribution, BrokenLogits) {
    const Sampling sampling{.temperature = 1};
    const Distribution nothing = distribution(std::vector<float>{kNan, -kInf, kNan}, sampling);
    EXPECT_THAT(nothing.tokens, ElementsAre(0));
    const Distribution some = distribution(std::vector<float>{kNan, 1, -kInf, 1}, sampling);
    EXPECT_THAT(some.tokens, ElementsAre(1, 3));
    EXPECT_THAT(some.probabilities, ElementsAre(0.5, 0.5));
    const Distribution infinite = distribution(std::vector<float>{0, kInf, kInf}, {.temperature = 1e-30F});
    EXPECT_THAT(infinite.tokens, ElementsAre(1, 2));
    EXPECT_THAT(infinite.probabilities, ElementsAre(0.5, 0.5));
    EXPECT_THAT(distribution(std::vector<float>{0, -5000}, sampling).tokens, ElementsAre(0)) << "exp underflows to 0";
}

TEST(Draw, InverseTransform) {
    const Distribution d{.tokens = {2, 5, 9}, .probabilities = {0.25, 0.5, 0.25}};
    EXPECT_EQ(draw(d, 1e-300), 2);
    EXPECT_EQ(draw(d, 0.2499), 2);
    EXPECT_EQ(draw(d, 0.25), 5);
    EXPECT_EQ(draw(d, 0.7499), 5);
    EXPECT_EQ(draw(d, 0.75), 9);
    EXPECT_EQ(draw({.tokens = {1, 2}, .probabilities = {0.5, 0.49}}, 0.995), 2) << "a sum below 1 falls to the last";
}

TEST(Pick, IsTheGumbelMaximum) {
    base::Rng rng(1);
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
        const std::vector<float> logits = random_logits(rng, 50);
        const Sampling sampling{.temperature = 0.9F, .top_k = 20, .top_p = 0.95F, .seed = seed};
        const Distribution d = distribution(logits, sampling);
        Token best = -1;
        double best_score = -INFINITY;
        for (std::size_t i = 0; i < d.tokens.size(); ++i) {
            const double u = base::to_unit(base::keyed_bits(seed, 33, static_cast<std::uint64_t>(d.tokens[i])));
            const double score = std::log(d.probabilities[i]) - std::log(-std::log(u));
            if (score > best_score) {
                best_score = score;
                best = d.tokens[i];
            }
        }
        ASSERT_EQ(pick(logits, sampling, 33), best);
    }
}

TEST(Pick, FollowsTheDistributionOverSeedsAndOverPositions) {
    const std::vector<float> logits{0.3F, -1, 1.5F, 0, 0.9F, -0.4F};
    const Sampling sampling{.temperature = 1.2F};
    const Distribution d = distribution(logits, sampling);
    std::map<Token, double> expected;
    for (std::size_t i = 0; i < d.tokens.size(); ++i) {
        expected[d.tokens[i]] = d.probabilities[i];
    }
    testing::Counts<Token> over_seeds;
    testing::Counts<Token> over_positions;
    for (std::uint32_t i = 0; i < 50000; ++i) {
        ++over_seeds[pick(logits, {.temperature = 1.2F, .seed = i}, 17)];
        ++over_positions[pick(logits, {.temperature = 1.2F, .seed = 99}, i)];
    }
    const double critical = testing::chi_square_critical(1e-6, 5);
    EXPECT_LT(testing::g_statistic(over_seeds, expected), critical);
    EXPECT_LT(testing::g_statistic(over_positions, expected), critical);
    expected[0] += 0.02;
    expected[2] -= 0.02;
    EXPECT_GT(testing::g_statistic(over_seeds, expected), critical) << "the test can fail";
}

TEST(Pick, SmallChangesOfLogitsRarelyChangeTheToken) {
    // What coupling is for: the same noise on nearly the same distribution gives nearly always the same token.
    base::Rng rng(5);
    int same = 0;
    constexpr int kCases = 2000;
    for (int i = 0; i < kCases; ++i) {
        std::vector<float> logits = random_logits(rng, 100);
        const Sampling sampling{.temperature = 1, .seed = rng()};
        const Token before = pick(logits, sampling, 3);
        for (float& l : logits) {
            l += static_cast<float>(0.02 * (rng.unit() - 0.5));
        }
        same += pick(logits, sampling, 3) == before ? 1 : 0;
    }
    EXPECT_GT(same, kCases * 95 / 100);
}

TEST(Sample, RatioDrawsFromTheDistribution) {
    const std::vector<float> logits{0, 1, 2};
    const Sampling sampling{.temperature = 1};
    const double u = ratio_uniform(11, 5, RatioUse::target);
    EXPECT_EQ(sample(logits, sampling, 5, 11), draw(distribution(logits, sampling), u));
    EXPECT_EQ(sample(logits, {}, 5, 11), 2);
    EXPECT_NE(ratio_uniform(11, 5, RatioUse::draft), u);
    EXPECT_NE(ratio_uniform(11, 6, RatioUse::target), u);
    EXPECT_NE(ratio_uniform(12, 5, RatioUse::target), u);
}

TEST(RatioRule, OneStepGivesTheTarget) {
    // sum_d q(d) [accept(d) 1{d = t} + (1 - accept(d)) residual(t)] = p(t), also where the supports differ.
    base::Rng rng(3);
    for (int i = 0; i < 200; ++i) {
        const Sampling sampling{.temperature = 1, .top_k = i % 2 == 0 ? 0U : 4U};
        const Distribution q = distribution(random_logits(rng, 8), sampling);
        const Distribution p = distribution(random_logits(rng, 8), sampling);
        const Distribution r = residual_distribution(q, p);
        for (Token t = 0; t < 8; ++t) {
            double out = q.of(t) * acceptance_probability(q, p, t);
            for (const Token d : q.tokens) {
                out += q.of(d) * (1 - acceptance_probability(q, p, d)) * r.of(t);
            }
            ASSERT_NEAR(out, p.of(t), 1e-14);
        }
    }
}

TEST(RatioRule, EdgesOfTheSupport) {
    const Distribution a{.tokens = {0}, .probabilities = {1}};
    const Distribution b{.tokens = {1}, .probabilities = {1}};
    EXPECT_EQ(acceptance_probability(a, b, 0), 0) << "the target excludes it";
    EXPECT_EQ(acceptance_probability(a, b, 1), 1) << "the draft could not have drawn it, the target can";
    EXPECT_EQ(acceptance_probability(a, a, 2), 0) << "neither can";
    EXPECT_THAT(residual_distribution(a, b).tokens, ElementsAre(1));
    EXPECT_THAT(residual_distribution(a, a).tokens, ElementsAre(0)) << "no residual: the target itself";
    const RatioOutcome rejected = ratio_rule(a, b, 0, 1e-300, 0.5);
    EXPECT_FALSE(rejected.accepted);
    EXPECT_EQ(rejected.token, 1);
    const RatioOutcome accepted = ratio_rule(a, a, 0, 1 - 1e-16, 0.5);
    EXPECT_TRUE(accepted.accepted);
    EXPECT_EQ(accepted.token, 0);
}

}  // namespace
}  // namespace lynx::speculate
