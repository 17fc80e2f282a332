// Test support: what distribution over output sequences an acceptance rule leads to, by exact enumeration, without random numbers.
// Not part of the library.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "speculate/sampling.h"

namespace lynx::speculate::testing {

using Sequence = std::vector<Token>;                           ///< output after token 1
using Process = std::function<Distribution(const Sequence&)>;  ///< next token's distribution after a prefix
using SequenceDistribution = std::map<Sequence, double>;

/// An acceptance rule as probabilities; the default is what ratio_rule is made of.
struct ExactRule {
    std::function<double(const Distribution&, const Distribution&, Token)> accept = acceptance_probability;
    std::function<Distribution(const Distribution&, const Distribution&)> residual = residual_distribution;
};

/// Draft `window` tokens from q, judge them with `rule` against p, go on with p up to `length` tokens.
class RatioEnumeration {
public:
    RatioEnumeration(Process q, Process p, ExactRule rule, std::size_t window, std::size_t length)
        : q_(std::move(q)), p_(std::move(p)), rule_(std::move(rule)), window_(window), length_(length) {}

    [[nodiscard]] SequenceDistribution run() {
        out_.clear();
        draft({}, 1);
        return out_;
    }

private:
    void draft(const Sequence& drafts, double weight) {
        if (drafts.size() == std::min(window_, length_)) {
            judge(drafts, weight);
            return;
        }
        const Distribution q = q_(drafts);
        for (std::size_t i = 0; i < q.tokens.size(); ++i) {
            draft(extended(drafts, q.tokens[i]), weight * q.probabilities[i]);
        }
    }

    void judge(const Sequence& drafts, double weight) {
        Sequence prefix;
        for (const Token token : drafts) {
            const Distribution q = q_(prefix);
            const Distribution p = p_(prefix);
            const double accept = rule_.accept(q, p, token);
            const Distribution residual = rule_.residual(q, p);
            for (std::size_t i = 0; accept < 1 && i < residual.tokens.size(); ++i) {
                decode(extended(prefix, residual.tokens[i]), weight * (1 - accept) * residual.probabilities[i]);
            }
            weight *= accept;
            prefix.push_back(token);
        }
        decode(prefix, weight);
    }

    void decode(const Sequence& prefix, double weight) {
        if (prefix.size() == length_) {
            out_[prefix] += weight;
            return;
        }
        const Distribution p = p_(prefix);
        for (std::size_t i = 0; i < p.tokens.size(); ++i) {
            decode(extended(prefix, p.tokens[i]), weight * p.probabilities[i]);
        }
    }

    static Sequence extended(Sequence s, Token token) {
        s.push_back(token);
        return s;
    }

    Process q_, p_;
    ExactRule rule_;
    std::size_t window_, length_;
    SequenceDistribution out_;
};

/// Plain decoding with p.
inline SequenceDistribution target_distribution(const Process& p, std::size_t length) {
    return RatioEnumeration(p, p, {}, 0, length).run();
}

inline double total_variation(const SequenceDistribution& a, const SequenceDistribution& b) {
    double sum = 0;
    for (const auto& [sequence, probability] : a) {
        const auto it = b.find(sequence);
        sum += std::abs(probability - (it == b.end() ? 0 : it->second));
    }
    for (const auto& [sequence, probability] : b) {
        sum += a.contains(sequence) ? 0 : probability;
    }
    return sum / 2;
}

}  // namespace lynx::speculate::testing
