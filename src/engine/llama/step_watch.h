// What happens inside a step while llama.cpp computes it: the layer gate, and the check that every token's KV goes to
// the cell its position names.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/llama/llama_cache.h"
#include "engine/sequences.h"

namespace lynx::engine {

/// Driven by llama.cpp's evaluation callback, on the inference thread.
class StepWatch {
public:
    StepWatch(const LlamaCache& cache, std::uint32_t sequences);

    /// `lengths` before the step; rows must have passed check_rows.
    void begin(std::span<const Row> rows, const Sequences& lengths, LayerGate* gate);

    /// ggml_backend_sched_eval_callback: with `ask`, whether `node` should be the last one computed before the next
    /// call without `ask`; otherwise, whether to go on.
    [[nodiscard]] bool on_node(const ggml_tensor* node, bool ask);

    /// True once the step must end.
    [[nodiscard]] bool failed() const noexcept { return !status_.ok(); }

    /// After the step: the gate's error; or corrupt when a token was not stored in its own cell.
    [[nodiscard]] Status finish();

private:
    void check_cells(const ggml_tensor* store, std::uint32_t layer);

    const LlamaCache& cache_;
    std::vector<std::uint32_t> first_;   // [sequence]: its length before the step
    std::vector<std::uint32_t> rows_;    // [sequence]: its rows in the step
    std::vector<std::uint32_t> stored_;  // [layer, sequence]: rows stored so far
    LayerGate* gate_ = nullptr;
    std::uint32_t next_gate_ = 0;
    Status status_;
};

}  // namespace lynx::engine
