// One streamed answer: from what the inference thread reports to server-sent events. No socket, no waiting.
#pragma once

#include <optional>
#include <string>

#include "serve/answer_logprobs.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/pending_answer.h"
#include "serve/utf8_stream.h"

namespace lynx::serve {

/// Not thread-safe.
class AnswerStream {
public:
    AnswerStream(AnswerHead head, const ApiRequest& wanted, AnswerLogprobs::Piece piece);
    /// The events that tell this news, the last ones of the stream with its end; empty when there is nothing to tell.
    [[nodiscard]] std::string events(const PendingAnswer::News& news);

private:
    [[nodiscard]] std::string text(const std::string& text);
    [[nodiscard]] std::string end(const Result<GenerateReport>& end);

    AnswerHead head_;
    bool provisional_;
    bool include_usage_;
    bool first_ = true;
    std::size_t text_bytes_ = 0;
    Utf8Stream committed_;
    std::optional<AnswerLogprobs> logprobs_;
};

}  // namespace lynx::serve
