// load_llama and requantize_llama: what may be loaded, with which settings, and how failures read.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/try.h"
#include "engine/llama/gguf_inspect.h"
#include "engine/llama/llama_engine.h"

namespace lynx::engine {
namespace {

constexpr std::uint32_t kThreadsMax = 256;
constexpr std::uint32_t kBatchTokensMax = 8192;
constexpr std::uint64_t kCellsMax = std::uint64_t{1}
                                    << 26;  // over all sequences; keeps llama.cpp's 32-bit counts far from their end
constexpr std::string_view kKvLayout = "kv:f16";

template <class T>
Status check_range(const char* what, T value, std::uint64_t least, std::uint64_t most) {
    if (value < least || value > most) {
        return {ErrorCode::invalid_argument, std::string(what) + ": expected " + std::to_string(least) + ".." +
                                                 std::to_string(most) + ", actual " + std::to_string(value)};
    }
    return {};
}

Status check_options(const LlamaOptions& o) {
    LYNX_TRY(check_range("context tokens", o.context_tokens, 1, kv::kContextTokensMax));
    LYNX_TRY(check_range("sequences", o.sequences, 1, llama_max_parallel_sequences()));
    LYNX_TRY(check_range("context tokens x sequences", std::uint64_t{o.context_tokens} * o.sequences, 1, kCellsMax));
    LYNX_TRY(check_range("threads", o.threads, 1, kThreadsMax));
    return check_range("batch tokens", o.batch_tokens, 1, kBatchTokensMax);
}

Result<ModelHandle> load_model(const LlamaOptions& options, const GgufFacts& facts) {
    std::array<ggml_backend_dev_t, 1> no_devices = {nullptr};  // the CPU only: KV must be host memory
    llama_model_params params = llama_model_default_params();
    params.devices = no_devices.data();
    params.n_gpu_layers = 0;
    params.use_extra_bufts = facts.repack_is_exact || !options.exact;
    static_cast<void>(take_llama_error());
    ModelHandle model(llama_model_load_from_file(options.model_path.c_str(), params));
    const std::string where = "model " + options.model_path + ": ";
    if (model == nullptr) {
        const std::string error = take_llama_error();
        const bool unknown = error.find("unknown model architecture") != std::string::npos;
        return Status{unknown ? ErrorCode::invalid_argument : ErrorCode::corrupt, where + error};
    }
    const std::string architecture = "architecture '" + facts.architecture + "' is not supported: ";
    if (llama_model_is_recurrent(model.get()) || llama_model_is_hybrid(model.get())) {
        return Status{ErrorCode::invalid_argument,
                      where + architecture + "it keeps a recurrent state instead of (or beside) a KV cache"};
    }
    if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get()) ||
        llama_model_is_diffusion(model.get())) {
        return Status{ErrorCode::invalid_argument, where + architecture + "it is not a decoder-only language model"};
    }
    const llama_rope_type rope = llama_model_rope_type(model.get());
    if (rope != LLAMA_ROPE_TYPE_NONE && rope != LLAMA_ROPE_TYPE_NORM && rope != LLAMA_ROPE_TYPE_NEOX) {
        return Status{ErrorCode::invalid_argument, where + architecture + "its positions have several axes"};
    }
    return model;
}

}  // namespace

Result<std::unique_ptr<Engine>> load_llama(const LlamaOptions& options) {
    LYNX_ASSIGN(const GgufFacts facts, inspect_gguf(options.model_path));
    LYNX_TRY(check_options(options));
    if (facts.context_tokens_trained != 0 && options.context_tokens > facts.context_tokens_trained) {
        return Status{ErrorCode::invalid_argument, "model " + options.model_path + ": context: trained for " +
                                                       std::to_string(facts.context_tokens_trained) +
                                                       " tokens, asked for " + std::to_string(options.context_tokens)};
    }
    ModelInfo info;
    info.name = std::filesystem::path(options.model_path).stem().string();
    LYNX_ASSIGN(info.fingerprint, fingerprint_file(options.model_path, kKvLayout));
    LYNX_ASSIGN(ModelHandle model, load_model(options, facts));
    auto engine = std::make_unique<LlamaEngine>(std::move(info), std::move(model), options);
    LYNX_TRY(engine->start().with_context("model " + options.model_path + " (" + facts.architecture + ")"));
    if (options.exact) {
        LYNX_TRY(engine->check_batch_invariance().with_context("model " + options.model_path));
    }
    return std::unique_ptr<Engine>(std::move(engine));
}

Status requantize_llama(const std::string& in_path, const std::string& out_path, std::string_view type) {
    llama_model_quantize_params params = llama_model_quantize_default_params();
    if (type == "q4_0") {
        params.ftype = LLAMA_FTYPE_MOSTLY_Q4_0;
    } else if (type == "q8_0") {
        params.ftype = LLAMA_FTYPE_MOSTLY_Q8_0;
    } else {
        return {ErrorCode::invalid_argument, "requantize: type: expected q4_0 or q8_0, actual " + std::string(type)};
    }
    params.allow_requantize = true;
    if (const Result<GgufFacts> facts = inspect_gguf(in_path); !facts.ok()) {
        return facts.status();
    }
    const std::string partial = out_path + ".partial-" + std::to_string(getpid());
    static_cast<void>(take_llama_error());
    if (llama_model_quantize(in_path.c_str(), partial.c_str(), &params) != 0) {
        std::remove(partial.c_str());
        return {ErrorCode::io, "requantize " + in_path + " to " + out_path + ": " + take_llama_error()};
    }
    if (std::error_code error; std::filesystem::rename(partial, out_path, error), error) {
        std::remove(partial.c_str());
        return {ErrorCode::io, "requantize: rename to " + out_path + ": " + error.message()};
    }
    return {};
}

}  // namespace lynx::engine
