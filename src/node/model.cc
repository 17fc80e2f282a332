#include "node/model.h"

#include <charconv>
#include <string>
#include <string_view>

namespace lynx::node {

namespace {
constexpr std::string_view kFakePrefix = "fake:";
}  // namespace

Result<std::unique_ptr<engine::Engine>> open_engine(const ModelConfig& config, bool exact) {
    if (config.path.empty()) {
        return Status{ErrorCode::invalid_argument, "no model given"};
    }
    if (config.context_tokens == 0 || config.sequences == 0 || config.threads == 0 || config.batch_tokens == 0) {
        return Status{ErrorCode::invalid_argument, "context, sequences, threads and batch must be at least 1"};
    }
    if (config.path == "fake" || config.path.starts_with(kFakePrefix)) {
        engine::FakeOptions options;
        if (config.path != "fake") {
            const char* end = config.path.data() + config.path.size();
            const auto [stop, error] = std::from_chars(config.path.data() + kFakePrefix.size(), end, options.seed);
            if (error != std::errc{} || stop != end) {
                return Status{ErrorCode::invalid_argument, "model: expected fake:SEED, actual '" + config.path + "'"};
            }
        }
        options.context_tokens = config.context_tokens;
        options.sequences = config.sequences;
        options.batch_tokens = config.batch_tokens;
        return engine::make_fake(options);
    }
    engine::LlamaOptions options;
    options.model_path = config.path;
    options.context_tokens = config.context_tokens;
    options.sequences = config.sequences;
    options.threads = config.threads;
    options.batch_tokens = config.batch_tokens;
    options.exact = exact;
    return engine::load_llama(options);
}

Status check_context(std::size_t prompt_tokens, std::uint32_t output_tokens, std::uint32_t context_tokens) {
    if (prompt_tokens == 0) {
        return {ErrorCode::invalid_argument, "the prompt is empty"};
    }
    if (output_tokens == 0) {
        return {ErrorCode::invalid_argument, "max tokens must be at least 1"};
    }
    if (prompt_tokens + std::uint64_t{output_tokens} > context_tokens) {
        return {ErrorCode::invalid_argument,
                "the prompt (" + std::to_string(prompt_tokens) + " tokens) and " + std::to_string(output_tokens) +
                    " output tokens do not fit the context of " + std::to_string(context_tokens) + " tokens"};
    }
    return {};
}

wire::Hello hello_of(const engine::ModelInfo& info, wire::Role role) {
    wire::Hello hello;
    hello.role = role;
    hello.fingerprint = info.fingerprint;
    hello.geometry = info.geometry;
    return hello;
}

}  // namespace lynx::node
