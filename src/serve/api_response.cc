#include "serve/api_response.h"

#include <nlohmann/json.hpp>

namespace lynx::serve {
namespace {

using Json = nlohmann::json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string event(const Json& json) { return "data: " + dump(json) + "\n\n"; }

const char* reason(Finish finish) { return finish == Finish::length ? "length" : "stop"; }

Json usage(const GenerateReport& report) {
    return {{"prompt_tokens", report.prompt_tokens},
            {"completion_tokens", report.tokens.size()},
            {"total_tokens", report.prompt_tokens + report.tokens.size()}};
}

Json object(const AnswerHead& head, bool chunk) {
    const char* name = head.endpoint == Endpoint::completions ? "text_completion"
                       : chunk                                ? "chat.completion.chunk"
                                                              : "chat.completion";
    return {{"id", head.id}, {"object", name}, {"created", head.created}, {"model", head.model}};
}

/// A chunk with one choice that says `text` and why it ended (null: it goes on).
Json chunk(const AnswerHead& head, std::string_view text, bool first, const Json& finish_reason, const Json& logprobs) {
    Json choice = {{"index", 0}, {"finish_reason", finish_reason}, {"logprobs", logprobs}};
    if (head.endpoint == Endpoint::completions) {
        choice["text"] = text;
    } else {
        choice["delta"] = Json::object();
        if (first) {
            choice["delta"]["role"] = "assistant";
        }
        if (first || !text.empty()) {
            choice["delta"]["content"] = text;
        }
    }
    Json json = object(head, true);
    json["choices"] = Json::array({std::move(choice)});
    return json;
}

}  // namespace

std::string completion(const AnswerHead& head, const GenerateReport& report, const AnswerLogprobs::Piece& piece) {
    Json choice = {{"index", 0}, {"finish_reason", reason(report.finish)}, {"logprobs", nullptr}};
    if (!report.logprobs.empty()) {
        AnswerLogprobs logprobs(head.endpoint, piece);
        logprobs.add(report.logprobs);
        choice["logprobs"] = logprobs.take(report.text.size());
    }
    if (head.endpoint == Endpoint::completions) {
        choice["text"] = report.text;
    } else {
        choice["message"] = {{"role", "assistant"}, {"content", report.text}};
    }
    Json json = object(head, false);
    json["choices"] = Json::array({std::move(choice)});
    json["usage"] = usage(report);
    return dump(json);
}

std::string model_list(const std::string& model, std::int64_t created) {
    return dump(
        {{"object", "list"},
         {"data", Json::array({{{"id", model}, {"object", "model"}, {"created", created}, {"owned_by", "lynx"}}})}});
}

std::string text_event(const AnswerHead& head, std::string_view text, bool first, const Json& logprobs) {
    return event(chunk(head, text, first, nullptr, logprobs));
}

std::string finish_event(const AnswerHead& head, Finish finish) {
    return event(chunk(head, "", false, reason(finish), nullptr));
}

std::string usage_event(const AnswerHead& head, const GenerateReport& report) {
    Json json = object(head, true);
    json["choices"] = Json::array();
    json["usage"] = usage(report);
    return event(json);
}

std::string provisional_event(const AnswerHead& head, std::string_view provisional, std::uint32_t retracted) {
    Json json = object(head, true);
    json["choices"] = Json::array();
    json["lynx"] = {{"provisional", provisional}, {"retracted", retracted}};
    return event(json);
}

std::string error_event(const ApiError& error) { return "data: " + to_json(error) + "\n\n"; }

}  // namespace lynx::serve
