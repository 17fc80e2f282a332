#include "speculate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/rng.h"

namespace lynx::speculate {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// A logit as the pipeline sees it: never NaN, never +inf.
float cleaned(float logit) noexcept {
    return std::isnan(logit) ? kNothing : std::min(logit, std::numeric_limits<float>::max());
}

float logit_of(std::span<const float> logits, Token token) noexcept {
    return cleaned(logits[static_cast<std::size_t>(token)]);
}

Distribution certain(Token token) { return {.tokens = {token}, .probabilities = {1.0}}; }

/// Tokens with a logit above -inf, ascending.
std::vector<Token> candidates(std::span<const float> logits) {
    std::vector<Token> ids;
    ids.reserve(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (cleaned(logits[i]) > kNothing) {
            ids.push_back(static_cast<Token>(i));
        }
    }
    return ids;
}

void keep_top_k(std::span<const float> logits, std::uint32_t k, std::vector<Token>& ids) {
    if (k == 0 || k >= ids.size()) {
        return;
    }
    const auto border = ids.begin() + static_cast<std::ptrdiff_t>(k);
    std::nth_element(ids.begin(), border, ids.end(), [&](Token a, Token b) {
        const float x = logit_of(logits, a);
        const float y = logit_of(logits, b);
        return x != y ? x > y : a < b;
    });
    ids.erase(border, ids.end());
    std::sort(ids.begin(), ids.end());
}

/// Divides by the sum, after dropping tokens whose probability is 0.
void normalise(Distribution& d) {
    double sum = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < d.tokens.size(); ++i) {
        if (d.probabilities[i] > 0) {
            sum += d.probabilities[i];
            d.tokens[kept] = d.tokens[i];
            d.probabilities[kept++] = d.probabilities[i];
        }
    }
    d.tokens.resize(kept);
    d.probabilities.resize(kept);
    for (double& p : d.probabilities) {
        p /= sum;
    }
}

/// Keeps the smallest set of the most probable tokens whose sum reaches top_p.
void keep_top_p(double top_p, Distribution& d) {
    if (top_p >= 1) {
        return;
    }
    // A heap instead of a sort: the nucleus is usually a small part of the vocabulary.
    std::vector<std::size_t> heap(d.tokens.size());
    for (std::size_t i = 0; i < heap.size(); ++i) {
        heap[i] = i;
    }
    const auto less_likely = [&](std::size_t a, std::size_t b) {
        const double x = d.probabilities[a];
        const double y = d.probabilities[b];
        return x != y ? x < y : a > b;
    };
    std::make_heap(heap.begin(), heap.end(), less_likely);
    std::vector<bool> kept(heap.size(), false);
    double sum = 0;
    for (auto end = heap.end(); end != heap.begin() && sum < top_p; --end) {
        std::pop_heap(heap.begin(), end, less_likely);
        const std::size_t best = *std::prev(end);
        kept[best] = true;
        sum += d.probabilities[best];
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
        if (!kept[i]) {
            d.probabilities[i] = 0;
        }
    }
    normalise(d);
}

}  // namespace

Status Sampling::validate() const {
    if (!std::isfinite(temperature) || temperature < 0) {
        return {ErrorCode::invalid_argument,
                "temperature: expected a finite number >= 0, actual " + std::to_string(temperature)};
    }
    if (!(top_p > 0 && top_p <= 1)) {
        return {ErrorCode::invalid_argument, "top_p: expected a number in (0, 1], actual " + std::to_string(top_p)};
    }
    return {};
}

double Distribution::of(Token token) const noexcept {
    const auto it = std::lower_bound(tokens.begin(), tokens.end(), token);
    return it != tokens.end() && *it == token ? probabilities[static_cast<std::size_t>(it - tokens.begin())] : 0.0;
}

Token argmax(std::span<const float> logits) noexcept {
    LYNX_CHECK(!logits.empty());
    std::size_t best = 0;
    for (std::size_t i = 1; i < logits.size(); ++i) {
        if (cleaned(logits[i]) > cleaned(logits[best])) {
            best = i;
        }
    }
    return static_cast<Token>(best);
}

Distribution distribution(std::span<const float> logits, const Sampling& sampling) {
    LYNX_CHECK(!logits.empty());
    if (sampling.temperature == 0) {
        return certain(argmax(logits));
    }
    Distribution d{.tokens = candidates(logits), .probabilities = {}};
    if (d.tokens.empty()) {
        return certain(0);
    }
    keep_top_k(logits, sampling.top_k, d.tokens);
    const double peak = logit_of(logits, argmax(logits));
    d.probabilities.reserve(d.tokens.size());
    for (const Token token : d.tokens) {
        d.probabilities.push_back(
            std::exp((logit_of(logits, token) - peak) / static_cast<double>(sampling.temperature)));
    }
    normalise(d);
    keep_top_p(static_cast<double>(sampling.top_p), d);
    return d;
}

Token pick(std::span<const float> logits, const Sampling& sampling, std::uint32_t position) {
    LYNX_CHECK(sampling.rule() != Rule::ratio);
    if (sampling.rule() == Rule::greedy) {
        return argmax(logits);
    }
    const Distribution d = distribution(logits, sampling);
    Token winner = d.tokens.front();
    double best = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < d.tokens.size(); ++i) {
        const auto key = static_cast<std::uint64_t>(d.tokens[i]);
        const double u = base::to_unit(base::keyed_bits(*sampling.seed, position, key));
        const double p = d.probabilities[i];
        // -log(u) >= 1 - u: almost every token loses without a logarithm, the costliest part over a whole vocabulary.
        if ((1 - u) / p >= best) {
            continue;
        }
        if (const double arrival = -std::log(u) / p; arrival < best) {
            best = arrival;
            winner = d.tokens[i];
        }
    }
    return winner;
}

Token sample(std::span<const float> logits, const Sampling& sampling, std::uint32_t position,
             std::uint64_t ratio_seed) {
    if (sampling.rule() != Rule::ratio) {
        return pick(logits, sampling, position);
    }
    return draw(distribution(logits, sampling), ratio_uniform(ratio_seed, position, RatioUse::target));
}

Token draw(const Distribution& distribution, double u) noexcept {
    LYNX_CHECK(!distribution.tokens.empty());
    double sum = 0;
    for (std::size_t i = 0; i < distribution.tokens.size(); ++i) {
        sum += distribution.probabilities[i];
        if (u < sum) {
            return distribution.tokens[i];
        }
    }
    return distribution.tokens.back();  // the probabilities sum to 1 only up to rounding
}

double ratio_uniform(std::uint64_t ratio_seed, std::uint32_t position, RatioUse use) noexcept {
    return base::to_unit(base::keyed_bits(ratio_seed, position, static_cast<std::uint64_t>(use)));
}

double acceptance_probability(const Distribution& draft, const Distribution& target, Token drafted) noexcept {
    const double q = draft.of(drafted);
    const double p = target.of(drafted);
    return p >= q ? (p > 0 ? 1.0 : 0.0) : p / q;
}

Distribution residual_distribution(const Distribution& draft, const Distribution& target) {
    Distribution r = target;
    bool any = false;
    for (std::size_t i = 0; i < r.tokens.size(); ++i) {
        r.probabilities[i] = std::max(0.0, r.probabilities[i] - draft.of(r.tokens[i]));
        any = any || r.probabilities[i] > 0;
    }
    if (!any) {
        return target;
    }
    normalise(r);
    return r;
}

RatioOutcome ratio_rule(const Distribution& draft, const Distribution& target, Token drafted, double u_accept,
                        double u_residual) noexcept {
    if (u_accept < acceptance_probability(draft, target, drafted)) {
        return {.accepted = true, .token = drafted};
    }
    return {.accepted = false, .token = draw(residual_distribution(draft, target), u_residual)};
}

}  // namespace lynx::speculate
