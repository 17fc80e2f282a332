// The arithmetic of the fake model: weights drawn from a seed, and the computation of one row in one layer.
//
// A pre-norm transformer with rotary positions (pairs i, i + D/2), one query head per KV head, and two additions that
// make every KV element count however small its softmax weight: values are also summed with signs +-1/sqrt(T), and so
// are the scores. An error of 0.01 in any one element of any layer therefore moves the logits (fake_test.cc).
//
// Every function handles one row and nothing else, so a row's result does not depend on what shares its batch.
// Letters: E = H * D channels, T tokens. Non-goals: speed beyond tests, meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace lynx::engine {

/// One sequence's KV of one layer: K as [T, E] rows, V as [E, context] rows (transposed), f16.
struct FakeKv {
    std::uint16_t* key = nullptr;
    std::uint16_t* value = nullptr;
    std::size_t value_stride = 0;  ///< elements from one channel of V to the next
};

/// Weights and row arithmetic. Immutable after construction, except for scratch space: not thread-safe.
class FakeModel {
public:
    explicit FakeModel(const FakeOptions& options);

    [[nodiscard]] std::size_t channels() const noexcept { return channels_; }

    /// hidden [E] = the token's embedding.
    void embed(Token token, std::span<float> hidden) const;
    /// Writes K and V of `position` from hidden [E], and its query to query [E].
    void project(std::uint32_t layer, std::uint32_t position, std::span<const float> hidden, std::span<float> query,
                 const FakeKv& kv);
    /// hidden += attention over positions [0, position] and the feed-forward part.
    void attend(std::uint32_t layer, std::uint32_t position, std::span<const float> query, const FakeKv& kv,
                std::span<float> hidden);
    /// logits [vocabulary] of a row that has passed all layers.
    void unembed(std::span<const float> hidden, std::span<float> logits);

private:
    struct Layer {
        std::vector<float> query, key, value, output;  ///< [E, E]
        std::vector<float> score_sum;                  ///< [H, E]
        std::vector<float> up, down;                   ///< [2E, E], [E, 2E]
    };
    void rotate(std::uint32_t position, std::span<float> row) const;

    std::size_t heads_;
    std::size_t head_dim_;
    std::size_t channels_;
    std::vector<float> embedding_;    // [vocabulary, E]
    std::vector<float> unembedding_;  // [vocabulary, E]
    std::vector<Layer> layers_;
    std::vector<float> cos_, sin_;  // [context, D/2]
    std::vector<float> sign_;       // [context], +-1
    std::vector<float> normed_, mixed_, wide_, weights_;
};

}  // namespace lynx::engine
