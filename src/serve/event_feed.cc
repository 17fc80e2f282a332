#include "serve/event_feed.h"

#include <utility>

namespace lynx::serve {

void EventFeed::publish(std::string json) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(json));
    if (events_.size() > kEventsMax) {
        events_.pop_front();
        ++first_;
    }
    changed_.notify_all();
}

EventFeed::News EventFeed::wait(std::uint64_t from, std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    if (from > first_ + events_.size()) {
        from = 0;
    }
    changed_.wait_for(lock, longest, [&] { return from < first_ + events_.size(); });
    News news;
    if (from > 0 && from < first_) {
        news.events = "data: {\"type\":\"missed\",\"events\":" + std::to_string(first_ - from) + "}\n\n";
    }
    from = std::max(from, first_);
    for (; from < first_ + events_.size(); ++from) {
        news.events.append("id: ").append(std::to_string(from + 1)).append("\ndata: ");
        news.events.append(events_[from - first_]).append("\n\n");
    }
    news.next = from;
    return news;
}

bool EventFeed::add_watcher() {
    const std::lock_guard lock(mutex_);
    if (watchers_ == kWatchersMax) {
        return false;
    }
    ++watchers_;
    return true;
}

void EventFeed::remove_watcher() {
    const std::lock_guard lock(mutex_);
    --watchers_;
}

}  // namespace lynx::serve
