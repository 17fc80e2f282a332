// llama.cpp's KV cache as plain memory: which tensors hold which layer, and how to address one sequence in them.
//
// llama.cpp has no call that hands these tensors out, so a CacheProbe watches the graph of one warm-up step and
// collects what it needs from the nodes that store K and V (SET_ROWS into `cache_k_lN` / `cache_v_lN`): memory, head
// count, rotary parameters.
//
// Layout: a cache tensor is [channels, cells, streams]; with one stream per sequence, cell index = position. K rows
// are cells. V is the same, or transposed ([cells, channels, streams]) when flash attention is off.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/llama/llama_handles.h"
#include "kv/geometry.h"
#include "kv/view.h"

namespace lynx::engine {

/// A cache tensor's place: layer and kind, or nothing when a tensor is no KV cache. Follows views to their base.
struct CacheRef {
    const ggml_tensor* tensor = nullptr;
    std::uint32_t layer = 0;
    kv::Kind kind = kv::Kind::key;
};
[[nodiscard]] CacheRef find_cache(const ggml_tensor* node) noexcept;

struct LayerCache {
    const ggml_tensor* key = nullptr;
    const ggml_tensor* value = nullptr;
    const ggml_tensor* cell_indices =
        nullptr;           ///< the input that says where K goes: one per sub-cache (sliding window or full)
    bool sliding = false;  ///< in the second sub-cache of a sliding-window model
    kv::LayerGeometry geometry;
};

/// Watches one step's graph (as an evaluation callback that asks for no node).
class CacheProbe {
public:
    void observe(const ggml_tensor* node);

    /// All layers, checked; invalid_argument naming what is not a plain f16 K and V cache in host memory.
    [[nodiscard]] Result<std::vector<LayerCache>> finish(std::uint32_t layers, std::uint32_t window) const;

private:
    LayerCache& at(std::uint32_t layer);
    std::vector<LayerCache> layers_;
    std::string problem_;
};

/// Addresses the cache of a loaded context. Cheap to use, thread-safe, owns nothing.
class LlamaCache {
public:
    LlamaCache() = default;
    LlamaCache(std::vector<LayerCache> layers, bool value_transposed, std::uint32_t context_tokens)
        : layers_(std::move(layers)), value_transposed_(value_transposed), context_tokens_(context_tokens) {}

    [[nodiscard]] const std::vector<LayerCache>& layers() const noexcept { return layers_; }
    [[nodiscard]] bool value_transposed() const noexcept { return value_transposed_; }
    /// Cells per stream, at least the context.
    [[nodiscard]] std::uint32_t cells() const noexcept { return static_cast<std::uint32_t>(layers_[0].key->ne[1]); }
    [[nodiscard]] std::uint32_t streams() const noexcept { return static_cast<std::uint32_t>(layers_[0].key->ne[2]); }
    [[nodiscard]] kv::Geometry geometry() const;

    /// Precondition: stream, layer and kind (key or value) exist.
    [[nodiscard]] kv::View view(std::uint32_t stream, std::uint32_t layer, kv::Kind kind) const noexcept;

    /// Zeroes positions [first, first + count) of one stream in every layer. Attention multiplies masked cells by
    /// zero, so an infinity or NaN that a peer sent must not stay behind in cells that are given up.
    void zero(std::uint32_t stream, std::uint32_t first, std::uint32_t count) const noexcept;

private:
    std::vector<LayerCache> layers_;
    bool value_transposed_ = false;
    std::uint32_t context_tokens_ = 0;
};

}  // namespace lynx::engine
