// How likely the model found a committed token, and what else it found likely. Standard types only.
#pragma once

#include <cstdint>
#include <vector>

namespace lynx {

/// Alternatives that may be asked for, per token.
inline constexpr std::uint32_t kTopLogprobsMax = 20;

struct TokenLogprob {
    std::int32_t token = 0;
    float logprob =
        0;  ///< natural logarithm, of the softmax of the plain logits: before temperature, top-k and top-p; finite
};

struct CommittedLogprobs {
    TokenLogprob chosen;
    std::vector<TokenLogprob> top;  ///< the likeliest, descending; the chosen one may be among them
};

}  // namespace lynx
