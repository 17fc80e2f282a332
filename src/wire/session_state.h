// The inside of Session, shared by session.cc (API, timers), session_send.cc and session_recv.cc. Not an interface.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <set>
#include <string>

#include "wire/frame.h"
#include "wire/requests.h"
#include "wire/send_order.h"
#include "wire/session.h"

namespace lynx::wire {

inline constexpr std::size_t kControlFramesMax = 8192;                  ///< unsent, per lane
inline constexpr std::size_t kControlBytesMax = std::size_t{64} << 20;  ///< unsent, per lane
inline constexpr std::size_t kControlEventsMax = 65536;                 ///< not polled; pages are bounded by credit
inline constexpr std::size_t kCoalesceBytes = 16384;     ///< header and start of a payload, sent as one piece
inline constexpr std::size_t kBodyReserveBytes = 65536;  ///< a control body's memory grows with what arrives
inline constexpr Nanos kCreditFlush = std::chrono::milliseconds(5);    ///< the longest that freed credit is held back
inline constexpr Nanos kHeartbeatMin = std::chrono::milliseconds(10);  ///< however impatient a peer says it is
inline constexpr std::size_t kCreditShare = 8;  ///< credit returns once 1/8 of the window is free

struct PageEntry {
    SendKey order;
    SharedPayload payload;
    bool operator<(const PageEntry& other) const noexcept { return sends_before(order, other.order); }
};

struct ControlEntry {
    SendKey order;
    FrameType type = FrameType::heartbeat;
    base::Bytes frame;
};

/// What leaves on one lane: the queues, and the frame that is being written.
struct LaneOut {
    std::deque<ControlEntry> control;
    std::size_t control_bytes = 0;
    std::set<PageEntry> pages;
    std::size_t page_bytes = 0;  ///< payload bytes in `pages`
    std::uint64_t credit = 0;    ///< frame bytes of pages that the peer still takes
    std::uint64_t window = 0;    ///< what it granted at first

    // The frame being written. `staged` but not `started`: a better one may still take its place.
    bool staged = false;
    bool started = false;
    std::optional<kv::PageKey> key;  ///< of a page; empty: control.front()
    SendKey order;                   ///< of the staged frame
    base::Bytes head;                ///< of a page: header and the first bytes of the payload
    SharedPayload payload;
    std::size_t head_payload = 0;  ///< payload bytes inside `head`
    std::size_t offset = 0;        ///< frame bytes written
    std::size_t total = 0;
};

/// What arrives on one lane.
struct LaneIn {
    std::array<std::byte, kHeaderBytes> header_bytes{};
    std::size_t header_have = 0;
    bool in_body = false;
    bool drop = false;  ///< a late page: its payload is counted, not stored
    FrameHeader header;
    base::Bytes body;
    std::size_t body_have = 0;
    std::uint64_t offset = 0;    ///< bytes received on this lane
    std::uint64_t frame_at = 0;  ///< offset of the current frame
    bool hello = false;          ///< the peer's hello came and matched
    // Credit: allowance + freed + held + (a page being received) = window.
    std::uint64_t window = 0;
    std::uint64_t allowance = 0;    ///< frame bytes of pages that the peer may still send
    std::uint64_t freed = 0;        ///< released, not yet returned to the peer
    std::uint64_t held = 0;         ///< in events or with the caller
    std::optional<Nanos> flush_at;  ///< when `freed` goes back at the latest
    std::deque<Event> events;
};

struct Session::State {
    State(SessionOptions o, Nanos now);

    // --- session.cc ---
    /// Kills the session; records of requests stay until destruction, since callers hold them. `tell_peer`: the reason
    /// goes out as a goodbye.
    void fail(Status reason, bool tell_peer);
    [[nodiscard]] std::string where(Lane lane) const;
    void end_request(RequestRecord& record, Nanos now);
    void end_on_lane(RequestRecord& record, Lane lane, Nanos now);
    void settle(RequestRecord& record);
    void push_event(Lane lane, Event event);
    void drop_events(const RequestRecord& record, Nanos now);
    void free_credit(Lane lane, std::uint64_t bytes, Nanos now);
    void flush_credit(Lane lane, Nanos now);

    // --- session_send.cc ---
    void push_control(Lane lane, const Message& message, Nanos now);
    [[nodiscard]] const SendKey* top(Lane lane) const noexcept;
    [[nodiscard]] base::ByteView view(Lane lane);
    void stage(LaneOut& out);
    void written(Lane lane, std::size_t n, Nanos now);
    void drop_pages(const RequestRecord& record);
    void queue_goodbye(const Status& reason);
    [[nodiscard]] std::optional<Lane> next(Nanos now) const noexcept;

    // --- session_recv.cc ---
    [[nodiscard]] Status receive(Lane lane, base::ByteView bytes, Nanos now);
    [[nodiscard]] Status begin_frame(Lane lane, Nanos now);
    [[nodiscard]] Status begin_page(Lane lane);
    [[nodiscard]] Status end_frame(Lane lane, Nanos now);
    [[nodiscard]] Status handle(Lane lane, const Message& message, Nanos now);
    [[nodiscard]] Status handle_hello(Lane lane, const Hello& hello, Nanos now);
    [[nodiscard]] Status handle_of_request(Lane lane, const Message& message, Nanos now);

    [[nodiscard]] LaneOut& lane_out(Lane lane) noexcept { return out[static_cast<std::size_t>(lane)]; }
    [[nodiscard]] const LaneOut& lane_out(Lane lane) const noexcept { return out[static_cast<std::size_t>(lane)]; }
    [[nodiscard]] LaneIn& lane_in(Lane lane) noexcept { return in[static_cast<std::size_t>(lane)]; }
    [[nodiscard]] const LaneIn& lane_in(Lane lane) const noexcept { return in[static_cast<std::size_t>(lane)]; }
    [[nodiscard]] bool sends_pages() const noexcept { return options.hello.role == Role::prefill; }

    SessionOptions options;
    Status status;
    bool ready = false;
    bool ready_polled = false;
    Hello peer;
    RequestTable requests;
    std::array<LaneOut, kLanes> out;
    std::array<LaneIn, kLanes> in;
    std::size_t control_events = 0;
    std::uint64_t sequence = 0;
    bool anchor_went_last = false;
    std::optional<Lane> goodbye_lane;  ///< where it was queued: all that a dead session still sends
    Nanos born;
    Nanos last_received;
    Nanos last_sent;  ///< bytes, or a heartbeat queued
    SessionStats stats;
};

inline constexpr Lane kBothLanes[kLanes] = {Lane::high, Lane::low};

}  // namespace lynx::wire
