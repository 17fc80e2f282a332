// How requests end in a Session, the events that wait for its owner, and the credit that goes back as pages are
// released.
#include <cstddef>
#include <string>
#include <utility>

#include "wire/session_state.h"

namespace lynx::wire {
namespace {

bool is_page_of(const Event& event, const RequestRecord& r) {
    const auto* page = std::get_if<PageReceived>(&event);
    return page != nullptr && page->key.request == r.request && page->key.generation == r.generation;
}

}  // namespace

void Session::State::end_request(RequestRecord& record, Nanos now) {
    record.live = false;
    drop_pages(record);
    drop_events(record, now);
    end_on_lane(record, Lane::high, now);
    if (sends_pages()) {
        end_on_lane(record, Lane::low, now);
    }
}

/// Queues our abort_done on that lane. A page of the request that is half sent there is completed before it.
void Session::State::end_on_lane(RequestRecord& record, Lane lane, Nanos now) {
    record.end_sent[static_cast<std::size_t>(lane)] = true;
    push_control(lane, AbortDone{record.request, record.generation}, now);
}

/// Forgets the request once neither side can send anything of it any more. `record` is invalid afterwards.
void Session::State::settle(RequestRecord& record) {
    const auto high = static_cast<std::size_t>(Lane::high);
    const auto low = static_cast<std::size_t>(Lane::low);
    const bool low_quiet = sends_pages() ? record.end_sent[low] : record.end_received[low];
    if (record.live || !record.end_sent[high] || !record.end_received[high] || !low_quiet) {
        return;
    }
    if (record.aborted_here) {
        push_event(Lane::high, AbortDone{record.request, record.generation});
    }
    requests.erase(record);
}

void Session::State::push_event(Lane lane, Event event) {
    std::deque<Event>& events = lane_in(lane).events;
    if (const auto* p = std::get_if<Progress>(&event); p != nullptr && !events.empty()) {
        auto* last = std::get_if<Progress>(&events.back());
        if (last != nullptr && last->request == p->request && last->generation == p->generation) {
            *last = *p;
            return;
        }
    }
    if (!std::holds_alternative<PageReceived>(event) && ++control_events > kControlEventsMax) {
        fail({ErrorCode::limit_exceeded, std::to_string(kControlEventsMax) + " events wait to be polled"}, true);
        return;
    }
    events.push_back(std::move(event));
}

/// Drops pages of the request that arrived but were not polled, and turns one being received into a late one.
void Session::State::drop_events(const RequestRecord& record, Nanos now) {
    for (const Lane lane : kBothLanes) {
        LaneIn& i = lane_in(lane);
        std::uint64_t bytes = 0;
        std::erase_if(i.events, [&](const Event& event) {
            if (!is_page_of(event, record)) {
                return false;
            }
            bytes += std::get<PageReceived>(event).credit;
            ++stats.pages_dropped_late;
            return true;
        });
        i.held -= bytes;
        free_credit(lane, bytes, now);
        const kv::PageKey& key = i.header.key;
        if (i.in_body && i.header.type == FrameType::page && key.request == record.request &&
            key.generation == record.generation) {
            i.drop = true;
            i.body = {};
        }
    }
}

void Session::State::free_credit(Lane lane, std::uint64_t bytes, Nanos now) {
    LaneIn& i = lane_in(lane);
    i.freed += bytes;
    if (i.freed == 0) {
        return;
    }
    if (i.freed >= i.window / kCreditShare) {
        flush_credit(lane, now);
    } else if (!i.flush_at) {
        // Held back to save frames, but never for long: the sender may be waiting for just these bytes.
        i.flush_at = now + kCreditFlush;
    }
}

void Session::State::flush_credit(Lane lane, Nanos now) {
    LaneIn& i = lane_in(lane);
    i.flush_at.reset();
    if (i.freed == 0 || !status.ok()) {
        return;
    }
    push_control(Lane::high, Credit{lane, i.freed}, now);
    i.allowance += i.freed;
    i.freed = 0;
}

}  // namespace lynx::wire
