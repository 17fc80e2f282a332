// The engine contract on a real model; built once per model (LYNX_CONTRACT_MODEL).
#include "engine/engine_contract.h"

namespace lynx::engine {
namespace {

Result<std::unique_ptr<Engine>> load() {
    return load_llama({.model_path = std::string(LYNX_MODELS_DIR) + "/" + LYNX_CONTRACT_MODEL,
                       .context_tokens = EngineContract::kContextTokens,
                       .sequences = EngineContract::kSequences,
                       .threads = 1,
                       .batch_tokens = EngineContract::kBatchTokens,
                       .exact = true});
}

INSTANTIATE_TEST_SUITE_P(Llama, EngineContract, testing::Values(ContractCase{.name = "exact", .make = load}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lynx::engine
