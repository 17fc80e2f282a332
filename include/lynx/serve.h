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

struct ServeConfig {
    DecodeConfig decode;                    ///< model.sequences: requests that run at once
    std::string listen = "127.0.0.1:8080";  ///< loopback only; port 0 picks a free one
    std::string model_id;                   ///< what clients call the model; empty: the model's own name
    std::size_t queue_max = 64;             ///< requests that may wait for a sequence; more are answered 429
    std::vector<std::string> api_keys;      ///< any of them is needed as a bearer token; empty: none is
    GenerateRequest defaults;               ///< codec and window of a request that names none
    double drain_timeout_s = 10;            ///< what running requests get when stop is requested
    /// Called once with the bound port when requests are accepted.
    std::function<void(std::uint16_t port)> on_listening;
    /// One line per outcome (request id, what happened); may be called from several threads.
    std::function<void(const std::string& line)> on_log;
};

/// Serves until stop is requested, then drains. io, peer_lost, timeout or invalid_argument when it cannot start.
[[nodiscard]] Status run_server(const ServeConfig& config, const std::stop_token& stop);

}  // namespace lynx
