// Sends an ApiError.
#pragma once

#include <httplib.h>

#include "serve/api_error.h"

namespace lynx::serve {

void send(httplib::Response& response, const ApiError& error);

}  // namespace lynx::serve
