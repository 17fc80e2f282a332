#include "serve/answer_logprobs.h"

#include <algorithm>

namespace lynx::serve {
namespace {

using Json = nlohmann::json;

bool is_utf8(const std::string& text) {
    try {
        static_cast<void>(Json(text).dump());
        return true;
    } catch (const Json::type_error&) {
        return false;
    }
}

/// A token as text. Part of a character is no text: the API writes "bytes:\xe2\x80" then.
std::string readable(const std::string& bytes) {
    if (is_utf8(bytes)) {
        return bytes;
    }
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out = "bytes:";
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        out += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
    return out;
}

Json byte_values(const std::string& bytes) {
    Json out = Json::array();
    for (const char c : bytes) {
        out.push_back(static_cast<unsigned char>(c));
    }
    return out;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

}  // namespace

void AnswerLogprobs::add(std::span<const CommittedLogprobs> committed) {
    for (const CommittedLogprobs& one : committed) {
        std::string bytes = piece_(one.chosen.token);
        const std::size_t begin = bytes_;
        const std::size_t characters = characters_;
        bytes_ += bytes.size();
        characters_ += static_cast<std::size_t>(std::count_if(bytes.begin(), bytes.end(), begins_character));
        if (!bytes.empty()) {
            waiting_.push_back({one, std::move(bytes), begin, characters});
        }
    }
}

Json AnswerLogprobs::take(std::size_t text_bytes) {
    const auto end =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const Entry& entry) { return entry.begin >= text_bytes; });
    const std::span<const Entry> given(waiting_.begin(), end);
    Json out = endpoint_ == Endpoint::chat ? chat_form(given) : completions_form(given);
    waiting_.erase(waiting_.begin(), end);
    return out;
}

Json AnswerLogprobs::chat_form(std::span<const Entry> entries) const {
    const auto entry_of = [](const std::string& bytes, float logprob) {
        return Json{{"token", readable(bytes)}, {"logprob", logprob}, {"bytes", byte_values(bytes)}};
    };
    Json content = Json::array();
    for (const Entry& entry : entries) {
        Json one = entry_of(entry.bytes, entry.logprobs.chosen.logprob);
        one["top_logprobs"] = Json::array();
        for (const TokenLogprob& top : entry.logprobs.top) {
            one["top_logprobs"].push_back(entry_of(piece_(top.token), top.logprob));
        }
        content.push_back(std::move(one));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json AnswerLogprobs::completions_form(std::span<const Entry> entries) const {
    Json tokens = Json::array();
    Json logprobs = Json::array();
    Json offsets = Json::array();
    Json alternatives = Json::array();
    for (const Entry& entry : entries) {
        tokens.push_back(readable(entry.bytes));
        logprobs.push_back(entry.logprobs.chosen.logprob);
        offsets.push_back(entry.characters);
        Json top = Json::object();
        for (const TokenLogprob& one : entry.logprobs.top) {
            top.emplace(readable(piece_(one.token)), one.logprob);  // of two with one text, the likelier
        }
        top.emplace(tokens.back(), logprobs.back());  // the chosen one is always there
        alternatives.push_back(std::move(top));
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(alternatives)},
            {"text_offset", std::move(offsets)}};
}

}  // namespace lynx::serve
