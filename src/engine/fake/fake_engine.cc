// The fake engine: contract bookkeeping and KV memory around FakeModel.
//
// Tokens: a byte b becomes (b - 32) mod N, and token t reads back as the printable byte 32 + t mod 95, where N is the
// vocabulary without its end token. The last id is the end token when the vocabulary is larger than
// kVocabularyWithoutEnd, so a tiny one can be enumerated.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/rng.h"
#include "base/try.h"
#include "engine/engine.h"
#include "engine/fake/fake_model.h"
#include "engine/sequences.h"

namespace lynx::engine {
namespace {

constexpr std::uint32_t kVocabularyWithoutEnd = 8;
constexpr std::uint32_t kFirstPrintable = 32;
constexpr std::uint32_t kPrintables = 95;
constexpr float kRopeBase = 10000.0F;

ModelInfo describe(const FakeOptions& options) {
    ModelInfo info;
    info.name = "fake";
    // Weights and KV layout follow from these fields alone; context, sequences and batch are the node's own business.
    const std::uint64_t shape =
        base::keyed_bits(options.vocabulary, options.layers, std::uint64_t{options.kv_heads} << 32 | options.head_dim);
    for (std::uint64_t half = 0; half < 2; ++half) {
        const std::uint64_t bits = base::keyed_bits(options.seed, shape, half);
        std::memcpy(info.fingerprint.data() + 8 * half, &bits, 8);
    }
    kv::LayerGeometry layer;
    layer.kv_heads = options.kv_heads;
    layer.key_dim = options.head_dim;
    layer.value_dim = options.head_dim;
    layer.rope = {.dims = options.head_dim, .base = kRopeBase, .scale = 1, .interleaved = false};
    info.geometry.layers.assign(options.layers, layer);
    info.vocabulary = options.vocabulary;
    info.context_tokens = options.context_tokens;
    info.sequences = options.sequences;
    info.batch_tokens_max = options.batch_tokens;
    if (options.vocabulary > kVocabularyWithoutEnd) {
        info.end_tokens.push_back(static_cast<Token>(options.vocabulary - 1));
    }
    return info;
}

class FakeEngine final : public Engine {
public:
    explicit FakeEngine(const FakeOptions& options)
        : info_(describe(options)),
          model_(options),
          sequences_({.sequences = options.sequences,
                      .context_tokens = options.context_tokens,
                      .batch_tokens = options.batch_tokens,
                      .vocabulary = options.vocabulary}),
          half_size_(std::size_t{options.context_tokens} * model_.channels()),
          memory_(std::size_t{options.sequences} * options.layers * 2 * half_size_),
          hidden_(std::size_t{options.batch_tokens} * model_.channels()),
          query_(hidden_.size()) {}

    [[nodiscard]] const ModelInfo& info() const noexcept override { return info_; }

    [[nodiscard]] Status reserve(SeqId seq, std::uint32_t tokens) override {
        LYNX_TRY(sequences_.check_reserve(seq, tokens));
        const std::size_t size = info_.geometry.layers.size() * 2 * half_size_;
        std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(seq) * size), size,
                    std::uint16_t{0});
        sequences_.set_length(seq, tokens);
        return {};
    }

    [[nodiscard]] Result<kv::View> kv_view(SeqId seq, std::uint32_t layer, kv::Kind kind) override {
        LYNX_TRY(sequences_.check_sequence(seq));
        if (layer >= info_.geometry.layers.size() || kind == kv::Kind::latent) {
            return Status{ErrorCode::invalid_argument,
                          "kv_view: no such layer or kind: layer " + std::to_string(layer)};
        }
        const FakeKv kv = cells(seq, layer);
        const auto channels = static_cast<std::uint32_t>(model_.channels());
        kv::View view{.dtype = kv::DType::f16, .tokens = info_.context_tokens, .channels = channels};
        if (kind == kv::Kind::key) {
            view.data = reinterpret_cast<std::byte*>(kv.key);
            view.token_stride = static_cast<std::ptrdiff_t>(channels);
            view.channel_stride = 1;
        } else {
            view.data = reinterpret_cast<std::byte*>(kv.value);
            view.token_stride = 1;
            view.channel_stride = static_cast<std::ptrdiff_t>(kv.value_stride);
        }
        return view;
    }

    [[nodiscard]] Status step(std::span<const Row> rows, LayerGate* gate) override {
        LYNX_TRY(sequences_.check_rows(rows));
        for (std::size_t i = 0; i < rows.size(); ++i) {
            model_.embed(rows[i].token, slice(hidden_, i));
        }
        for (std::uint32_t l = 0; l < info_.geometry.layers.size(); ++l) {
            if (gate != nullptr) {
                LYNX_TRY(gate->wait(l));
            }
            for (std::size_t i = 0; i < rows.size(); ++i) {
                model_.project(l, rows[i].position, slice(hidden_, i), slice(query_, i), cells(rows[i].seq, l));
            }
            for (std::size_t i = 0; i < rows.size(); ++i) {
                model_.attend(l, rows[i].position, slice(query_, i), cells(rows[i].seq, l), slice(hidden_, i));
            }
        }
        logits_.assign(rows.size(), {});
        for (std::size_t i = 0; i < rows.size(); ++i) {
            if (rows[i].logits) {
                logits_[i].resize(info_.vocabulary);
                model_.unembed(slice(hidden_, i), logits_[i]);
            }
        }
        sequences_.append(rows);
        return {};
    }

    [[nodiscard]] std::span<const float> logits(std::size_t row) const override {
        LYNX_CHECK(row < logits_.size() && !logits_[row].empty());
        return logits_[row];
    }

    [[nodiscard]] Status truncate(SeqId seq, std::uint32_t tokens) override {
        LYNX_TRY(sequences_.check_truncate(seq, tokens));
        sequences_.set_length(seq, tokens);
        return {};
    }

    [[nodiscard]] Status clear(SeqId seq) override { return truncate(seq, 0); }

    [[nodiscard]] Result<std::vector<Token>> tokenize(std::string_view text, bool /*parse_special*/) const override {
        std::vector<Token> tokens;
        tokens.reserve(text.size());
        for (const char c : text) {
            const std::uint32_t shifted = static_cast<unsigned char>(c) + 256U - kFirstPrintable;
            tokens.push_back(static_cast<Token>(shifted % 256U % ordinary_tokens()));
        }
        return tokens;
    }

    [[nodiscard]] std::string piece(Token token) const override {
        if (token < 0 || static_cast<std::uint32_t>(token) >= ordinary_tokens()) {
            return {};
        }
        return {static_cast<char>(kFirstPrintable + static_cast<std::uint32_t>(token) % kPrintables)};
    }

    [[nodiscard]] Result<std::string> chat_prompt(std::span<const ChatMessage> messages) const override {
        std::string prompt;
        for (const ChatMessage& message : messages) {
            prompt.append(message.role).append(": ").append(message.content).append("\n");
        }
        return prompt + "assistant: ";
    }

private:
    [[nodiscard]] std::uint32_t ordinary_tokens() const noexcept {
        return info_.vocabulary - static_cast<std::uint32_t>(info_.end_tokens.size());
    }

    [[nodiscard]] FakeKv cells(SeqId seq, std::uint32_t layer) noexcept {
        const std::size_t index = static_cast<std::size_t>(seq) * info_.geometry.layers.size() + layer;
        std::uint16_t* key = memory_.data() + 2 * index * half_size_;
        return {.key = key, .value = key + half_size_, .value_stride = info_.context_tokens};
    }

    [[nodiscard]] std::span<float> slice(std::vector<float>& rows, std::size_t i) const noexcept {
        return std::span(rows).subspan(i * model_.channels(), model_.channels());
    }

    ModelInfo info_;
    FakeModel model_;
    Sequences sequences_;
    std::size_t half_size_;              // elements of one layer's K (or V) of one sequence
    std::vector<std::uint16_t> memory_;  // [sequence, layer, K|V, half_size_]
    std::vector<float> hidden_, query_;  // [batch, E]
    std::vector<std::vector<float>> logits_;
};

}  // namespace

std::unique_ptr<Engine> make_fake(const FakeOptions& options) {
    LYNX_CHECK(options.vocabulary > 1 && options.layers > 0 && options.kv_heads > 0 && options.sequences > 0);
    LYNX_CHECK(options.head_dim >= 2 && options.head_dim % 2 == 0 && options.context_tokens > 0 &&
               options.batch_tokens > 0);
    return std::make_unique<FakeEngine>(options);
}

}  // namespace lynx::engine
