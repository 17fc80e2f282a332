// A text's KV for the benchmarks that need no nodes.
#pragma once

#include <cstdint>
#include <string>

#include "bench/reference.h"

namespace lynx::bench {

/// The first `tokens_max` (0: all) tokens of the text. invalid_argument: no text.
[[nodiscard]] Result<std::vector<engine::Token>> tokenize_text(const engine::Engine& engine, const std::string& text,
                                                               std::uint32_t tokens_max);

/// The first `tokens` of a prompt and their KV, without logits. Precondition: the prompt has them.
[[nodiscard]] PromptKv prefix_of(const PromptKv& kv, std::uint32_t tokens);

/// Puts the KV as it is, bit for bit, into sequence 0.
[[nodiscard]] Status load_original(engine::Engine& engine, const PromptKv& kv);

}  // namespace lynx::bench
