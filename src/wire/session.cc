// Session: the API, death and timers. Sending: session_send.cc; receiving: session_recv.cc; endings, events and credit:
// session_requests.cc.
#include "wire/session.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/try.h"
#include "wire/session_state.h"

namespace lynx::wire {
namespace {

std::string seconds(Nanos t) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g s", base::to_seconds(t));
    return text;
}

}  // namespace

Session::State::State(SessionOptions o, Nanos now)
    : options(std::move(o)),
      requests(options.hello.geometry, options.hello.role == Role::decode),
      born(now),
      last_received(now),
      last_sent(now) {
    options.payload_bytes_max = std::min<std::size_t>(options.payload_bytes_max, kPayloadBytesMax);
    Hello& hello = options.hello;
    hello.version = kProtocolVersion;
    hello.credit_bytes = options.credit_bytes;
    hello.payload_bytes_max = static_cast<std::uint32_t>(options.payload_bytes_max);
    hello.requests_max = options.requests_max;
    const auto timeout_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options.peer_timeout).count();
    hello.peer_timeout_ms = static_cast<std::uint32_t>(std::clamp<std::int64_t>(timeout_ms, 0, UINT32_MAX));
    for (const Lane lane : kBothLanes) {
        lane_in(lane).window = lane_in(lane).allowance = options.credit_bytes;
        push_control(lane, hello, now);
    }
}

void Session::State::fail(Status reason, bool tell_peer) {
    if (!status.ok()) {
        return;
    }
    status = std::move(reason);
    for (LaneOut& o : out) {
        // A half-sent frame is completed, so that what follows still parses; everything else is forgotten.
        const bool keep_front = o.started && !o.key.has_value();
        o.control.erase(o.control.begin() + (keep_front ? 1 : 0), o.control.end());
        o.control_bytes = keep_front ? o.control.front().frame.size() : 0;
        o.pages.clear();
        o.page_bytes = 0;
        if (!o.started) {
            o.staged = false;
            o.payload.reset();
        }
    }
    for (LaneIn& i : in) {
        i.body = {};
        i.flush_at.reset();
    }
    if (tell_peer) {
        queue_goodbye(status);
    }
}

std::string Session::State::where(Lane lane) const {
    return std::string(to_string(lane)) + " lane, frame at byte " + std::to_string(lane_in(lane).frame_at);
}

// --- API ---

Session::Session(SessionOptions options, Nanos now) : state_(std::make_unique<State>(std::move(options), now)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Status Session::recv(Lane lane, base::ByteView bytes, Nanos now) { return state_->receive(lane, bytes, now); }
base::ByteView Session::send_view(Lane lane, Nanos /*now*/) { return state_->view(lane); }
void Session::sent(Lane lane, std::size_t n, Nanos now) { state_->written(lane, n, now); }
std::optional<Lane> Session::next_lane(Nanos now) { return state_->next(now); }
const Status& Session::status() const noexcept { return state_->status; }
const SessionStats& Session::stats() const noexcept { return state_->stats; }

Nanos Session::timeout() const noexcept {
    const State& s = *state_;
    if (!s.status.ok()) {
        return Nanos::max();
    }
    Nanos t = s.ready ? std::min(s.last_received + s.options.peer_timeout, s.last_sent + s.options.heartbeat)
                      : s.born + s.options.handshake_timeout;
    for (const LaneIn& i : s.in) {
        t = std::min(t, i.flush_at.value_or(Nanos::max()));
    }
    return t;
}

void Session::on_timeout(Nanos now) {
    State& s = *state_;
    if (!s.status.ok()) {
        return;
    }
    if (!s.ready && now >= s.born + s.options.handshake_timeout) {
        const Lane missing = s.lane_in(Lane::high).hello ? Lane::low : Lane::high;
        s.fail({ErrorCode::timeout, "handshake: no hello on the " + std::string(to_string(missing)) + " lane within " +
                                        seconds(s.options.handshake_timeout)},
               true);
        return;
    }
    if (s.ready && now >= s.last_received + s.options.peer_timeout) {
        s.fail({ErrorCode::peer_lost, "the peer was silent for " + seconds(now - s.last_received) + ", allowed are " +
                                          seconds(s.options.peer_timeout)},
               true);
        return;
    }
    if (s.ready && now >= s.last_sent + s.options.heartbeat) {
        s.last_sent = now;
        if (s.lane_out(Lane::high).control.empty()) {
            s.push_control(Lane::high, Heartbeat{}, now);
        }
    }
    for (const Lane lane : kBothLanes) {
        if (const auto at = s.lane_in(lane).flush_at; at && now >= *at) {
            s.flush_credit(lane, now);
        }
    }
}

std::optional<Event> Session::poll_event() {
    State& s = *state_;
    if (!s.ready) {
        return std::nullopt;  // frames of the high lane may precede the low lane's hello; PeerReady still comes first
    }
    if (!s.ready_polled) {
        s.ready_polled = true;
        return PeerReady{s.peer};
    }
    for (LaneIn& i : s.in) {
        if (!i.events.empty()) {
            Event event = std::move(i.events.front());
            i.events.pop_front();
            s.control_events -= std::holds_alternative<PageReceived>(event) ? 0U : 1U;
            return event;
        }
    }
    return std::nullopt;
}

std::size_t Session::queued_bytes(Lane lane) const noexcept {
    const LaneOut& o = state_->lane_out(lane);
    const std::size_t half_sent = !o.started ? 0 : o.key ? o.total - o.offset : 0;
    return o.control_bytes + o.page_bytes + o.pages.size() * kHeaderBytes + half_sent -
           (o.started && !o.key ? o.offset : 0);
}

std::size_t Session::send_room() const noexcept {
    std::size_t used = 0;
    for (const LaneOut& o : state_->out) {
        used += o.page_bytes;
    }
    return used >= state_->options.send_queue_bytes_max ? 0 : state_->options.send_queue_bytes_max - used;
}

bool Session::idle() const noexcept {
    return std::all_of(state_->out.begin(), state_->out.end(),
                       [](const LaneOut& o) { return !o.started && o.control.empty() && o.pages.empty(); });
}

void Session::close(const Status& reason, Nanos /*now*/) {
    State& s = *state_;
    if (!s.status.ok()) {
        return;
    }
    if (!reason.ok()) {
        s.fail(reason, true);
        return;
    }
    s.fail({ErrorCode::cancelled, "the session was closed on this side"}, false);
    s.queue_goodbye(reason);
}

void Session::link_failed(Lane lane, const Status& reason) {
    State& s = *state_;
    const LaneIn& i = s.lane_in(lane);
    std::string message = reason.message();
    if (i.in_body) {
        message += ", in the middle of a " + std::string(to_string(i.header.type)) + " frame (" +
                   std::to_string(i.body_have) + " of " + std::to_string(i.header.body_bytes) + " bytes)";
    } else if (i.header_have > 0) {
        message += ", in the middle of a frame header (" + std::to_string(i.header_have) + " of " +
                   std::to_string(kHeaderBytes) + " bytes)";
    }
    s.fail({reason.code(), std::move(message)}, false);
}

void Session::abort(const Abort& reason, Nanos now) {
    State& s = *state_;
    RequestRecord* record = s.requests.find(reason.request, reason.generation);
    if (record == nullptr || !record->live) {
        return;
    }
    Abort told = reason;
    told.code = reason.code == ErrorCode::ok ? ErrorCode::cancelled : reason.code;
    s.push_control(Lane::high, told, now);
    record->aborted_here = true;
    s.end_request(*record, now);
}

void Session::release(const PageReceived& page, Nanos now) {
    State& s = *state_;
    LaneIn& i = s.lane_in(lane_of(page.key));
    LYNX_CHECK(page.credit <= i.held);  // a page released twice would hand out credit that does not exist
    i.held -= page.credit;
    if (s.status.ok()) {
        s.free_credit(lane_of(page.key), page.credit, now);
    }
}

Status Session::request(const Request& request, Nanos now) {
    State& s = *state_;
    LYNX_TRY(s.status);
    if (s.options.hello.role != Role::decode || !s.ready) {
        return {ErrorCode::invalid_argument, s.ready ? "request: only the decode side asks for a prefill"
                                                     : "request: the handshake is not complete"};
    }
    LYNX_TRY(validate(request));
    const std::size_t bytes = request.prompt.size() * sizeof(std::int32_t);
    if (s.lane_out(Lane::high).control_bytes + bytes > kControlBytesMax / 2) {
        return {ErrorCode::limit_exceeded, "request: " + std::to_string(s.lane_out(Lane::high).control_bytes) +
                                               " bytes of control frames wait already"};
    }
    LYNX_TRY(s.requests.add(request, std::min(s.options.requests_max, s.peer.requests_max)));
    s.push_control(Lane::high, request, now);
    return s.status;
}

void Session::done(const Done& done, Nanos now) {
    State& s = *state_;
    RequestRecord* record = s.requests.find(done.request, done.generation);
    if (record == nullptr || !record->live) {
        return;
    }
    s.push_control(Lane::high, done, now);
    s.end_request(*record, now);
}

Status Session::send_page(const kv::PageKey& key, SharedPayload payload, Nanos now) {
    State& s = *state_;
    LYNX_TRY(s.status);
    const RequestRecord* record = s.requests.find(key.request, key.generation);
    if (record == nullptr || !record->live) {
        return {ErrorCode::cancelled, "send_page: request " + std::to_string(key.request) + " generation " +
                                          std::to_string(key.generation) + " is over"};
    }
    if (!s.sends_pages() || payload == nullptr || payload->empty()) {
        return {ErrorCode::invalid_argument, "send_page: only the prefill side sends pages, and none is empty"};
    }
    LYNX_TRY(s.requests.check_key(*record, key));
    LaneOut& o = s.lane_out(lane_of(key));
    const std::size_t bytes_max =
        std::min<std::size_t>({s.options.payload_bytes_max, s.peer.payload_bytes_max,
                               o.window > kHeaderBytes ? static_cast<std::size_t>(o.window) - kHeaderBytes : 0});
    if (payload->size() > bytes_max) {
        return {ErrorCode::limit_exceeded, "send_page: a page of " + std::to_string(payload->size()) +
                                               " bytes can never be sent, the peer takes at most " +
                                               std::to_string(bytes_max)};
    }
    if (payload->size() > send_room()) {
        return {ErrorCode::limit_exceeded,
                "send_page: the send queue is full (" + std::to_string(s.options.send_queue_bytes_max) + " bytes)"};
    }
    const SendKey order{.cls = key.tier == 0 ? SendClass::anchor : SendClass::later,
                        .arrival = record->arrival,
                        .key = key,
                        .sequence = ++s.sequence,
                        .queued_at = now};
    o.page_bytes += payload->size();
    o.pages.insert(PageEntry{order, std::move(payload)});
    return {};
}

void Session::progress(const Progress& progress, Nanos now) {
    State& s = *state_;
    const RequestRecord* record = s.requests.find(progress.request, progress.generation);
    if (record == nullptr || !record->live) {
        return;
    }
    LaneOut& o = s.lane_out(Lane::high);
    for (ControlEntry& entry : o.control) {
        const bool fixed = &entry == &o.control.front() && o.staged && !o.key;
        if (!fixed && entry.type == FrameType::progress && entry.order.key.request == progress.request &&
            entry.order.key.generation == progress.generation) {
            entry.frame = encode_frame(progress, Lane::high);  // same length
            return;
        }
    }
    s.push_control(Lane::high, progress, now);
}

void Session::first_token(const FirstToken& token, Nanos now) {
    State& s = *state_;
    const RequestRecord* record = s.requests.find(token.request, token.generation);
    if (record != nullptr && record->live) {
        s.push_control(Lane::high, token, now);
    }
}

}  // namespace lynx::wire
