// What errors in the KV cost, seen from inside llama.cpp's steps: the energy of the queries and the output projections. Only
// calibration asks for it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "ggml.h"

namespace lynx::engine {

/// Driven by llama.cpp's evaluation callback. Names of nodes and weights are llama.cpp's own ("Qcur-7",
/// "blk.7.attn_output.weight"); a model that has others gives empty weights.
class AttentionWatch {
public:
    explicit AttentionWatch(const kv::Geometry& geometry) : geometry_(geometry), layers_(geometry.layers.size()) {}

    /// Whether `node` must be computed and shown again with ask = false.
    [[nodiscard]] bool on_node(const ggml_tensor* node, bool ask);

    /// Means over all tokens seen so far.
    [[nodiscard]] std::vector<AttentionWeights> weights() const;

private:
    void add_queries(const ggml_tensor* queries, std::uint32_t layer);
    void add_projection(const ggml_tensor* weight, std::uint32_t layer);

    struct Layer {
        AttentionWeights sums;
        std::uint64_t queries = 0;  // token and head pairs per KV head
    };
    const kv::Geometry& geometry_;
    std::vector<Layer> layers_;
};

}  // namespace lynx::engine
