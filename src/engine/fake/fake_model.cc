#include "engine/fake/fake_model.h"

#include <algorithm>
#include <cmath>

#include "base/half.h"
#include "base/rng.h"

namespace lynx::engine {
namespace {

constexpr std::size_t kLanes = 8;  // partial sums of every dot product, so that it vectorises with a fixed order
constexpr float kKeyGain = 2.0F;
constexpr float kOutlierGain = 4.0F;  // on every kOutlierEvery-th K channel: real keys have such channels
constexpr std::size_t kOutlierEvery = 13;
constexpr float kSignedSumGain = 0.35F;
constexpr float kLogitGain = 2.5F;
constexpr float kRopeBase = 10000.0F;

template <class A, class Load>
float dot(const A* a, const float* b, std::size_t n, Load load) {
    float lanes[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (std::size_t j = 0; j < kLanes; ++j) {
            lanes[j] += load(a[i + j]) * b[i + j];
        }
    }
    for (; i < n; ++i) {
        lanes[0] += load(a[i]) * b[i];
    }
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

float dot(const float* a, const float* b, std::size_t n) {
    return dot(a, b, n, [](float x) { return x; });
}

float dot_half(const std::uint16_t* a, const float* b, std::size_t n) {
    return dot(a, b, n, [](std::uint16_t h) { return base::f16_to_f32(h); });
}

/// out [R] = matrix [R, C] * in [C].
void multiply(std::span<const float> matrix, std::span<const float> in, std::span<float> out) {
    for (std::size_t r = 0; r < out.size(); ++r) {
        out[r] = dot(matrix.data() + r * in.size(), in.data(), in.size());
    }
}

void rms_norm(std::span<const float> in, std::span<float> out) {
    const float mean_square = dot(in.data(), in.data(), in.size()) / static_cast<float>(in.size());
    const float scale = 1.0F / std::sqrt(mean_square + 1e-6F);
    for (std::size_t i = 0; i < in.size(); ++i) {
        out[i] = in[i] * scale;
    }
}

/// n values uniform in +-gain * sqrt(3 / fan_in): unit variance in gives variance gain^2 out.
std::vector<float> random_matrix(base::Rng& rng, std::size_t n, std::size_t fan_in, float gain) {
    std::vector<float> m(n);
    const double bound = static_cast<double>(gain) * std::sqrt(3.0 / static_cast<double>(fan_in));
    for (float& x : m) {
        x = static_cast<float>((2.0 * rng.unit() - 1.0) * bound);
    }
    return m;
}

}  // namespace

FakeModel::FakeModel(const FakeOptions& options)
    : heads_(options.kv_heads),
      head_dim_(options.head_dim),
      channels_(heads_ * head_dim_),
      normed_(channels_),
      mixed_(channels_),
      wide_(2 * channels_),
      weights_(options.context_tokens) {
    base::Rng rng(options.seed);
    const std::size_t e = channels_;
    embedding_ = random_matrix(rng, options.vocabulary * e, 1, 1.0F);
    unembedding_ = random_matrix(rng, options.vocabulary * e, e, kLogitGain);
    for (std::uint32_t l = 0; l < options.layers; ++l) {
        Layer layer;
        layer.query = random_matrix(rng, e * e, e, 1.0F);
        layer.key = random_matrix(rng, e * e, e, kKeyGain);
        layer.value = random_matrix(rng, e * e, e, 1.0F);
        layer.output = random_matrix(rng, e * e, e, 1.0F);
        layer.score_sum = random_matrix(rng, heads_ * e, 1, kSignedSumGain);
        layer.up = random_matrix(rng, 2 * e * e, e, 1.0F);
        layer.down = random_matrix(rng, 2 * e * e, 2 * e, 1.0F);
        for (std::size_t c = 5; c < e; c += kOutlierEvery) {
            std::for_each_n(layer.key.begin() + static_cast<std::ptrdiff_t>(c * e), e,
                            [](float& x) { x *= kOutlierGain; });
        }
        layers_.push_back(std::move(layer));
    }
    const std::size_t pairs = head_dim_ / 2;
    for (std::uint32_t t = 0; t < options.context_tokens; ++t) {
        for (std::size_t i = 0; i < pairs; ++i) {
            const double frequency =
                std::pow(static_cast<double>(kRopeBase), -static_cast<double>(i) / static_cast<double>(pairs));
            cos_.push_back(static_cast<float>(std::cos(t * frequency)));
            sin_.push_back(static_cast<float>(std::sin(t * frequency)));
        }
        sign_.push_back((base::keyed_bits(options.seed, 1, t) & 1U) != 0 ? 1.0F : -1.0F);
    }
}

void FakeModel::embed(Token token, std::span<float> hidden) const {
    std::copy_n(embedding_.begin() + static_cast<std::ptrdiff_t>(token) * static_cast<std::ptrdiff_t>(channels_),
                channels_, hidden.begin());
}

void FakeModel::rotate(std::uint32_t position, std::span<float> row) const {
    const std::size_t pairs = head_dim_ / 2;
    const float* cosine = cos_.data() + position * pairs;
    const float* sine = sin_.data() + position * pairs;
    for (std::size_t h = 0; h < heads_; ++h) {
        float* head = row.data() + h * head_dim_;
        for (std::size_t i = 0; i < pairs; ++i) {
            const float a = head[i];
            const float b = head[i + pairs];
            head[i] = a * cosine[i] - b * sine[i];
            head[i + pairs] = a * sine[i] + b * cosine[i];
        }
    }
}

void FakeModel::project(std::uint32_t layer, std::uint32_t position, std::span<const float> hidden,
                        std::span<float> query, const FakeKv& kv) {
    const Layer& w = layers_[layer];
    rms_norm(hidden, normed_);
    multiply(w.query, normed_, query);
    rotate(position, query);
    multiply(w.key, normed_, mixed_);
    rotate(position, mixed_);
    for (std::size_t c = 0; c < channels_; ++c) {
        kv.key[position * channels_ + c] = base::f32_to_f16(mixed_[c]);
    }
    multiply(w.value, normed_, mixed_);
    for (std::size_t c = 0; c < channels_; ++c) {
        kv.value[c * kv.value_stride + position] = base::f32_to_f16(mixed_[c]);
    }
}

void FakeModel::attend(std::uint32_t layer, std::uint32_t position, std::span<const float> query, const FakeKv& kv,
                       std::span<float> hidden) {
    const Layer& w = layers_[layer];
    const std::size_t tokens = std::size_t{position} + 1;
    const float signed_scale = 1.0F / std::sqrt(static_cast<float>(tokens));
    const float score_scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
    for (std::size_t h = 0; h < heads_; ++h) {
        float top = -INFINITY;
        for (std::size_t t = 0; t < tokens; ++t) {
            const std::uint16_t* key = kv.key + t * channels_ + h * head_dim_;
            weights_[t] = dot_half(key, query.data() + h * head_dim_, head_dim_) * score_scale;
            top = std::max(top, weights_[t]);
        }
        const float score_sum = dot(weights_.data(), sign_.data(), tokens) * signed_scale;
        float total = 0;
        for (std::size_t t = 0; t < tokens; ++t) {
            weights_[t] = std::exp(weights_[t] - top);
            total += weights_[t];
        }
        for (std::size_t t = 0; t < tokens; ++t) {
            weights_[t] = weights_[t] / total + kSignedSumGain * signed_scale * sign_[t];
        }
        for (std::size_t c = h * head_dim_; c < (h + 1) * head_dim_; ++c) {
            mixed_[c] = dot_half(kv.value + c * kv.value_stride, weights_.data(), tokens);
        }
        for (std::size_t c = 0; c < channels_; ++c) {
            hidden[c] += score_sum * w.score_sum[h * channels_ + c];
        }
    }
    for (std::size_t c = 0; c < channels_; ++c) {
        hidden[c] += dot(w.output.data() + c * channels_, mixed_.data(), channels_);
    }
    rms_norm(hidden, normed_);
    multiply(w.up, normed_, wide_);
    for (float& x : wide_) {
        x = std::max(x, 0.0F);
    }
    for (std::size_t c = 0; c < channels_; ++c) {
        hidden[c] += dot(w.down.data() + c * wide_.size(), wide_.data(), wide_.size());
    }
}

void FakeModel::unembed(std::span<const float> hidden, std::span<float> logits) {
    rms_norm(hidden, normed_);
    multiply(unembedding_, normed_, logits);
}

}  // namespace lynx::engine
