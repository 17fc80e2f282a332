// An OpenAI-compatible server on a decode node: continuous batching, streaming, metrics. Standard types only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "lynx/node.h"
#include "lynx/status.h"

namespace lynx {

/// How one request ended.
struct RequestLog {
    std::string event;        ///< "answered" or "failed"
    std::string id;           ///< as in the answer and in X-Request-Id
    std::string traceparent;  ///< the caller's W3C trace context; empty: none, or not a valid one
    double seconds = 0;       ///< since it was accepted or, once it ran, since it was sent to the prefill node
    std::string codec;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t tokens = 0;
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    Status error;  ///< of a failed one
};
/// One line for people.
[[nodiscard]] std::string to_text(const RequestLog& entry);
/// One line of JSON; no text of the client's or the model's is in it.
[[nodiscard]] std::string to_json(const RequestLog& entry);

/// Of the HTTP port.
struct HttpSecurity {
    std::string certificate;  ///< PEM file, chain behind it; with private_key: TLS
    std::string private_key;  ///< PEM file, not encrypted
    bool allow_open = false;  ///< listen beyond loopback without TLS or keys: something in front guards the port
    [[nodiscard]] bool tls() const noexcept { return !certificate.empty() || !private_key.empty(); }
};

struct ServeConfig {
    DecodeConfig decode;                    ///< model.sequences: requests that run at once
    std::string listen = "127.0.0.1:8080";  ///< port 0 picks a free one; beyond loopback TLS and an API key are needed
    HttpSecurity http;
    std::vector<std::string> cors_origins;  ///< web pages of these origins may ask; "*": of any
    std::string model_id;                   ///< what clients call the model; empty: the model's own name
    std::size_t queue_max = 64;             ///< requests that may wait for a sequence; more are answered 429
    std::vector<std::string> api_keys;      ///< any of them is needed as a bearer token; empty: none is
    GenerateRequest defaults;               ///< codec and window of a request that names none
    double drain_timeout_s = 10;            ///< what running requests get when stop is requested
    /// Called once with the bound port when requests are accepted.
    std::function<void(std::uint16_t port)> on_listening;
    /// Once per request that was accepted or refused for want of room; may be called from several threads.
    std::function<void(const RequestLog& entry)> on_log;
};

/// Serves until stop is requested, then drains. io, peer_lost, timeout or invalid_argument when it cannot start.
[[nodiscard]] Status run_server(const ServeConfig& config, const std::stop_token& stop);

}  // namespace lynx
