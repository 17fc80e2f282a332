#include "bench/reference.h"

#include <algorithm>
#include <cstring>

#include "base/try.h"
#include "bench/distribution.h"
#include "node/prefill.h"

namespace lynx::bench {

Result<std::vector<std::vector<std::byte>>> read_kv(engine::Engine& engine, std::uint32_t tokens) {
    std::vector<std::vector<std::byte>> planes;
    for (std::uint32_t layer = 0; layer < engine.info().geometry.layers.size(); ++layer) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            LYNX_ASSIGN(const kv::View view, engine.kv_view(0, layer, kind));
            const std::size_t width = kv::dtype_bytes(view.dtype);
            std::vector<std::byte> plane(width * tokens * view.channels);
            const kv::View dense = kv::token_major(plane.data(), view.dtype, tokens, view.channels);
            for (std::uint32_t t = 0; t < tokens; ++t) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    std::memcpy(dense.at(t, c), view.at(t, c), width);
                }
            }
            planes.push_back(std::move(plane));
        }
    }
    return planes;
}

Result<PromptKv> prefill_prompt(engine::Engine& engine, const std::vector<engine::Token>& prompt) {
    PromptKv kv;
    kv.prompt = prompt;
    LYNX_ASSIGN(kv.logits, node::prefill(engine, 0, prompt, [](std::uint32_t) { return Status{}; }));
    LYNX_ASSIGN(kv.planes, read_kv(engine, static_cast<std::uint32_t>(prompt.size())));
    return kv;
}

Result<CodedSize> Reference::load(const codec::Codec& codec, std::uint8_t tier) {
    LYNX_ASSIGN(const CodedKv coded, CodedKv::encode(codec, kv_, engine_.info().geometry));
    LYNX_TRY(coded.load(engine_, tier));
    return coded.size();
}

Result<std::vector<engine::Token>> Reference::decode(std::uint32_t count, const speculate::Sampling& sampling) {
    auto position = static_cast<std::uint32_t>(kv_.prompt.size());
    std::vector<engine::Token> out{speculate::pick(kv_.logits, sampling, position)};
    LYNX_TRY(engine_.truncate(0, position));
    const base::SteadyClock clock;
    const base::Nanos start = clock.now();
    while (out.size() < count) {
        const engine::Row row{0, out.back(), position++, true};
        LYNX_TRY(engine_.step({&row, 1}, nullptr));
        out.push_back(speculate::pick(engine_.logits(0), sampling, position));
    }
    tpot_ = count > 1 ? (clock.now() - start) / (count - 1) : base::Nanos{0};
    return out;
}

Result<std::vector<std::vector<float>>> Reference::teacher_forced(const std::vector<engine::Token>& tokens) {
    const auto first = static_cast<std::uint32_t>(kv_.prompt.size());
    LYNX_TRY(engine_.truncate(0, first));
    std::vector<std::vector<float>> all;
    const std::size_t rows_total = tokens.size() - 1;
    for (std::size_t done = 0; done < rows_total;) {
        const std::size_t count = std::min<std::size_t>(rows_total - done, engine_.info().batch_tokens_max);
        std::vector<engine::Row> rows;
        for (std::size_t i = done; i < done + count; ++i) {
            rows.push_back({0, tokens[i], first + static_cast<std::uint32_t>(i), true});
        }
        LYNX_TRY(engine_.step(rows, nullptr));
        for (std::size_t i = 0; i < count; ++i) {
            const std::span<const float> logits = engine_.logits(i);
            all.emplace_back(logits.begin(), logits.end());
        }
        done += count;
    }
    return all;
}

double mean_kl(const std::vector<std::vector<float>>& p_logits, const std::vector<std::vector<float>>& q_logits) {
    double total = 0;
    for (std::size_t row = 0; row < p_logits.size(); ++row) {
        total += Distribution(p_logits[row]).kl(Distribution(q_logits[row]));
    }
    return p_logits.empty() ? 0 : total / static_cast<double>(p_logits.size());
}

}  // namespace lynx::bench
