// The engine contract: a language model with a KV cache that can be read and written in place.
//
// One thread at a time may call step/reserve/truncate/clear (the inference thread). kv_view may be taken by any
// thread, but its memory may be written only while no step touches that sequence: between steps, or from inside
// LayerGate::wait for layers the step has not passed yet. It may be read for tokens whose step has returned. Contract
// suite: src/engine/engine_contract.h, passed by fake and llama.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/geometry.h"
#include "kv/view.h"
#include "lynx/status.h"

namespace lynx::engine {

using Token = std::int32_t;
using SeqId = std::int32_t;

/// One input token of a step. Rows of one sequence must have consecutive positions, continuing what it holds.
struct Row {
    SeqId seq = 0;
    Token token = 0;
    std::uint32_t position = 0;
    bool logits = false;
};

/// Lets a step wait, layer by layer, for KV that is still arriving.
class LayerGate {
public:
    virtual ~LayerGate() = default;
    /// Called on the inference thread before layer `layer` reads its KV, in ascending order. May block, and may write
    /// that layer's KV. An error ends the step with that error; none of the step's rows stay, and no logits.
    [[nodiscard]] virtual Status wait(std::uint32_t layer) = 0;
};

/// 128-bit identity of weights, KV layout and numerics-relevant settings: nodes must agree on it before KV is
/// exchanged.
using Fingerprint = std::array<std::uint8_t, 16>;

struct ModelInfo {
    std::string name;
    Fingerprint fingerprint{};
    kv::Geometry geometry;
    std::uint32_t vocabulary = 0;
    std::uint32_t context_tokens = 0;    ///< per sequence, as configured
    std::uint32_t sequences = 0;         ///< parallel sequences, as configured
    std::uint32_t batch_tokens_max = 0;  ///< rows a step may carry
    std::vector<Token> end_tokens;       ///< any of them ends a generation
};

struct ChatMessage {
    std::string role;  ///< system, user or assistant
    std::string content;
};

/// How much errors in one layer's KV weigh in the model. Empty where the engine cannot tell.
struct AttentionWeights {
    std::vector<double>
        query_energy;  ///< [kv_heads, key_dim]: mean square of the rotated queries that meet that channel
    std::vector<double>
        output_metric;  ///< [kv_heads, value_dim, value_dim]: W^T W of the output projection, summed over its heads
};

class Engine {
public:
    virtual ~Engine() = default;
    [[nodiscard]] virtual const ModelInfo& info() const noexcept = 0;

    /// Gives `seq` (empty before) cells for positions [0, tokens); their KV is unspecified until written through
    /// kv_view. limit_exceeded when they do not fit.
    [[nodiscard]] virtual Status reserve(SeqId seq, std::uint32_t tokens) = 0;

    /// The KV of one layer of one sequence as [context_tokens, channels]; row t is position t. Valid for the engine's
    /// life. Whatever was written to positions that are given up later (NaN too) has no effect on what comes after.
    [[nodiscard]] virtual Result<kv::View> kv_view(SeqId seq, std::uint32_t layer, kv::Kind kind) = 0;

    /// Runs the rows through the model, appending their KV; on an error, all sequences are as long as before.
    /// limit_exceeded when rows or context do not fit; invalid_argument for a row that names no sequence or token, or
    /// does not continue its sequence.
    [[nodiscard]] virtual Status step(std::span<const Row> rows, LayerGate* gate) = 0;

    /// Logits [vocabulary] of rows[row] of the last step (row index in the step; that row had logits = true). Valid
    /// until the next step.
    [[nodiscard]] virtual std::span<const float> logits(std::size_t row) const = 0;

    /// From now on, steps gather attention_weights(): slower, and only calibration wants it.
    virtual void watch_attention() {}
    /// Per layer, over all steps since watch_attention(); empty where this engine cannot tell.
    [[nodiscard]] virtual std::vector<AttentionWeights> attention_weights() const { return {}; }

    /// Keeps positions [0, tokens) of `seq`.
    [[nodiscard]] virtual Status truncate(SeqId seq, std::uint32_t tokens) = 0;
    /// Empties `seq`.
    [[nodiscard]] virtual Status clear(SeqId seq) = 0;

    /// Text to tokens; special tokens in the text are parsed only when `parse_special`. Adds BOS when the model wants
    /// it.
    [[nodiscard]] virtual Result<std::vector<Token>> tokenize(std::string_view text, bool parse_special) const = 0;
    /// The bytes of a token (may be part of a UTF-8 sequence; empty for control and unknown tokens).
    [[nodiscard]] virtual std::string piece(Token token) const = 0;
    /// A conversation in the model's chat template, ready for the assistant's turn and to tokenize with parse_special.
    /// invalid_argument when the model has none that is known.
    [[nodiscard]] virtual Result<std::string> chat_prompt(std::span<const ChatMessage> messages) const = 0;
};

struct LlamaOptions {
    std::string model_path;
    std::uint32_t context_tokens = 4096;  ///< per sequence
    std::uint32_t sequences = 1;
    /// Keep 1 when anything else wants the CPU: two threads spin for each other at every one of some thousand
    /// barriers a step, and when the system runs one of them late, a step takes ten times as long.
    std::uint32_t threads = 1;
    std::uint32_t batch_tokens = 256;  ///< rows per step; also the prefill chunk
    /// Exact: logits of a row do not depend on what shares its batch (no flash attention); decode nodes need it.
    /// Otherwise flash attention is used: faster, good for prefill.
    bool exact = true;
};

/// Loads a GGUF. io: unreadable; corrupt: not a GGUF; invalid_argument: an architecture whose cache is not plain K
/// and V (recurrent, hybrid, MLA, encoder), named in the message; more context than the model was trained for; or, in
/// exact mode, a llama.cpp build whose rounding depends on the batch (checked with a few tokens at load).
/// unsupported_version: its state format is not ours. The first call sets GGML_CPU_TILED_MM=0 in the environment and
/// silences llama.cpp's log for the process.
[[nodiscard]] Result<std::unique_ptr<Engine>> load_llama(const LlamaOptions& options);

/// Writes OUT as IN requantised, all or nothing. type: "q4_0" or "q8_0". Errors as load_llama's, and io when OUT
/// cannot be written.
[[nodiscard]] Status requantize_llama(const std::string& in_path, const std::string& out_path, std::string_view type);

struct FakeOptions {
    std::uint32_t vocabulary = 64;
    std::uint32_t layers = 3;
    std::uint32_t kv_heads = 2;
    std::uint32_t head_dim = 16;
    std::uint32_t context_tokens = 2048;
    std::uint32_t sequences = 4;
    std::uint32_t batch_tokens = 512;
    std::uint64_t seed = 1;  ///< of the weights
};

/// A tiny deterministic attention model on real f16 KV memory (V stored transposed, as llama's is in exact mode): its
/// logits depend on every KV element, so a wrong, stale or missing page changes the output. About 5000 tokens/s at 1K
/// context. Tokens: bytes modulo the vocabulary; the last id is an end token when the vocabulary is larger than 8.
/// Preconditions: vocabulary > 1, an even head_dim, nothing zero.
[[nodiscard]] std::unique_ptr<Engine> make_fake(const FakeOptions& options);

}  // namespace lynx::engine
