// LlamaEngine's text side: tokens and chat templates.
#include <limits>

#include "engine/llama/llama_engine.h"

namespace lynx::engine {
namespace {

constexpr std::size_t kTextBytesMax = std::size_t{1} << 28;

}  // namespace

Result<std::vector<Token>> LlamaEngine::tokenize(std::string_view text, bool parse_special) const {
    if (text.size() > kTextBytesMax) {
        return Status{ErrorCode::limit_exceeded, "tokenize: bytes: expected at most " + std::to_string(kTextBytesMax) +
                                                     ", actual " + std::to_string(text.size())};
    }
    const auto size = static_cast<std::int32_t>(text.size());
    std::vector<Token> tokens(text.size() + 8);  // rarely more tokens than bytes; llama.cpp says when
    for (int attempt = 0; attempt < 2; ++attempt) {
        const std::int32_t n = llama_tokenize(vocab_, text.data(), size, tokens.data(),
                                              static_cast<std::int32_t>(tokens.size()), true, parse_special);
        if (n >= 0) {
            tokens.resize(static_cast<std::size_t>(n));
            return tokens;
        }
        if (n == std::numeric_limits<std::int32_t>::min()) {
            break;
        }
        tokens.resize(static_cast<std::size_t>(-n));
    }
    return Status{ErrorCode::invalid_argument, "tokenize: the text cannot be tokenized"};
}

std::string LlamaEngine::piece(Token token) const {
    if (token < 0 || static_cast<std::uint32_t>(token) >= info_.vocabulary) {
        return {};
    }
    std::string bytes(64, '\0');
    for (int attempt = 0; attempt < 2; ++attempt) {
        const std::int32_t n =
            llama_token_to_piece(vocab_, token, bytes.data(), static_cast<std::int32_t>(bytes.size()), 0, false);
        bytes.resize(static_cast<std::size_t>(n < 0 ? -n : n));
        if (n >= 0) {
            return bytes;
        }
    }
    return {};
}

Result<std::string> LlamaEngine::chat_prompt(std::span<const ChatMessage> messages) const {
    const char* chat_template = llama_model_chat_template(model_.get(), nullptr);
    if (chat_template == nullptr) {
        return Status{ErrorCode::invalid_argument, "model " + info_.name + " has no chat template"};
    }
    std::vector<llama_chat_message> turns;
    std::size_t bytes = 1024;
    for (const ChatMessage& message : messages) {
        turns.push_back({.role = message.role.c_str(), .content = message.content.c_str()});
        bytes += 2 * message.content.size() + 64;
    }
    if (bytes > kTextBytesMax) {
        return Status{ErrorCode::limit_exceeded, "chat: the messages are too long"};
    }
    std::string prompt(bytes, '\0');
    for (int attempt = 0; attempt < 2; ++attempt) {
        const std::int32_t n = llama_chat_apply_template(chat_template, turns.data(), turns.size(), true, prompt.data(),
                                                         static_cast<std::int32_t>(prompt.size()));
        if (n < 0) {
            break;
        }
        const bool fits = static_cast<std::size_t>(n) <= prompt.size();
        prompt.resize(static_cast<std::size_t>(n));
        if (fits) {
            return prompt;
        }
    }
    return Status{ErrorCode::invalid_argument, "model " + info_.name + " has a chat template llama.cpp cannot apply"};
}

}  // namespace lynx::engine
