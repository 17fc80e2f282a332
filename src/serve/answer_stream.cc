#include "serve/answer_stream.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace lynx::serve {

AnswerStream::AnswerStream(AnswerHead head, const ApiRequest& wanted, AnswerLogprobs::Piece piece)
    : head_(std::move(head)), provisional_(wanted.provisional), include_usage_(wanted.include_usage) {
    if (wanted.generate.top_logprobs) {
        logprobs_.emplace(head_.endpoint, std::move(piece));
    }
}

std::string AnswerStream::events(const PendingAnswer::News& news) {
    std::string out;
    for (const PendingAnswer::Update& update : news.updates) {
        if (logprobs_) {
            logprobs_->add(update.logprobs);
        }
        if (const std::string whole = committed_.take(update.committed); !whole.empty()) {
            out += text(whole);
        }
        if (provisional_ && (!update.provisional.empty() || update.retracted > 0)) {
            Utf8Stream whole;
            out += provisional_event(head_, whole.take(update.provisional), update.retracted);
        }
    }
    if (news.end) {
        out += end(*news.end);
    }
    return out;
}

std::string AnswerStream::text(const std::string& text) {
    text_bytes_ += text.size();
    return text_event(head_, text, std::exchange(first_, false),
                      logprobs_ ? logprobs_->take(text_bytes_) : nlohmann::json());
}

std::string AnswerStream::end(const Result<GenerateReport>& end) {
    if (!end.ok()) {
        return error_event(error_of(end.status()));
    }
    std::string out;
    if (const std::string rest = committed_.rest(); !rest.empty() || first_) {
        out += text(rest);
    }
    out += finish_event(head_, end.value().finish);
    out += include_usage_ ? usage_event(head_, end.value()) : std::string();
    out += kLastEvent;
    return out;
}

}  // namespace lynx::serve
