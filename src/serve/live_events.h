// The events of the live page, as JSON: where a request is, and how the server does. Counts and times only: no text of anybody's, no token.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lynx/node.h"

namespace lynx::serve {

/// What all events of one request share.
struct RequestHead {
    std::string id;
    std::string codec;
    double sent_s = 0;  ///< on the server's clock: seconds since it started
};

[[nodiscard]] std::string queued_event(const RequestHead& head, double now_s);
/// `state`: "running", or how it ended: "done", "failed".
[[nodiscard]] std::string progress_event(const RequestHead& head, const RequestProgress& progress,
                                         std::string_view state);
/// One that ended without ever having a sequence.
[[nodiscard]] std::string failed_event(const RequestHead& head, double now_s);

struct ServerState {
    std::string model;
    double now_s = 0;
    std::size_t running = 0;
    std::size_t waiting = 0;
    std::size_t sequences = 0;
    bool prefill_up = false;
    bool draining = false;
};
[[nodiscard]] std::string server_event(const ServerState& state);

}  // namespace lynx::serve
