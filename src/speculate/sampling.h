// Turning logits into a token: the three acceptance rules share one definition of the target distribution.
//
// Pipeline (fixed): logits / temperature -> top-k -> softmax -> top-p, renormalised; temperature 0 is greedy. Ties, also
// at the borders of top-k and top-p, go to the lowest id. Sums run in ascending id order in double (top-p's running sum: in
// descending probability), so two nodes of the same build get the same bits from the same logits; std::exp and std::log may differ
// between maths libraries, which is why the reference run is defined on the same build.
//
// Broken logits never crash or hang: NaN counts as -inf, +inf as the largest float, and when nothing is left token 0 is certain.
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
    std::optional<std::uint64_t> seed{};  ///< given: coupled; absent with temperature > 0: ratio
    bool operator==(const Sampling&) const = default;

    [[nodiscard]] Rule rule() const noexcept {
        return temperature == 0 ? Rule::greedy : seed ? Rule::coupled : Rule::ratio;
    }
    /// invalid_argument naming the field and its range.
    [[nodiscard]] Status validate() const;
};

/// A distribution after the pipeline: probabilities (> 0) of the surviving tokens, ascending by id, sum 1.
struct Distribution {
    std::vector<Token> tokens;
    std::vector<double> probabilities;
    /// 0 for a token that did not survive.
    [[nodiscard]] double of(Token token) const noexcept;
};

/// The id of the largest logit. Precondition, here and below: logits is not empty.
[[nodiscard]] Token argmax(std::span<const float> logits) noexcept;
/// The pipeline's result; with temperature 0 argmax is certain.
[[nodiscard]] Distribution distribution(std::span<const float> logits, const Sampling& sampling);

/// The token that greedy or coupled decoding puts at `position` given these logits: a pure function, the same in drafting, in
/// verification, on the prefill node and in the reference run. `position` is the one the token will have, not that of the row
/// whose logits these are. Precondition: rule() != ratio.
///
/// Coupled is Gumbel-max in its exponential-race form: the surviving token with the smallest -log(u) / p, which is the one with the
/// largest log p - log(-log u), u = to_unit(keyed_bits(seed, position, token)).
[[nodiscard]] Token pick(std::span<const float> logits, const Sampling& sampling, std::uint32_t position);

/// What plain decoding puts at `position`, whatever the rule: pick(), or for ratio a draw keyed by (ratio_seed, position).
[[nodiscard]] Token sample(std::span<const float> logits, const Sampling& sampling, std::uint32_t position,
                           std::uint64_t ratio_seed);

/// A draw from `distribution` by inverse transform with u in (0, 1).
[[nodiscard]] Token draw(const Distribution& distribution, double u) noexcept;

/// The independent uniforms that the ratio rule uses for one output position; each is used at most once per request.
enum class RatioUse : std::uint8_t { draft, accept, residual, target };
[[nodiscard]] double ratio_uniform(std::uint64_t ratio_seed, std::uint32_t position, RatioUse use) noexcept;

/// min(1, p/q) of a drafted token (Eq. 10). A token that q could not have drawn is accepted iff p could.
[[nodiscard]] double acceptance_probability(const Distribution& draft, const Distribution& target,
                                            Token drafted) noexcept;
/// max(0, p - q), normalised (Eq. 11). When p and q are equal, rejection has probability 0 up to rounding, and p is returned.
[[nodiscard]] Distribution residual_distribution(const Distribution& draft, const Distribution& target);

/// The ratio rule for one draft token: accepted, or the replacement drawn from the residual.
struct RatioOutcome {
    bool accepted = false;
    Token token = 0;
};
[[nodiscard]] RatioOutcome ratio_rule(const Distribution& draft, const Distribution& target, Token drafted,
                                      double u_accept, double u_residual) noexcept;

}  // namespace lynx::speculate
