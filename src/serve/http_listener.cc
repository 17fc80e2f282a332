#include "serve/http_listener.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <string_view>

#include "base/try.h"
#include "node/endpoint.h"
#include "serve/http_error.h"
#include "transport/tcp/socket.h"

namespace lynx::serve {
namespace {

/// Takes as long for a wrong key as for a right one of the same length.
bool same_secret(std::string_view a, std::string_view b) noexcept {
    unsigned char difference = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
        difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
    }
    return difference == 0;
}

bool begins_with(std::string_view text, std::string_view beginning) {
    return text.substr(0, beginning.size()) == beginning;
}

}  // namespace

Result<std::unique_ptr<httplib::Server>> make_http_server(const HttpSecurity& security) {
    if (!security.tls()) {
        return std::make_unique<httplib::Server>();
    }
    auto server = std::make_unique<httplib::SSLServer>(security.certificate.c_str(), security.private_key.c_str());
    if (!server->is_valid() || SSL_CTX_check_private_key(server->ssl_context()) != 1 ||
        SSL_CTX_set_min_proto_version(server->ssl_context(), TLS1_2_VERSION) != 1) {
        return Status{ErrorCode::invalid_argument,
                      "HTTP: expected PEM files of a certificate and its private key, actual \"" +
                          security.certificate + "\" and \"" + security.private_key + "\""};
    }
    return std::unique_ptr<httplib::Server>(std::move(server));
}

Result<std::uint16_t> bind_http(httplib::Server& server, const ServeConfig& config) {
    LYNX_ASSIGN(const node::Endpoint endpoint, node::parse_endpoint(config.listen));
    const bool guarded = config.http.tls() && !config.api_keys.empty();
    if (!guarded && !config.http.allow_open) {
        if (const auto near = transport::resolve(endpoint.host, endpoint.port, transport::Reach::loopback);
            !near.ok()) {
            return near.status().with_context("HTTP beyond loopback needs TLS and an API key, or a guard in front");
        }
    }
    int port = endpoint.port;
    if (port == 0) {
        port = server.bind_to_any_port(endpoint.host);
    } else if (!server.bind_to_port(endpoint.host, port)) {
        port = -1;
    }
    if (port < 0) {
        return Status{ErrorCode::io, "cannot listen on " + config.listen};
    }
    return static_cast<std::uint16_t>(port);
}

httplib::Server::HandlerResponse HttpGuard::admit(const httplib::Request& request, httplib::Response& response) const {
    using Answer = httplib::Server::HandlerResponse;
    const std::string origin = request.get_header_value("Origin");
    const auto& allowed = config_.cors_origins;
    const bool anyone = std::find(allowed.begin(), allowed.end(), "*") != allowed.end();
    if (!origin.empty() && (anyone || std::find(allowed.begin(), allowed.end(), origin) != allowed.end())) {
        response.set_header("Access-Control-Allow-Origin", anyone ? "*" : origin);
        response.set_header("Vary", "Origin");
        response.set_header("Access-Control-Expose-Headers", "X-Request-Id");
        if (request.method == "OPTIONS") {  // before the key: a browser asks without it
            response.set_header("Access-Control-Allow-Methods", "GET, POST");
            response.set_header("Access-Control-Allow-Headers",
                                "Authorization, Content-Type, Last-Event-ID, traceparent");
            response.set_header("Access-Control-Max-Age", "600");
            response.status = 204;
            return Answer::Handled;
        }
    }
    const bool guarded = begins_with(request.path, "/v1/") || begins_with(request.path, "/lynx/");
    if (config_.api_keys.empty() || !guarded || knows(request)) {
        return Answer::Unhandled;
    }
    send(response, {.http_status = 401,
                    .type = "authentication_error",
                    .message = "a valid API key is needed as a bearer token",
                    .code = "invalid_api_key"});
    return Answer::Handled;
}

bool HttpGuard::knows(const httplib::Request& request) const {
    const std::string given = request.get_header_value("Authorization");
    bool known = false;
    for (const std::string& key : config_.api_keys) {
        known = same_secret(given, "Bearer " + key) || known;
    }
    return known;
}

}  // namespace lynx::serve
