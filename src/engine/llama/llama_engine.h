// The engine contract on llama.cpp. Built by load_llama (llama_load.cc), which also decides what may be loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/llama/attention_watch.h"
#include "engine/llama/llama_cache.h"
#include "engine/llama/llama_handles.h"
#include "engine/llama/step_watch.h"
#include "engine/sequences.h"

namespace lynx::engine {

class LlamaEngine final : public Engine {
public:
    /// `info` lacks what only the loaded model knows; start() completes it.
    LlamaEngine(ModelInfo info, ModelHandle model, const LlamaOptions& options);
    ~LlamaEngine() override;

    /// Creates the context, finds the cache by a one-token step, and checks that llama.cpp's state format is the one
    /// we write. Call once, before anything else. limit_exceeded: no memory for the context; invalid_argument: not a
    /// plain KV cache; unsupported_version: a llama.cpp with another state format.
    [[nodiscard]] Status start();

    /// Compares single steps with one parallel pass, bitwise, on an empty sequence 0. invalid_argument when they
    /// differ.
    [[nodiscard]] Status check_batch_invariance();

    [[nodiscard]] const ModelInfo& info() const noexcept override { return info_; }
    [[nodiscard]] Status reserve(SeqId seq, std::uint32_t tokens) override;
    [[nodiscard]] Result<kv::View> kv_view(SeqId seq, std::uint32_t layer, kv::Kind kind) override;
    [[nodiscard]] Status step(std::span<const Row> rows, LayerGate* gate) override;
    [[nodiscard]] std::span<const float> logits(std::size_t row) const override;
    void watch_attention() override { attention_.emplace(info_.geometry); }
    [[nodiscard]] std::vector<AttentionWeights> attention_weights() const override {
        return attention_ ? attention_->weights() : std::vector<AttentionWeights>{};
    }
    [[nodiscard]] Status truncate(SeqId seq, std::uint32_t tokens) override;
    [[nodiscard]] Status clear(SeqId seq) override { return truncate(seq, 0); }
    [[nodiscard]] Result<std::vector<Token>> tokenize(std::string_view text, bool parse_special) const override;
    [[nodiscard]] std::string piece(Token token) const override;
    [[nodiscard]] Result<std::string> chat_prompt(std::span<const ChatMessage> messages) const override;

private:
    static bool on_node(ggml_tensor* node, bool ask, void* self);
    static bool should_abort(void* self);

    [[nodiscard]] Status create_context();
    [[nodiscard]] Status find_cache_by_step();
    [[nodiscard]] Status check_state_format();
    [[nodiscard]] int decode(std::span<const Row> rows);
    /// Gives up cells [tokens, end) of a sequence.
    [[nodiscard]] Status drop(SeqId seq, std::uint32_t tokens, std::uint32_t end);

    ModelInfo info_;
    LlamaOptions options_;
    Sequences sequences_;
    ModelHandle model_;
    const llama_vocab* vocab_;
    ThreadpoolHandle threadpool_;
    ContextHandle context_;
    llama_batch batch_{};
    CacheProbe probe_;
    LlamaCache cache_;
    std::optional<AttentionWatch> attention_;
    std::optional<StepWatch> watch_;  // none while the cache is not known yet
    std::size_t last_rows_ = 0;       // of the last successful step
};

}  // namespace lynx::engine
