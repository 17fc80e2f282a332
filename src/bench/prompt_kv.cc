#include "bench/prompt_kv.h"

#include <cstring>

#include "base/try.h"

namespace lynx::bench {

Result<std::vector<engine::Token>> tokenize_text(const engine::Engine& engine, const std::string& text,
                                                 std::uint32_t tokens_max) {
    LYNX_ASSIGN(std::vector<engine::Token> tokens, engine.tokenize(text, false));
    if (text.empty() || tokens.empty()) {
        return Status{ErrorCode::invalid_argument, "the prompt is empty"};
    }
    if (tokens_max > 0 && tokens.size() > tokens_max) {
        tokens.resize(tokens_max);
    }
    return tokens;
}

PromptKv prefix_of(const PromptKv& kv, std::uint32_t tokens) {
    PromptKv prefix;
    prefix.prompt.assign(kv.prompt.begin(), kv.prompt.begin() + tokens);
    for (const std::vector<std::byte>& plane : kv.planes) {
        const std::size_t row_bytes = plane.size() / kv.prompt.size();
        prefix.planes.emplace_back(plane.begin(), plane.begin() + static_cast<std::ptrdiff_t>(tokens * row_bytes));
    }
    return prefix;
}

Status load_original(engine::Engine& engine, const PromptKv& kv) {
    const auto tokens = static_cast<std::uint32_t>(kv.prompt.size());
    LYNX_TRY(engine.clear(0));
    LYNX_TRY(engine.reserve(0, tokens));
    for (std::uint32_t plane = 0; plane < kv.planes.size(); ++plane) {
        LYNX_ASSIGN(const kv::View target,
                    engine.kv_view(0, plane / 2, plane % 2 == 0 ? kv::Kind::key : kv::Kind::value));
        const kv::ConstView source = kv::token_major(kv.planes[plane].data(), target.dtype, tokens, target.channels);
        for (std::uint32_t t = 0; t < tokens; ++t) {
            for (std::uint32_t c = 0; c < target.channels; ++c) {
                std::memcpy(target.at(t, c), source.at(t, c), kv::dtype_bytes(target.dtype));
            }
        }
    }
    return {};
}

}  // namespace lynx::bench
