// The two forms of a log entry.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "lynx/serve.h"

namespace lynx {

std::string to_text(const RequestLog& entry) {
    if (!entry.error.ok()) {
        return entry.id + " " + entry.event + ": " + entry.error.to_string();
    }
    return entry.id + " " + entry.event + ": " + std::to_string(entry.prompt_tokens) + " + " +
           std::to_string(entry.tokens) + " tokens, " + std::to_string(entry.accepted) + " of " +
           std::to_string(entry.drafted) + " drafts accepted";
}

std::string to_json(const RequestLog& entry) {
    nlohmann::ordered_json json = {{"event", entry.event}, {"request_id", entry.id}};
    if (!entry.traceparent.empty()) {
        json["trace_id"] = entry.traceparent.substr(3, 32);
        json["parent_id"] = entry.traceparent.substr(36, 16);
    }
    json["seconds"] = entry.seconds;
    if (entry.error.ok()) {
        json["codec"] = entry.codec;
        json["prompt_tokens"] = entry.prompt_tokens;
        json["tokens"] = entry.tokens;
        json["drafted"] = entry.drafted;
        json["accepted"] = entry.accepted;
    } else {
        json["code"] = to_string(entry.error.code());
        json["error"] = entry.error.message();
    }
    return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace lynx
