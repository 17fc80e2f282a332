// What happens on the server, for whoever watches: a ring of the newest events that each watcher reads at its own pace. No sockets.
//
// Bounded whatever watchers do: an event is kept once, a watcher is a position. One that falls behind is told how many events it missed;
// every event says all about its request, so the next one makes up for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace lynx::serve {

/// Thread-safe.
class EventFeed {
public:
    static constexpr std::size_t kEventsMax = 2048;
    static constexpr std::size_t kWatchersMax = 8;

    struct News {
        std::string events;      ///< server-sent events, ready to write; empty: none came
        std::uint64_t next = 0;  ///< where to go on
    };

    /// `json`: one line.
    void publish(std::string json);
    /// Events from number `from` on, at once if there are any, else after `longest` at most. Numbers from another life of the server start over.
    [[nodiscard]] News wait(std::uint64_t from, std::chrono::milliseconds longest);

    /// False when kWatchersMax are there already.
    [[nodiscard]] bool add_watcher();
    void remove_watcher();

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::string> events_;
    std::uint64_t first_ = 0;  // number of events_.front()
    std::size_t watchers_ = 0;
};

}  // namespace lynx::serve
