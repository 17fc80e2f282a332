// The sending half of Session: the queues of a lane, the frame being written, and which lane goes next.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "wire/session_state.h"

namespace lynx::wire {

void Session::State::push_control(Lane lane, const Message& message, Nanos now) {
    if (!status.ok()) {
        return;
    }
    LaneOut& o = lane_out(lane);
    ControlEntry entry;
    entry.frame = encode_frame(message, lane);
    const Result<FrameHeader> header = decode_header(entry.frame);
    LYNX_CHECK(header.ok());
    entry.type = header.value().type;
    entry.order = {
        .cls = SendClass::control, .arrival = 0, .key = header.value().key, .sequence = ++sequence, .queued_at = now};
    if (o.control.size() >= kControlFramesMax || o.control_bytes + entry.frame.size() > kControlBytesMax) {
        fail({ErrorCode::limit_exceeded, "the peer does not take control frames: " + std::to_string(o.control.size()) +
                                             " frames, " + std::to_string(o.control_bytes) + " bytes wait"},
             true);
        return;
    }
    o.control_bytes += entry.frame.size();
    o.control.push_back(std::move(entry));
}

/// Goes where the stream stands between two frames, so that it need not wait for a large half-sent one.
void Session::State::queue_goodbye(const Status& reason) {
    const bool high_busy = lane_out(Lane::high).started;
    const bool low_busy = lane_out(Lane::low).started;
    const Lane lane = high_busy && !low_busy ? Lane::low : Lane::high;
    goodbye_lane = lane;
    LaneOut& o = lane_out(lane);
    ControlEntry entry;
    entry.type = FrameType::goodbye;
    entry.frame = encode_frame(Goodbye{reason.code(), reason.message()}, lane);
    entry.order = {.cls = SendClass::control, .arrival = 0, .key = {}, .sequence = ++sequence, .queued_at = last_sent};
    o.control_bytes += entry.frame.size();
    o.control.push_back(std::move(entry));
}

/// The order of the frame that the lane would send now: the half-sent one, else control, else a page that credit
/// allows.
const SendKey* Session::State::top(Lane lane) const noexcept {
    const LaneOut& o = lane_out(lane);
    if (!status.ok() && goodbye_lane != lane) {
        return nullptr;
    }
    if (o.started) {
        return &o.order;
    }
    if (!o.control.empty()) {
        return &o.control.front().order;
    }
    if (o.pages.empty()) {
        return nullptr;
    }
    const PageEntry& page = *o.pages.begin();
    return charge_of(page.payload->size()) <= o.credit ? &page.order : nullptr;
}

std::optional<Lane> Session::State::next(Nanos now) const noexcept {
    const SendKey* high = top(Lane::high);
    const SendKey* low = top(Lane::low);
    if (high == nullptr || low == nullptr) {
        return high != nullptr ? std::optional(Lane::high) : low != nullptr ? std::optional(Lane::low) : std::nullopt;
    }
    return low_goes_first(*high, *low, now, options.promote_after, anchor_went_last) ? Lane::low : Lane::high;
}

/// Prepares the lane's first frame for writing. Until a byte of it is written it stays in its queue.
void Session::State::stage(LaneOut& o) {
    o.staged = true;
    o.offset = 0;
    o.head_payload = 0;
    if (!o.control.empty()) {
        o.key.reset();
        o.payload.reset();
        o.order = o.control.front().order;
        o.total = o.control.front().frame.size();
        return;
    }
    const PageEntry& page = *o.pages.begin();
    o.key = page.order.key;
    o.order = page.order;
    o.payload = page.payload;
    const base::Bytes& payload = *page.payload;
    o.total = kHeaderBytes + payload.size();
    o.head_payload = std::min(payload.size(), kCoalesceBytes - kHeaderBytes);
    const auto header = encode_page_header(page.order.key, static_cast<std::uint32_t>(payload.size()));
    o.head.resize(kHeaderBytes + o.head_payload);
    std::memcpy(o.head.data(), header.data(), kHeaderBytes);
    std::memcpy(o.head.data() + kHeaderBytes, payload.data(), o.head_payload);
}

base::ByteView Session::State::view(Lane lane) {
    LaneOut& o = lane_out(lane);
    const SendKey* first = top(lane);
    if (first == nullptr) {
        return {};
    }
    if (!o.started && (!o.staged || o.order.sequence != first->sequence)) {
        stage(o);
    }
    if (!o.key) {
        return base::ByteView(o.control.front().frame).subspan(o.offset);
    }
    if (o.offset < o.head.size()) {
        return base::ByteView(o.head).subspan(o.offset);
    }
    return base::ByteView(*o.payload).subspan(o.offset - kHeaderBytes);
}

void Session::State::written(Lane lane, std::size_t n, Nanos now) {
    if (n == 0) {
        return;
    }
    LaneOut& o = lane_out(lane);
    LYNX_CHECK(o.staged && o.offset + n <= o.total);
    last_sent = now;
    stats.bytes_sent[static_cast<std::size_t>(lane)] += n;
    if (!o.started) {
        o.started = true;
        if (o.key) {
            LYNX_CHECK(o.pages.erase(PageEntry{o.order, nullptr}) == 1);
            o.page_bytes -= o.payload->size();
            o.credit -= o.total;
            anchor_went_last = o.order.cls == SendClass::anchor;
        }
    }
    o.offset += n;
    if (o.offset < o.total) {
        return;
    }
    o.started = false;
    o.staged = false;
    if (!o.key) {
        o.control_bytes -= o.control.front().frame.size();
        o.control.pop_front();
        return;
    }
    ++stats.pages_sent;
    o.payload.reset();
    o.key.reset();
}

void Session::State::drop_pages(const RequestRecord& record) {
    for (LaneOut& o : out) {
        if (o.staged && !o.started) {
            o.staged = false;  // restaged from what is left
            o.payload.reset();
            o.key.reset();
        }
        std::erase_if(o.pages, [&](const PageEntry& page) {
            const kv::PageKey& key = page.order.key;
            if (key.request != record.request || key.generation != record.generation) {
                return false;
            }
            o.page_bytes -= page.payload->size();
            return true;
        });
    }
}

}  // namespace lynx::wire
