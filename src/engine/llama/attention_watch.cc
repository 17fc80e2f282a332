#include "engine/llama/attention_watch.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "ggml-backend.h"

namespace lynx::engine {
namespace {

constexpr std::string_view kQueryName = "Qcur-";
constexpr std::string_view kBlockName = "blk.";
constexpr std::string_view kProjectionName = ".attn_output.weight";

/// The layer in `prefix` N `suffix`.
std::optional<std::uint32_t> layer_in(std::string_view name, std::string_view prefix, std::string_view suffix) {
    if (!name.starts_with(prefix) || !name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size()) {
        return std::nullopt;
    }
    const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    std::uint32_t layer = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    if (error != std::errc{} || end != digits.data() + digits.size()) {
        return std::nullopt;
    }
    return layer;
}

bool readable(const ggml_tensor* t) { return t->buffer != nullptr && ggml_backend_buffer_is_host(t->buffer); }

}  // namespace

bool AttentionWatch::on_node(const ggml_tensor* node, bool ask) {
    if (ask && node->op == GGML_OP_MUL_MAT) {
        const std::optional<std::uint32_t> layer = layer_in(node->src[0]->name, kBlockName, kProjectionName);
        if (layer && *layer < layers_.size() && readable(node->src[0])) {
            add_projection(node->src[0], *layer);
        }
    }
    if (node->op != GGML_OP_ROPE || node->type != GGML_TYPE_F32) {
        return false;
    }
    const std::optional<std::uint32_t> layer = layer_in(node->name, kQueryName, "");
    if (!layer || *layer >= layers_.size() || !readable(node)) {
        return false;
    }
    if (!ask) {
        add_queries(node, *layer);
    }
    return true;
}

void AttentionWatch::add_queries(const ggml_tensor* queries, std::uint32_t layer) {
    const kv::LayerGeometry& g = geometry_.layers[layer];
    const auto heads = static_cast<std::uint32_t>(queries->ne[1]);
    if (queries->ne[0] != g.key_dim || heads % g.kv_heads != 0 || queries->nb[0] != sizeof(float)) {
        return;
    }
    Layer& sums = layers_[layer];
    sums.sums.query_energy.resize(std::size_t{g.kv_heads} * g.key_dim);
    for (std::int64_t t = 0; t < queries->ne[2]; ++t) {
        for (std::uint32_t h = 0; h < heads; ++h) {
            const auto* q =
                reinterpret_cast<const float*>(static_cast<const char*>(queries->data) +
                                               static_cast<std::size_t>(t) * queries->nb[2] + h * queries->nb[1]);
            double* energy = sums.sums.query_energy.data() + std::size_t{h / (heads / g.kv_heads)} * g.key_dim;
            for (std::uint32_t i = 0; i < g.key_dim; ++i) {
                energy[i] += static_cast<double>(q[i]) * static_cast<double>(q[i]);
            }
        }
    }
    sums.queries += static_cast<std::uint64_t>(queries->ne[2]) * (heads / g.kv_heads);
}

void AttentionWatch::add_projection(const ggml_tensor* weight, std::uint32_t layer) {
    const kv::LayerGeometry& g = geometry_.layers[layer];
    std::vector<double>& metric = layers_[layer].sums.output_metric;
    const auto inputs = static_cast<std::uint32_t>(weight->ne[0]);
    const ggml_to_float_t to_float = ggml_get_type_traits(weight->type)->to_float;
    const std::uint32_t group = g.kv_heads * g.value_dim;
    if (!metric.empty() || inputs % group != 0 || (to_float == nullptr && weight->type != GGML_TYPE_F32)) {
        return;
    }
    metric.resize(std::size_t{g.kv_heads} * g.value_dim * g.value_dim);
    std::vector<float> row(inputs);
    for (std::int64_t r = 0; r < weight->ne[1]; ++r) {
        const char* packed = static_cast<const char*>(weight->data) + static_cast<std::size_t>(r) * weight->nb[1];
        if (to_float == nullptr) {
            std::copy_n(reinterpret_cast<const float*>(packed), inputs, row.begin());
        } else {
            to_float(packed, row.data(), inputs);
        }
        for (std::uint32_t h = 0; h < inputs / g.value_dim; ++h) {
            const float* w = row.data() + std::size_t{h} * g.value_dim;
            double* m = metric.data() + std::size_t{h / (inputs / group)} * g.value_dim * g.value_dim;
            for (std::uint32_t a = 0; a < g.value_dim; ++a) {
                for (std::uint32_t b = 0; b < g.value_dim; ++b) {
                    m[std::size_t{a} * g.value_dim + b] += static_cast<double>(w[a]) * static_cast<double>(w[b]);
                }
            }
        }
    }
}

std::vector<AttentionWeights> AttentionWatch::weights() const {
    std::vector<AttentionWeights> all;
    for (const Layer& layer : layers_) {
        all.push_back(layer.sums);
        for (double& energy : all.back().query_energy) {
            energy /= static_cast<double>(layer.queries);
        }
    }
    return all;
}

}  // namespace lynx::engine
