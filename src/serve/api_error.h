// What a failure is to an HTTP client: the API's error object and a status code.
#pragma once

#include <string>

#include "lynx/status.h"

namespace lynx::serve {

struct ApiError {
    int http_status = 400;
    std::string type = "invalid_request_error";
    std::string message{};
    std::string param{};  ///< empty: null
    std::string code{};   ///< empty: null
};

[[nodiscard]] std::string to_json(const ApiError& error);
/// Precondition: not ok.
[[nodiscard]] ApiError error_of(const Status& status);

}  // namespace lynx::serve
