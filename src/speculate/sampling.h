// Turning logits into a token: the three acceptance rules share one definition of the target distribution.
//
// Pipeline (fixed): logits / temperature -> top-k -> softmax -> top-p, renormalised; temperature 0 is greedy (ties to the
// lowest id). Sums run in ascending id order in double, so two nodes get the same bits from the same logits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "lynx/status.h"

namespace lynx::speculate {

using engine::Token;

/// How a draft is compared with the better KV's distribution.
enum class Rule : std::uint8_t {
    greedy,   ///< temperature 0: accept iff argmax agrees
    ratio,    ///< arXiv:2607.01831 Eq. 10-11: accept with min(1, p/q), else draw from max(0, p - q) normalised
    coupled,  ///< draft and verification share Gumbel noise keyed by (seed, position); accept iff they agree
};

struct Sampling {
    float temperature = 0;                ///< >= 0; 0 is greedy
    std::uint32_t top_k = 0;              ///< 0: off
    float top_p = 1;                      ///< (0, 1]; 1: off
    std::optional<std::uint64_t> seed;    ///< given: coupled; absent with temperature > 0: ratio
    bool operator==(const Sampling&) const = default;

    [[nodiscard]] Rule rule() const noexcept {
        return temperature == 0 ? Rule::greedy : seed ? Rule::coupled : Rule::ratio;
    }
    /// invalid_argument naming the field and its range.
    [[nodiscard]] Status validate() const;
};

/// A distribution after the pipeline: probabilities of the surviving tokens, ascending by id, sum 1.
struct Distribution {
    std::vector<Token> tokens;
    std::vector<double> probabilities;
    /// 0 for a token that did not survive.
    [[nodiscard]] double of(Token token) const noexcept;
};

[[nodiscard]] Token argmax(std::span<const float> logits) noexcept;
[[nodiscard]] Distribution distribution(std::span<const float> logits, const Sampling& sampling);

/// The token that greedy or coupled decoding puts at `position` given these logits: a pure function, the same in drafting, in
/// verification, on the prefill node and in the reference run. Precondition: rule() != ratio.
[[nodiscard]] Token pick(std::span<const float> logits, const Sampling& sampling, std::uint32_t position);

/// A draw from `distribution` by inverse transform with u in (0, 1).
[[nodiscard]] Token draw(const Distribution& distribution, double u) noexcept;

/// The ratio rule for one draft token: accepted, or the replacement drawn from the residual.
struct RatioOutcome {
    bool accepted = false;
    Token token = 0;
};
[[nodiscard]] RatioOutcome ratio_rule(const Distribution& draft, const Distribution& target, Token drafted, double u_accept,
                                      double u_residual) noexcept;

}  // namespace lynx::speculate
