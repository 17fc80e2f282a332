// GET / and /lynx/events: the page that shows what the server does, and the server-sent events it lives on.
#pragma once

#include <httplib.h>

#include <functional>
#include <string_view>

#include "serve/event_feed.h"
#include "serve/live_events.h"

namespace lynx::serve {

/// index.html, as it was at build time.
[[nodiscard]] std::string_view page_html() noexcept;

/// Answers with the page. It needs nothing from elsewhere, and its policy forbids that.
void send_page(httplib::Response& response);

/// Answers with an endless stream of events: those after the Last-Event-ID that the client names, and the server's state every second. Ends when
/// state() says draining. 429 when too many watch. `feed` and `state` must outlive the connection.
void send_events(const httplib::Request& request, httplib::Response& response, EventFeed& feed,
                 const std::function<ServerState()>& state);

}  // namespace lynx::serve
