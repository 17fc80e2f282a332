// Session settings that both nodes share: what the CLI may change and what follows from the model.
#pragma once

#include "engine/engine.h"
#include "lynx/node.h"
#include "node/model.h"
#include "wire/session.h"

namespace lynx::node {

[[nodiscard]] inline wire::SessionOptions session_options(const engine::ModelInfo& info, wire::Role role,
                                                          double peer_timeout_s) {
    wire::SessionOptions options;
    options.hello = hello_of(info, role);
    options.peer_timeout = base::from_seconds(peer_timeout_s);
    options.heartbeat = options.peer_timeout / 5;
    return options;
}

}  // namespace lynx::node
