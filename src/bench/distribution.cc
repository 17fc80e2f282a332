#include "bench/distribution.h"

#include <algorithm>
#include <cmath>

namespace lynx::bench {

Distribution::Distribution(std::vector<float> logits) : logits_(std::move(logits)) {
    const double top = *std::max_element(logits_.begin(), logits_.end());
    double sum = 0;
    p_.reserve(logits_.size());
    for (const float x : logits_) {
        p_.push_back(std::exp(x - top));
        sum += p_.back();
    }
    for (double& p : p_) {
        p /= sum;
    }
    log_sum_ = top + std::log(sum);
}

double Distribution::kl(const Distribution& q) const noexcept {
    double total = 0;
    for (std::size_t i = 0; i < p_.size(); ++i) {
        total += p_[i] * ((logits_[i] - log_sum_) - (q.logits_[i] - q.log_sum_));
    }
    return total;
}

double Distribution::overlap(const Distribution& q) const noexcept {
    double total = 0;
    for (std::size_t i = 0; i < p_.size(); ++i) {
        total += std::min(p_[i], q.p_[i]);
    }
    return total;
}

}  // namespace lynx::bench
