// Running a prompt through an engine: the same batches on the prefill node and in the reference run, so that both get the same KV.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "lynx/status.h"

namespace lynx::node {

/// Clears `seq` and computes the prompt's KV in batches of the engine's size; returns the logits [vocabulary] after its last token.
/// `before_batch(tokens_done)` is called before each batch and ends the run with the error it returns.
/// Precondition: the prompt is not empty and fits the engine's context.
[[nodiscard]] Result<std::vector<float>> prefill(engine::Engine& engine, engine::SeqId seq,
                                                 std::span<const engine::Token> prompt,
                                                 const std::function<Status(std::uint32_t tokens_done)>& before_batch);

}  // namespace lynx::node
