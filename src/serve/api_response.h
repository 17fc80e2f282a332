// What the server answers: completion objects and the chunks of a stream, as the OpenAI API has them. The extension's events (drafts and
// retractions) are chunks without choices and with a "lynx" member, which a client that does not know it passes over.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "lynx/node.h"
#include "serve/answer_logprobs.h"
#include "serve/api_request.h"

namespace lynx::serve {

/// What all answers to one request share.
struct AnswerHead {
    Endpoint endpoint = Endpoint::completions;
    std::string id;
    std::string model;
    std::int64_t created = 0;  ///< seconds since 1970
};

/// The whole answer, not streamed. `piece` turns tokens into bytes, for log probabilities.
[[nodiscard]] std::string completion(const AnswerHead& head, const GenerateReport& report,
                                     const AnswerLogprobs::Piece& piece);

/// The answer to /v1/models: the one that is served.
[[nodiscard]] std::string model_list(const std::string& model, std::int64_t created);

/// One server-sent event, "data: {...}\n\n". `first`: says the role (chat). `logprobs`: the choice's, or null.
[[nodiscard]] std::string text_event(const AnswerHead& head, std::string_view text, bool first,
                                     const nlohmann::json& logprobs);
[[nodiscard]] std::string finish_event(const AnswerHead& head, Finish finish);
[[nodiscard]] std::string usage_event(const AnswerHead& head, const GenerateReport& report);
/// `provisional`: all drafted text behind the committed one; `retracted`: drafts withdrawn by this event.
[[nodiscard]] std::string provisional_event(const AnswerHead& head, std::string_view provisional,
                                            std::uint32_t retracted);
[[nodiscard]] std::string error_event(const ApiError& error);
inline constexpr std::string_view kLastEvent = "data: [DONE]\n\n";

}  // namespace lynx::serve
