#include "speculate/token_logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace lynx::speculate {
namespace {

double cleaned(float logit) noexcept {
    return std::isnan(logit) ? -std::numeric_limits<double>::infinity()
                             : std::min(logit, std::numeric_limits<float>::max());
}

}  // namespace

CommittedLogprobs logprobs_of(std::span<const float> logits, Token chosen, std::uint32_t top) {
    LYNX_CHECK(chosen >= 0 && static_cast<std::size_t>(chosen) < logits.size());
    std::vector<Token> likeliest;  // a heap whose front is the least likely
    const auto likelier = [&](Token a, Token b) {
        const double x = cleaned(logits[static_cast<std::size_t>(a)]);
        const double y = cleaned(logits[static_cast<std::size_t>(b)]);
        return x != y ? x > y : a < b;
    };
    const std::size_t kept = std::min<std::size_t>(top, kTopLogprobsMax);
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const auto token = static_cast<Token>(i);
        most = std::max(most, cleaned(logits[i]));
        if (likeliest.size() < kept) {
            likeliest.push_back(token);
            std::push_heap(likeliest.begin(), likeliest.end(), likelier);
        } else if (kept > 0 && likelier(token, likeliest.front())) {
            std::pop_heap(likeliest.begin(), likeliest.end(), likelier);
            likeliest.back() = token;
            std::push_heap(likeliest.begin(), likeliest.end(), likelier);
        }
    }
    std::sort_heap(likeliest.begin(), likeliest.end(), likelier);
    double sum = 0;
    for (const float logit : logits) {
        sum += std::exp(cleaned(logit) - most);
    }
    const auto logprob = [&](Token token) {
        const double value = cleaned(logits[static_cast<std::size_t>(token)]) - most - std::log(sum);
        // Where no logit is above -inf, the differences are no numbers.
        return TokenLogprob{token, value > kLogprobMin ? static_cast<float>(std::min(value, 0.0)) : kLogprobMin};
    };
    CommittedLogprobs out{.chosen = logprob(chosen), .top = {}};
    for (const Token token : likeliest) {
        out.top.push_back(logprob(token));
    }
    return out;
}

}  // namespace lynx::speculate
