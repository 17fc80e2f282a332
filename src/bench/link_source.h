// The link benchmark's source: a prefill node without engine and codec.
#pragma once

#include <stop_token>

#include "lynx/node.h"
#include "lynx/status.h"
#include "node/peer_server.h"

namespace lynx::bench {

/// Serves the sinks that come to `server` until `stop`. As PeerServer::run.
[[nodiscard]] Status serve_sinks(node::PeerServer& server, const LinkEmulation& link, const std::stop_token& stop);

}  // namespace lynx::bench
