// Log probabilities of one row of logits, for clients that ask for them. Never part of choosing a token.
#pragma once

#include <cstdint>
#include <span>

#include "lynx/logprobs.h"
#include "speculate/sampling.h"

namespace lynx::speculate {

/// What stands for a probability of zero: the API's own number, for JSON has no infinity.
inline constexpr float kLogprobMin = -9999;

/// Of `chosen` and the `top` likeliest tokens; ties go to the lowest id. Broken logits count as in sampling.h. Precondition: logits hold `chosen`.
[[nodiscard]] CommittedLogprobs logprobs_of(std::span<const float> logits, Token chosen, std::uint32_t top);

}  // namespace lynx::speculate
