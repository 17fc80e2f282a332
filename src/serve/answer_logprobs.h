// Which committed tokens' log probabilities belong to a piece of the answer's text, and how the API writes them down.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lynx/logprobs.h"
#include "serve/api_request.h"

namespace lynx::serve {

/// Hands out each token once, when text that it begins is given out. End tokens have no text, and what a stop string cut away is never given out:
/// neither are their tokens. Not thread-safe.
class AnswerLogprobs {
public:
    using Piece = std::function<std::string(std::int32_t token)>;  ///< a token's bytes

    AnswerLogprobs(Endpoint endpoint, Piece piece) : endpoint_(endpoint), piece_(std::move(piece)) {}

    void add(std::span<const CommittedLogprobs> committed);
    /// The "logprobs" member of the choice that carries the answer's bytes up to `text_bytes` (all so far).
    [[nodiscard]] nlohmann::json take(std::size_t text_bytes);

private:
    struct Entry {
        CommittedLogprobs logprobs;
        std::string bytes;
        std::size_t begin = 0;       ///< byte offset in the text
        std::size_t characters = 0;  ///< offset in characters
    };
    [[nodiscard]] nlohmann::json chat_form(std::span<const Entry> entries) const;
    [[nodiscard]] nlohmann::json completions_form(std::span<const Entry> entries) const;

    Endpoint endpoint_;
    Piece piece_;
    std::vector<Entry> waiting_;
    std::size_t bytes_ = 0;  // of all tokens added
    std::size_t characters_ = 0;
};

}  // namespace lynx::serve
