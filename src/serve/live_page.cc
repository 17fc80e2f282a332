#include "serve/live_page.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/http_error.h"

namespace lynx::serve {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStateEvery = std::chrono::seconds(1);
constexpr auto kLookAtClient = std::chrono::milliseconds(200);

std::uint64_t last_event(const httplib::Request& request) {
    const std::string text = request.get_header_value("Last-Event-ID");
    std::uint64_t number = 0;
    static_cast<void>(std::from_chars(text.data(), text.data() + text.size(), number));  // no number: from the start
    return number;
}

}  // namespace

void send_page(httplib::Response& response) {
    response.set_header("Content-Security-Policy",
                        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
                        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_content(page_html().data(), page_html().size(), "text/html; charset=utf-8");
}

void send_events(const httplib::Request& request, httplib::Response& response, EventFeed& feed,
                 const std::function<ServerState()>& state) {
    if (!feed.add_watcher()) {
        send(response, {.http_status = 429,
                        .type = "rate_limit_error",
                        .message = std::to_string(EventFeed::kWatchersMax) + " others watch already",
                        .code = "too_many_watchers"});
        return;
    }
    struct Reader {
        std::uint64_t next;
        Clock::time_point state_due{};  // at once
    };
    response.set_header("Cache-Control", "no-cache");
    response.set_chunked_content_provider(
        "text/event-stream",
        [&feed, state, reader = std::make_shared<Reader>(Reader{.next = last_event(request)})](
            std::size_t /*offset*/, httplib::DataSink& sink) {
            EventFeed::News news = feed.wait(reader->next, kLookAtClient);
            reader->next = news.next;
            if (Clock::now() >= reader->state_due) {
                reader->state_due = Clock::now() + kStateEvery;
                const ServerState now = state();
                news.events += "data: " + server_event(now) + "\n\n";
                if (now.draining) {
                    static_cast<void>(sink.write(news.events.data(), news.events.size()));
                    sink.done();
                    return true;
                }
            }
            return news.events.empty() ? sink.is_writable() : sink.write(news.events.data(), news.events.size());
        },
        [&feed](bool /*complete*/) { feed.remove_watcher(); });
}

}  // namespace lynx::serve
