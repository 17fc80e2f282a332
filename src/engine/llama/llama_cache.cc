#include "engine/llama/llama_cache.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "ggml-backend.h"

namespace lynx::engine {
namespace {

// Positions of a GGML_OP_ROPE node's parameters (ggml_rope_impl).
constexpr std::size_t kRopeDims = 1;
constexpr std::size_t kRopeMode = 2;
constexpr std::size_t kRopeBase = 5;
constexpr std::size_t kRopeScale = 6;
constexpr std::size_t kRopeExtFactor = 7;

float float_param(const ggml_tensor* node, std::size_t index) noexcept {
    float f = 0;
    std::memcpy(&f, &node->op_params[index], sizeof f);
    return f;
}

/// How K was rotated before it was stored. Rotations kv::Rope cannot express (per-frequency factors, YaRN) read as
/// none.
kv::Rope rope_of(const ggml_tensor* key) noexcept {
    const ggml_tensor* node = key;
    while (node->op != GGML_OP_ROPE) {
        const bool passes_through =
            node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE || node->op == GGML_OP_SCALE;
        if (!passes_through || node->src[0] == nullptr) {
            return {};
        }
        node = node->src[0];
    }
    const std::int32_t mode = node->op_params[kRopeMode];
    if (node->src[2] != nullptr || float_param(node, kRopeExtFactor) != 0.0F ||
        (mode != LLAMA_ROPE_TYPE_NORM && mode != LLAMA_ROPE_TYPE_NEOX)) {
        return {};
    }
    return {.dims = static_cast<std::uint32_t>(node->op_params[kRopeDims]),
            .base = float_param(node, kRopeBase),
            .scale = float_param(node, kRopeScale),
            .interleaved = mode == LLAMA_ROPE_TYPE_NORM};
}

bool is_host_f16(const ggml_tensor* t) noexcept {
    return t->type == GGML_TYPE_F16 && t->buffer != nullptr && ggml_backend_buffer_is_host(t->buffer) &&
           t->data != nullptr;
}

}  // namespace

CacheRef find_cache(const ggml_tensor* node) noexcept {
    const ggml_tensor* base = node->view_src != nullptr ? node->view_src : node;
    const std::string_view name = base->name;
    for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
        const std::string_view prefix = kind == kv::Kind::key ? "cache_k_l" : "cache_v_l";
        if (name.starts_with(prefix)) {
            CacheRef ref{.tensor = base, .kind = kind};
            const char* end = name.data() + name.size();
            const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, ref.layer);
            if (error == std::errc() && stop == end && ref.layer < kv::kLayersMax) {
                return ref;
            }
        }
    }
    return {};
}

LayerCache& CacheProbe::at(std::uint32_t layer) {
    if (layer >= layers_.size()) {
        layers_.resize(layer + 1);
    }
    return layers_[layer];
}

void CacheProbe::observe(const ggml_tensor* node) {
    if (node->op == GGML_OP_SET_ROWS) {
        const CacheRef ref = find_cache(node);
        if (ref.tensor == nullptr) {
            return;
        }
        LayerCache& layer = at(ref.layer);
        if (ref.kind == kv::Kind::value) {
            layer.value = ref.tensor;
            return;
        }
        // llama.cpp stores a [D * H, T] view of K, which was [D, H, T].
        const ggml_tensor* stored = node->src[0];
        const ggml_tensor* heads = stored->op == GGML_OP_VIEW && stored->src[0] != nullptr ? stored->src[0] : stored;
        layer.key = ref.tensor;
        layer.cell_indices = node->src[1];
        layer.geometry.key_dim = static_cast<std::uint32_t>(heads->ne[0]);
        layer.geometry.kv_heads = static_cast<std::uint32_t>(heads->ne[1]);
        layer.geometry.rope = rope_of(heads);
        return;
    }
    if (node->view_src != nullptr) {
        return;  // names memory, reads nothing
    }
    for (const ggml_tensor* source : node->src) {
        if (source == nullptr) {
            continue;
        }
        if (const CacheRef ref = find_cache(source); ref.tensor != nullptr && at(ref.layer).key == nullptr) {
            problem_ = "layer " + std::to_string(ref.layer) + " reads its KV before storing K";
        }
    }
}

Result<std::vector<LayerCache>> CacheProbe::finish(std::uint32_t layers, std::uint32_t window) const {
    const auto refuse = [](std::string why) {
        return Status{ErrorCode::invalid_argument, "KV cache: " + std::move(why)};
    };
    if (!problem_.empty()) {
        return refuse(problem_);
    }
    if (layers_.size() != layers) {
        return refuse("expected " + std::to_string(layers) + " layers, found " + std::to_string(layers_.size()));
    }
    std::vector<LayerCache> found = layers_;
    for (std::size_t l = 0; l < found.size(); ++l) {
        LayerCache& layer = found[l];
        const std::string where = "layer " + std::to_string(l);
        if (layer.key == nullptr || layer.value == nullptr) {
            return refuse(where + " has no K and V of its own");
        }
        if (!is_host_f16(layer.key) || !is_host_f16(layer.value)) {
            return refuse(where + " is not f16 in host memory");
        }
        kv::LayerGeometry& g = layer.geometry;
        if (std::int64_t{g.kv_heads} * g.key_dim != layer.key->ne[0] || layer.value->ne[0] % g.kv_heads != 0 ||
            layer.key->ne[1] != found[0].key->ne[1] || layer.value->ne[1] != found[0].key->ne[1] ||
            layer.key->ne[2] != found[0].key->ne[2]) {
            return refuse(where + " has an unexpected shape");
        }
        g.value_dim = static_cast<std::uint32_t>(layer.value->ne[0] / g.kv_heads);
        // A sliding-window model has two sub-caches with an index input each; the full one's is made first, in the
        // same arena.
        layer.sliding = false;
        for (const LayerCache& other : layers_) {
            layer.sliding = layer.sliding || other.cell_indices < layer.cell_indices;
        }
        g.window = layer.sliding ? window : 0;
    }
    return found;
}

kv::Geometry LlamaCache::geometry() const {
    kv::Geometry geometry;
    for (const LayerCache& layer : layers_) {
        geometry.layers.push_back(layer.geometry);
    }
    return geometry;
}

kv::View LlamaCache::view(std::uint32_t stream, std::uint32_t layer, kv::Kind kind) const noexcept {
    const LayerCache& cache = layers_[layer];
    const ggml_tensor* tensor = kind == kv::Kind::key ? cache.key : cache.value;
    kv::View view{.dtype = kv::DType::f16, .tokens = context_tokens_, .channels = cache.geometry.channels(kind)};
    view.data = static_cast<std::byte*>(tensor->data) + stream * tensor->nb[2];
    if (kind == kv::Kind::value && value_transposed_) {
        view.token_stride = 1;
        view.channel_stride = cells();
    } else {
        view.token_stride = tensor->ne[0];
        view.channel_stride = 1;
    }
    return view;
}

void LlamaCache::zero(std::uint32_t stream, std::uint32_t first, std::uint32_t count) const noexcept {
    for (std::uint32_t l = 0; l < layers_.size(); ++l) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const kv::View v = view(stream, l, kind);
            if (v.channel_stride == 1) {
                std::memset(v.at(first, 0), 0, std::size_t{count} * v.channels * kv::dtype_bytes(v.dtype));
                continue;
            }
            for (std::uint32_t c = 0; c < v.channels; ++c) {
                std::memset(v.at(first, c), 0, count * kv::dtype_bytes(v.dtype));
            }
        }
    }
}

}  // namespace lynx::engine
