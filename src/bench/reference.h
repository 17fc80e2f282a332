// The reference run that "unchanged output" is measured against: one process, the same prefill settings, the codec's own full-tier KV,
// plain decoding in exact mode. No wire, no speculation.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "bench/coded_kv.h"
#include "codec/codec.h"
#include "engine/engine.h"
#include "kv/geometry.h"
#include "lynx/status.h"
#include "speculate/sampling.h"

namespace lynx::bench {

/// A prompt's KV as the prefill engine computed it, dense and token-major, and the logits after its last token.
struct PromptKv {
    std::vector<engine::Token> prompt;
    std::vector<std::vector<std::byte>> planes;  ///< [2 * layer + (0 key, 1 value)] = [T, channels]
    std::vector<float> logits;                   ///< [vocabulary]
};
[[nodiscard]] Result<PromptKv> prefill_prompt(engine::Engine& engine, const std::vector<engine::Token>& prompt);

/// The first `tokens` rows of sequence 0, as PromptKv::planes.
[[nodiscard]] Result<std::vector<std::vector<std::byte>>> read_kv(engine::Engine& engine, std::uint32_t tokens);

/// Not thread-safe; uses sequence 0 of the engine, which must be an exact one of the same model.
class Reference {
public:
    Reference(engine::Engine& engine, const PromptKv& kv) : engine_(engine), kv_(kv) {}

    /// Puts the KV as `codec` restores it at `tier` into sequence 0, and tells what it weighed.
    [[nodiscard]] Result<CodedSize> load(const codec::Codec& codec, std::uint8_t tier);
    /// Output on the loaded KV: token 1, then `count - 1` more. Does not stop at end tokens. Precondition: greedy or coupled sampling.
    [[nodiscard]] Result<std::vector<engine::Token>> decode(std::uint32_t count, const speculate::Sampling& sampling);
    /// Logits [tokens.size() - 1][vocabulary] after each of tokens[0..n-2] on the loaded KV, in one pass.
    [[nodiscard]] Result<std::vector<std::vector<float>>> teacher_forced(const std::vector<engine::Token>& tokens);
    /// Mean step time of the last decode().
    [[nodiscard]] base::Nanos tpot() const noexcept { return tpot_; }

private:
    engine::Engine& engine_;
    const PromptKv& kv_;
    base::Nanos tpot_{0};
};

/// Mean over rows of KL(p || q) in nats, p and q the softmax of the rows' logits at temperature 1.
[[nodiscard]] double mean_kl(const std::vector<std::vector<float>>& p_logits,
                             const std::vector<std::vector<float>>& q_logits);

}  // namespace lynx::bench
