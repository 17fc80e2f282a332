#include "node/prefill.h"

#include <algorithm>

#include "base/try.h"

namespace lynx::node {

Result<std::vector<float>> prefill(engine::Engine& engine, engine::SeqId seq, std::span<const engine::Token> prompt,
                                   const std::function<Status(std::uint32_t tokens_done)>& before_batch) {
    const auto tokens = static_cast<std::uint32_t>(prompt.size());
    LYNX_TRY(engine.clear(seq));
    std::vector<engine::Row> rows;
    for (std::uint32_t done = 0; done < tokens;) {
        LYNX_TRY(before_batch(done));
        const std::uint32_t end = std::min(tokens, done + engine.info().batch_tokens_max);
        rows.clear();
        for (; done < end; ++done) {
            rows.push_back({seq, prompt[done], done, done + 1 == tokens});
        }
        LYNX_TRY(engine.step(rows, nullptr));
    }
    const std::span<const float> logits = engine.logits(rows.size() - 1);
    return std::vector<float>(logits.begin(), logits.end());
}

}  // namespace lynx::node
