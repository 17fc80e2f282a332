// Opens the engine a ModelConfig names, and the pieces of the handshake that follow from it.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "lynx/node.h"
#include "lynx/status.h"
#include "wire/message.h"

namespace lynx::node {

/// `exact`: a decode node; otherwise a prefill node, which may use faster kernels.
[[nodiscard]] Result<std::unique_ptr<engine::Engine>> open_engine(const ModelConfig& config, bool exact);

/// invalid_argument: an empty prompt, no output wanted, or more of both than the context holds.
[[nodiscard]] Status check_context(std::size_t prompt_tokens, std::uint32_t output_tokens,
                                   std::uint32_t context_tokens);

[[nodiscard]] wire::Hello hello_of(const engine::ModelInfo& info, wire::Role role);

}  // namespace lynx::node
