// The HTTP port: plain or TLS, where it may listen, and who may come in. Routes are others' business.
#pragma once

#include <httplib.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lynx/serve.h"
#include "lynx/status.h"

namespace lynx::serve {

/// A server that speaks TLS 1.2 or 1.3 if the configuration has a certificate. invalid_argument when certificate and key cannot be used together.
[[nodiscard]] Result<std::unique_ptr<httplib::Server>> make_http_server(const HttpSecurity& security);

/// Binds to HOST:PORT; the port. Beyond loopback invalid_argument, unless there are TLS and API keys, or something else guards the port. io: the port.
[[nodiscard]] Result<std::uint16_t> bind_http(httplib::Server& server, const ServeConfig& config);

/// What happens before any route: CORS, and keys for everything under /v1 and /lynx; the page, probes and metrics are open. Thread-safe.
class HttpGuard {
public:
    explicit HttpGuard(const ServeConfig& config) : config_(config) {}
    /// Handled when the request goes no further.
    [[nodiscard]] httplib::Server::HandlerResponse admit(const httplib::Request& request,
                                                         httplib::Response& response) const;

private:
    [[nodiscard]] bool knows(const httplib::Request& request) const;

    const ServeConfig& config_;
};

}  // namespace lynx::serve
