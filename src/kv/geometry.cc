#include "kv/geometry.h"

#include <string>

namespace lynx::kv {

std::size_t Geometry::token_elements() const noexcept {
    std::size_t n = 0;
    for (const LayerGeometry& layer : layers) {
        n += layer.channels(Kind::key) + layer.channels(Kind::value);
    }
    return n;
}

std::size_t Geometry::token_bytes() const noexcept {
    std::size_t n = 0;
    for (const LayerGeometry& layer : layers) {
        n += dtype_bytes(layer.dtype) * (layer.channels(Kind::key) + layer.channels(Kind::value));
    }
    return n;
}

Status Geometry::validate() const {
    if (layers.empty() || layers.size() > kLayersMax) {
        return {ErrorCode::limit_exceeded, "geometry: layers: expected 1.." + std::to_string(kLayersMax) + ", actual " +
                                               std::to_string(layers.size())};
    }
    for (std::size_t l = 0; l < layers.size(); ++l) {
        const LayerGeometry& g = layers[l];
        const std::uint64_t k = std::uint64_t{g.kv_heads} * g.key_dim;
        const std::uint64_t v = std::uint64_t{g.kv_heads} * g.value_dim;
        if (k == 0 || v == 0 || k > kChannelsMax || v > kChannelsMax || g.dtype > DType::f32) {
            return {ErrorCode::limit_exceeded, "geometry: layer " + std::to_string(l) + ": channels K " +
                                                   std::to_string(k) + ", V " + std::to_string(v) + ", expected 1.." +
                                                   std::to_string(kChannelsMax)};
        }
    }
    return {};
}

}  // namespace lynx::kv
