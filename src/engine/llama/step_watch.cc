#include "engine/llama/step_watch.h"

#include <algorithm>
#include <string>

#include "ggml-backend.h"

namespace lynx::engine {

StepWatch::StepWatch(const LlamaCache& cache, std::uint32_t sequences)
    : cache_(cache), first_(sequences), rows_(sequences), stored_(cache.layers().size() * sequences) {}

void StepWatch::begin(std::span<const Row> rows, const Sequences& lengths, LayerGate* gate) {
    std::fill(rows_.begin(), rows_.end(), 0);
    std::fill(stored_.begin(), stored_.end(), 0);
    for (std::size_t s = 0; s < first_.size(); ++s) {
        first_[s] = lengths.length(static_cast<SeqId>(s));
    }
    for (const Row& row : rows) {
        ++rows_[static_cast<std::size_t>(row.seq)];
    }
    gate_ = gate;
    next_gate_ = 0;
    status_ = {};
}

bool StepWatch::on_node(const ggml_tensor* node, bool ask) {
    if (failed()) {
        return ask;  // stop at the next node, then end
    }
    if (node->op != GGML_OP_SET_ROWS) {
        return !ask;
    }
    const CacheRef ref = find_cache(node);
    if (ref.tensor == nullptr || ref.kind != kv::Kind::key) {
        return !ask;
    }
    // A layer stores its new K before it reads any KV (CacheProbe saw to that), so here is the last moment to wait. A
    // step that llama.cpp cuts into several parts passes each layer more than once; the gate opens in the first part.
    if (ask) {
        check_cells(node, ref.layer);
        return failed() || (gate_ != nullptr && ref.layer == next_gate_);
    }
    status_ = gate_->wait(next_gate_++);
    return status_.ok();
}

void StepWatch::check_cells(const ggml_tensor* store, std::uint32_t layer) {
    const ggml_tensor* indices = store->src[1];
    const auto fail = [&](const std::string& what) {
        status_ = {ErrorCode::corrupt, "KV cache: layer " + std::to_string(layer) + ": " + what};
    };
    if (indices->type != GGML_TYPE_I64 || indices->buffer == nullptr || !ggml_backend_buffer_is_host(indices->buffer)) {
        return fail("cell indices are not readable");
    }
    const auto* cells = static_cast<const std::int64_t*>(indices->data);
    for (std::int64_t i = 0; i < indices->ne[0]; ++i) {
        const auto stream = static_cast<std::size_t>(cells[i] / cache_.cells());
        const std::int64_t cell = cells[i] % cache_.cells();
        if (cells[i] < 0 || stream >= first_.size()) {
            return fail("a token went to stream " + std::to_string(stream));
        }
        const std::int64_t position = std::int64_t{first_[stream]} + stored_[layer * first_.size() + stream]++;
        if (cell != position) {
            return fail("position " + std::to_string(position) + " of sequence " + std::to_string(stream) +
                        " went to cell " + std::to_string(cell));
        }
    }
}

Status StepWatch::finish() {
    gate_ = nullptr;
    for (std::size_t i = 0; status_.ok() && i < stored_.size(); ++i) {
        if (stored_[i] != rows_[i % rows_.size()]) {
            status_ = {ErrorCode::corrupt, "KV cache: layer " + std::to_string(i / rows_.size()) + " stored " +
                                               std::to_string(stored_[i]) + " tokens of " +
                                               std::to_string(rows_[i % rows_.size()])};
        }
    }
    return status_;
}

}  // namespace lynx::engine
