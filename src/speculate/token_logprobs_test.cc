// Log probabilities against the definition, and of logits that are none.
#include "speculate/token_logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace lynx::speculate {
namespace {

TEST(Logprobs, AreTheLogarithmsOfTheSoftmax) {
    base::Rng rng(2);
    for (const std::size_t size : {1U, 2U, 5U, 1000U}) {
        std::vector<float> logits(size);
        double sum = 0;
        for (float& logit : logits) {
            logit = static_cast<float>(rng.unit() * 20 - 10);
            sum += std::exp(double{logit});
        }
        const auto chosen = static_cast<Token>(rng.below(size));
        for (const std::uint32_t top : {0U, 1U, 4U, kTopLogprobsMax}) {
            const CommittedLogprobs got = logprobs_of(logits, chosen, top);
            EXPECT_EQ(got.chosen.token, chosen);
            EXPECT_NEAR(got.chosen.logprob, logits[static_cast<std::size_t>(chosen)] - std::log(sum), 1e-5);
            ASSERT_EQ(got.top.size(), std::min<std::size_t>(top, size));
            std::vector<float> sorted = logits;
            std::sort(sorted.rbegin(), sorted.rend());
            for (std::size_t i = 0; i < got.top.size(); ++i) {
                EXPECT_EQ(logits[static_cast<std::size_t>(got.top[i].token)], sorted[i]);
                EXPECT_NEAR(got.top[i].logprob, sorted[i] - std::log(sum), 1e-5);
            }
        }
    }
}

TEST(Logprobs, TiesGoToTheLowestIdAndNoMoreThanTheMaximumComesBack) {
    const std::vector<float> logits(100, 1.5F);
    const CommittedLogprobs got = logprobs_of(logits, 50, 1000);
    ASSERT_EQ(got.top.size(), kTopLogprobsMax);
    for (std::size_t i = 0; i < got.top.size(); ++i) {
        EXPECT_EQ(got.top[i].token, static_cast<Token>(i));
    }
    EXPECT_NEAR(got.chosen.logprob, -std::log(100.0), 1e-5);
}

TEST(Logprobs, AreFiniteWhateverTheLogitsAre) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (const std::vector<float>& logits :
         {std::vector<float>{kNan, kNan}, {-kInf, -kInf}, {kInf, kInf}, {kInf, kNan}, {1.0F, -kInf}, {-1e38F, 1e38F}}) {
        for (const Token chosen : {0, 1}) {
            const CommittedLogprobs got = logprobs_of(logits, chosen, 2);
            EXPECT_TRUE(got.chosen.logprob >= kLogprobMin && got.chosen.logprob <= 0) << got.chosen.logprob;
            for (const TokenLogprob& top : got.top) {
                EXPECT_TRUE(top.logprob >= kLogprobMin && top.logprob <= 0) << top.logprob;
            }
        }
    }
    EXPECT_EQ(logprobs_of(std::vector<float>{1.0F, -kInf}, 0, 0).chosen.logprob, 0);
}

}  // namespace
}  // namespace lynx::speculate
