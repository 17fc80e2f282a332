// A row of logits as a distribution over the vocabulary at temperature 1, and how two of them compare.
#pragma once

#include <vector>

namespace lynx::bench {

class Distribution {
public:
    /// Precondition: finite, not empty.
    explicit Distribution(std::vector<float> logits);

    [[nodiscard]] const std::vector<float>& logits() const noexcept { return logits_; }

    /// KL(this || q) in nats. Precondition for both: the same vocabulary.
    [[nodiscard]] double kl(const Distribution& q) const noexcept;
    /// sum_i min(p_i, q_i): the probability that a token drawn from q is accepted against this.
    [[nodiscard]] double overlap(const Distribution& q) const noexcept;

private:
    std::vector<float> logits_;
    std::vector<double> p_;
    double log_sum_ = 0;  // log p_i = logit_i - log_sum
};

}  // namespace lynx::bench
