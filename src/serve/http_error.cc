#include "serve/http_error.h"

namespace lynx::serve {
namespace {
constexpr const char* kRetryAfterSeconds = "1";
}  // namespace

void send(httplib::Response& response, const ApiError& error) {
    response.status = error.http_status;
    if (error.http_status == 429) {
        response.set_header("Retry-After", kRetryAfterSeconds);
    }
    response.set_content(to_json(error), "application/json");
}

}  // namespace lynx::serve
