#include "serve/api_request.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "codec/codec.h"
#include "speculate/stop_strings.h"

namespace lynx::serve {
namespace {

using Json = nlohmann::json;

constexpr std::uint32_t kCompletionTokensDefault = 16;  // the API's own
constexpr std::int64_t kCompletionsTopLogprobsMax = 5;  // so is this

[[noreturn]] void refuse(const std::string& param, const std::string& message) {
    throw ApiError{.message = message, .param = param};
}

/// The member, or null when it is absent or JSON null.
const Json* find(const Json& object, const char* name) {
    const auto it = object.find(name);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

bool boolean(const Json& object, const char* name, bool otherwise) {
    const Json* v = find(object, name);
    if (v != nullptr && !v->is_boolean()) {
        refuse(name, std::string(name) + " must be true or false");
    }
    return v == nullptr ? otherwise : v->get<bool>();
}

double number(const Json& object, const char* name, double low, double high, double otherwise) {
    const Json* v = find(object, name);
    if (v == nullptr) {
        return otherwise;
    }
    if (!v->is_number() || !(v->get<double>() >= low) || !(v->get<double>() <= high)) {
        refuse(name, std::string(name) + " must be a number from " + Json(low).dump() + " to " + Json(high).dump());
    }
    return v->get<double>();
}

std::optional<std::int64_t> integer(const Json& object, const char* name, std::int64_t low, std::int64_t high) {
    const Json* v = find(object, name);
    if (v == nullptr) {
        return std::nullopt;
    }
    const bool too_large =
        v->is_number_unsigned() &&
        v->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!v->is_number_integer() || too_large || v->get<std::int64_t>() < low || v->get<std::int64_t>() > high) {
        refuse(name,
               std::string(name) + " must be an integer from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return v->get<std::int64_t>();
}

std::string text(const Json& value, const std::string& param) {
    if (!value.is_string()) {
        refuse(param, param + " must be a string");
    }
    return value.get<std::string>();
}

/// A message's content: a string, or parts that are all text.
std::string content_of(const Json& message, const std::string& param) {
    const Json* content = find(message, "content");
    if (content == nullptr) {
        refuse(param, param + " is missing");
    }
    if (!content->is_array()) {
        return text(*content, param);
    }
    std::string all;
    for (const Json& part : *content) {
        if (!part.is_object() || part.value("type", Json()) != "text" || find(part, "text") == nullptr) {
            refuse(param, param + ": only parts of type text are supported");
        }
        all += text(part["text"], param);
    }
    return all;
}

std::vector<engine::ChatMessage> messages_of(const Json& body) {
    const Json* messages = find(body, "messages");
    if (messages == nullptr || !messages->is_array() || messages->empty() || messages->size() > kMessagesMax) {
        refuse("messages", "messages must be an array of 1 to " + std::to_string(kMessagesMax) + " messages");
    }
    std::vector<engine::ChatMessage> all;
    for (std::size_t i = 0; i < messages->size(); ++i) {
        const Json& message = (*messages)[i];
        const std::string param = "messages[" + std::to_string(i) + "]";
        if (!message.is_object()) {
            refuse(param, param + " must be an object");
        }
        const Json* role = find(message, "role");
        const std::string name = role == nullptr ? std::string() : text(*role, param + ".role");
        if (name != "system" && name != "developer" && name != "user" && name != "assistant") {
            refuse(param + ".role", param + ".role must be system, developer, user or assistant");
        }
        all.push_back({name == "developer" ? "system" : name, content_of(message, param + ".content")});
    }
    return all;
}

void read_prompt(const Json& body, GenerateRequest& out) {
    const Json* prompt = find(body, "prompt");
    if (prompt == nullptr) {
        refuse("prompt", "prompt is missing");
    }
    // The API also takes arrays of prompts; one prompt is what n = 1 can answer.
    const Json& one = prompt->is_array() && prompt->size() == 1 && !(*prompt)[0].is_number() ? (*prompt)[0] : *prompt;
    if (one.is_string()) {
        out.prompt = one.get<std::string>();
    } else if (one.is_array() && !one.empty()) {
        for (const Json& token : one) {
            if (!token.is_number_unsigned() || token.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max()) {
                refuse("prompt", "prompt must be a string, or an array of token ids");
            }
            out.prompt_tokens.push_back(token.get<std::int32_t>());
        }
    } else {
        refuse("prompt", "prompt must be one string, or one array of token ids");
    }
    if (out.prompt.empty() && out.prompt_tokens.empty()) {
        refuse("prompt", "prompt is empty");
    }
}

std::vector<std::string> stops_of(const Json& body) {
    const Json* stop = find(body, "stop");
    std::vector<std::string> all;
    if (stop == nullptr) {
        return all;
    }
    for (const Json& one : stop->is_array() ? *stop : Json::array({*stop})) {
        all.push_back(text(one, "stop"));
        if (all.back().empty() || all.back().size() > speculate::kStopStringBytesMax) {
            refuse("stop", "a stop string must have 1 to " + std::to_string(speculate::kStopStringBytesMax) + " bytes");
        }
    }
    if (all.size() > speculate::kStopStringsMax) {
        refuse("stop", "stop: at most " + std::to_string(speculate::kStopStringsMax) + " strings");
    }
    return all;
}

/// What the API has and this server does not do: asked for, it is refused rather than ignored.
void refuse_unsupported(const Json& body) {
    static_cast<void>(integer(body, "n", 1, 1));
    static_cast<void>(integer(body, "best_of", 1, 1));
    for (const char* name : {"frequency_penalty", "presence_penalty"}) {
        static_cast<void>(number(body, name, 0, 0, 0));
    }
    for (const char* name : {"tools", "functions", "logit_bias", "suffix", "audio", "prediction"}) {
        const Json* v = find(body, name);
        if (v != nullptr && !v->empty()) {
            refuse(name, std::string(name) + " is not supported");
        }
    }
    if (boolean(body, "echo", false)) {
        refuse("echo", "echo is not supported");
    }
    const Json* format = find(body, "response_format");
    if (format != nullptr && (!format->is_object() || format->value("type", Json()) != "text")) {
        refuse("response_format", "response_format: only {\"type\": \"text\"} is supported");
    }
}

/// Completions: a number of alternatives. Chat: yes or no, and a number.
void read_logprobs(Endpoint endpoint, const Json& body, GenerateRequest& out) {
    const Json* wanted = find(body, "logprobs");
    if (endpoint == Endpoint::completions) {
        if (wanted != nullptr && *wanted != false) {
            out.top_logprobs = static_cast<std::uint32_t>(*integer(body, "logprobs", 0, kCompletionsTopLogprobsMax));
        }
        return;
    }
    const auto top = integer(body, "top_logprobs", 0, kTopLogprobsMax);
    if (boolean(body, "logprobs", false)) {
        out.top_logprobs = static_cast<std::uint32_t>(top.value_or(0));
    } else if (top.value_or(0) > 0) {
        refuse("top_logprobs", "top_logprobs goes with logprobs = true only");
    }
}

void read_extension(const Json& body, ApiRequest& out) {
    const Json* lynx = find(body, "lynx");
    if (lynx == nullptr) {
        return;
    }
    if (!lynx->is_object()) {
        refuse("lynx", "lynx must be an object");
    }
    out.provisional = boolean(*lynx, "provisional", false);
    if (const Json* codec = find(*lynx, "codec")) {
        out.generate.codec.name = text(*codec, "lynx.codec");
    }
    if (const auto window = integer(*lynx, "window", 0, 1024)) {
        out.generate.window = static_cast<std::uint32_t>(*window);
    }
}

ApiRequest read(Endpoint endpoint, const Json& body, const std::string& model, const GenerateRequest& defaults) {
    if (!body.is_object()) {
        refuse("", "the body must be a JSON object");
    }
    if (const Json* asked = find(body, "model"); asked != nullptr && text(*asked, "model") != model) {
        throw ApiError{.http_status = 404,
                       .message = "the model " + asked->dump() + " is not served here, but \"" + model + "\" is",
                       .param = "model",
                       .code = "model_not_found"};
    }
    refuse_unsupported(body);
    ApiRequest out;
    out.endpoint = endpoint;
    out.generate = defaults;
    if (endpoint == Endpoint::chat) {
        out.messages = messages_of(body);
    } else {
        read_prompt(body, out.generate);
    }
    constexpr std::int64_t kTokensMax = std::numeric_limits<std::int32_t>::max();
    std::optional<std::int64_t> tokens = integer(body, "max_completion_tokens", 1, kTokensMax);
    if (!tokens) {
        tokens = integer(body, "max_tokens", 1, kTokensMax);
    }
    out.generate.max_tokens = tokens                       ? static_cast<std::uint32_t>(*tokens)
                              : endpoint == Endpoint::chat ? 0
                                                           : kCompletionTokensDefault;
    out.generate.temperature = static_cast<float>(number(body, "temperature", 0, 2, 1));
    out.generate.top_p = static_cast<float>(number(body, "top_p", 0, 1, 1));
    if (out.generate.top_p == 0) {
        out.generate.temperature = 0;  // a nucleus of nothing is the likeliest token
        out.generate.top_p = 1;
    }
    out.generate.top_k = static_cast<std::uint32_t>(integer(body, "top_k", 0, 1 << 20).value_or(0));
    constexpr std::int64_t kSeedMin = std::numeric_limits<std::int64_t>::min();
    if (const auto seed = integer(body, "seed", kSeedMin, std::numeric_limits<std::int64_t>::max())) {
        out.generate.seed = static_cast<std::uint64_t>(*seed);
    }
    out.generate.stop_strings = stops_of(body);
    read_logprobs(endpoint, body, out.generate);
    out.stream = boolean(body, "stream", false);
    if (const Json* options = find(body, "stream_options")) {
        if (!out.stream || !options->is_object()) {
            refuse("stream_options", "stream_options must be an object, and goes with stream = true only");
        }
        out.include_usage = boolean(*options, "include_usage", false);
    }
    read_extension(body, out);
    return out;
}

}  // namespace

std::variant<ApiRequest, ApiError> parse_request(Endpoint endpoint, std::string_view body, const std::string& model,
                                                 const GenerateRequest& defaults) {
    const Json parsed = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_discarded()) {
        return ApiError{.message = "the body is not JSON"};
    }
    try {
        return read(endpoint, parsed, model, defaults);
    } catch (const ApiError& error) {
        return error;
    }
}

}  // namespace lynx::serve
