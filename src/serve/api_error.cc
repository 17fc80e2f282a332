#include "serve/api_error.h"

#include <nlohmann/json.hpp>

namespace lynx::serve {

std::string to_json(const ApiError& error) {
    using Json = nlohmann::json;
    const auto or_null = [](const std::string& s) { return s.empty() ? Json() : Json(s); };
    const Json body = {{"error",
                        {{"message", error.message},
                         {"type", error.type},
                         {"param", or_null(error.param)},
                         {"code", or_null(error.code)}}}};
    return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ApiError error_of(const Status& status) {
    ApiError error{.message = status.message()};
    switch (status.code()) {
        case ErrorCode::invalid_argument: break;
        case ErrorCode::limit_exceeded:
            error.http_status = 429;
            error.type = "rate_limit_error";
            error.code = "queue_full";
            break;
        case ErrorCode::peer_lost:
        case ErrorCode::timeout:
        case ErrorCode::cancelled:
            error.http_status = 503;
            error.type = "server_error";
            error.code = std::string(to_string(status.code()));
            break;
        default:
            error.http_status = 500;
            error.type = "server_error";
            error.code = std::string(to_string(status.code()));
            break;
    }
    return error;
}

}  // namespace lynx::serve
