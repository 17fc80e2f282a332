// The receiving half of Session: from bytes to frames to events. Everything here is fed by a possibly hostile peer.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "base/try.h"
#include "wire/session_state.h"

namespace lynx::wire {
namespace {

std::string hex(const std::array<std::uint8_t, 16>& bytes) {
    std::string text;
    for (const std::uint8_t b : bytes) {
        char two[3];
        std::snprintf(two, sizeof two, "%02x", b);
        text += two;
    }
    return text;
}

std::string_view name_of(Role role) { return role == Role::prefill ? "prefill" : "decode"; }

Status differs(std::string_view field, const std::string& expected, const std::string& actual) {
    return {ErrorCode::invalid_argument,
            "handshake: " + std::string(field) + ": expected " + expected + ", actual " + actual};
}

/// invalid_argument naming the first field in which the peer's geometry is not ours.
Status compare(const kv::Geometry& ours, const kv::Geometry& theirs) {
    if (ours.layers.size() != theirs.layers.size()) {
        return differs("geometry: layers", std::to_string(ours.layers.size()), std::to_string(theirs.layers.size()));
    }
    for (std::size_t l = 0; l < ours.layers.size(); ++l) {
        const kv::LayerGeometry& a = ours.layers[l];
        const kv::LayerGeometry& b = theirs.layers[l];
        const std::string layer = "geometry: layer " + std::to_string(l) + ": ";
        const std::pair<std::string_view, std::pair<std::uint32_t, std::uint32_t>> fields[] = {
            {"kv_heads", {a.kv_heads, b.kv_heads}},
            {"key_dim", {a.key_dim, b.key_dim}},
            {"value_dim", {a.value_dim, b.value_dim}},
            {"dtype", {static_cast<std::uint32_t>(a.dtype), static_cast<std::uint32_t>(b.dtype)}},
            {"window", {a.window, b.window}},
            {"rope dims", {a.rope.dims, b.rope.dims}},
            {"rope interleaved", {a.rope.interleaved, b.rope.interleaved}},
        };
        for (const auto& [name, values] : fields) {
            if (values.first != values.second) {
                return differs(layer + std::string(name), std::to_string(values.first), std::to_string(values.second));
            }
        }
        if (a.rope.base != b.rope.base) {
            return differs(layer + "rope base", std::to_string(a.rope.base), std::to_string(b.rope.base));
        }
        if (a.rope.scale != b.rope.scale) {
            return differs(layer + "rope scale", std::to_string(a.rope.scale), std::to_string(b.rope.scale));
        }
    }
    return {};
}

/// Which types may travel on the low lane, and towards which role.
bool may_arrive(FrameType type, Lane lane, Role receiver) {
    switch (type) {
        case FrameType::hello:
        case FrameType::goodbye: return true;
        case FrameType::heartbeat:
        case FrameType::credit:
        case FrameType::abort: return lane == Lane::high;
        case FrameType::request:
        case FrameType::done: return lane == Lane::high && receiver == Role::prefill;
        case FrameType::progress:
        case FrameType::first_token: return lane == Lane::high && receiver == Role::decode;
        case FrameType::page: return receiver == Role::decode;
        case FrameType::abort_done: return lane == Lane::high || receiver == Role::decode;
    }
    return false;
}

}  // namespace

Status Session::State::receive(Lane lane, base::ByteView bytes, Nanos now) {
    if (!status.ok()) {
        return status;
    }
    if (!bytes.empty()) {
        last_received = now;
    }
    LaneIn& i = lane_in(lane);
    stats.bytes_received[static_cast<std::size_t>(lane)] += bytes.size();
    while (!bytes.empty()) {
        std::size_t n = 0;
        Status step;
        if (!i.in_body) {
            if (i.header_have == 0) {
                i.frame_at = i.offset;
            }
            n = std::min(bytes.size(), kHeaderBytes - i.header_have);
            std::memcpy(i.header_bytes.data() + i.header_have, bytes.data(), n);
            i.header_have += n;
            if (i.header_have == kHeaderBytes) {
                step = begin_frame(lane, now);
            }
        } else {
            n = std::min<std::size_t>(bytes.size(), i.header.body_bytes - i.body_have);
            if (!i.drop) {
                i.body.insert(i.body.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
            }
            i.body_have += n;
        }
        bytes = bytes.subspan(n);
        i.offset += n;
        if (step.ok() && i.in_body && i.body_have == i.header.body_bytes) {
            step = end_frame(lane, now);
        }
        if (!step.ok()) {
            fail(step.with_context(where(lane)), true);
        }
        if (!status.ok()) {
            return status;
        }
    }
    return status;
}

Status Session::State::begin_frame(Lane lane, Nanos /*now*/) {
    LaneIn& i = lane_in(lane);
    LYNX_ASSIGN(i.header, decode_header(i.header_bytes));
    const FrameHeader& h = i.header;
    i.header_have = 0;
    i.in_body = true;
    i.drop = false;
    i.body.clear();
    i.body_have = 0;
    const std::string name = std::string(to_string(h.type)) + " frame";
    if (h.lane != lane) {
        return {ErrorCode::corrupt, name + " of the " + std::string(to_string(h.lane)) + " lane"};
    }
    if (!may_arrive(h.type, lane, options.hello.role)) {
        return {ErrorCode::corrupt,
                name + " may not arrive on this lane of a " + std::string(name_of(options.hello.role)) + " node"};
    }
    if (i.hello == (h.type == FrameType::hello) && h.type != FrameType::goodbye) {
        return {ErrorCode::corrupt, name + (i.hello ? " came before" : " before the hello")};
    }
    if (h.type == FrameType::page) {
        return begin_page(lane);
    }
    i.body.reserve(std::min<std::size_t>(h.body_bytes, kBodyReserveBytes));
    return {};
}

/// Everything about a page is checked here, before a byte of memory is taken for it.
Status Session::State::begin_page(Lane lane) {
    LaneIn& i = lane_in(lane);
    const FrameHeader& h = i.header;
    if (lane != lane_of(h.key)) {
        return {ErrorCode::corrupt, "page frame of tier " + std::to_string(h.key.tier) + " on the wrong lane"};
    }
    if (h.body_bytes == 0 || h.body_bytes > options.payload_bytes_max) {
        return {ErrorCode::corrupt, "page payload: expected 1.." + std::to_string(options.payload_bytes_max) +
                                        " bytes, actual " + std::to_string(h.body_bytes)};
    }
    const std::size_t charge = charge_of(h.body_bytes);
    if (charge > i.allowance) {
        return {ErrorCode::corrupt, "page frame of " + std::to_string(charge) + " bytes overspends the credit of " +
                                        std::to_string(i.allowance)};
    }
    const RequestRecord* record = requests.find(h.key.request, h.key.generation);
    if (record != nullptr && record->end_received[static_cast<std::size_t>(lane)]) {
        return {ErrorCode::corrupt, "page frame after its request was closed on this lane"};
    }
    LYNX_ASSIGN(const Admission admission, requests.admit(h.key));
    i.allowance -= charge;
    i.drop = admission == Admission::drop_late;
    if (!i.drop) {
        i.body.reserve(h.body_bytes);
    }
    return {};
}

Status Session::State::end_frame(Lane lane, Nanos now) {
    LaneIn& i = lane_in(lane);
    i.in_body = false;
    if (i.header.type == FrameType::page) {
        const std::size_t charge = charge_of(i.header.body_bytes);
        if (i.drop) {
            ++stats.pages_dropped_late;
            free_credit(lane, charge, now);
            return {};
        }
        ++stats.pages_received;
        i.held += charge;
        push_event(lane, PageReceived{i.header.key, std::exchange(i.body, {}), charge});
        return {};
    }
    LYNX_ASSIGN(const Message message, decode_body(i.header, i.body));
    i.body = {};
    return handle(lane, message, now);
}

Status Session::State::handle(Lane lane, const Message& message, Nanos now) {
    if (const auto* hello = std::get_if<Hello>(&message)) {
        return handle_hello(lane, *hello, now);
    }
    if (const auto* goodbye = std::get_if<Goodbye>(&message)) {
        fail(goodbye->code == ErrorCode::ok ? Status{ErrorCode::peer_lost, "the peer closed the session"}
                                            : Status{goodbye->code, "told by the peer: " + goodbye->message},
             false);
        return {};
    }
    if (const auto* credit = std::get_if<Credit>(&message)) {
        LaneOut& o = lane_out(credit->lane);
        if (credit->bytes == 0 || credit->bytes > o.window - o.credit) {
            return {ErrorCode::corrupt, "credit frame: " + std::to_string(credit->bytes) + " bytes, at most " +
                                            std::to_string(o.window - o.credit) + " are outstanding"};
        }
        o.credit += credit->bytes;
        return {};
    }
    if (const auto* request = std::get_if<Request>(&message)) {
        if (const Status added = requests.add(*request, std::min(options.requests_max, peer.requests_max));
            !added.ok()) {
            return {ErrorCode::corrupt, added.message()};
        }
        push_event(lane, *request);
        return {};
    }
    if (std::holds_alternative<Heartbeat>(message)) {
        return {};
    }
    return handle_of_request(lane, message, now);
}

Status Session::State::handle_hello(Lane lane, const Hello& hello, Nanos now) {
    const Hello& ours = options.hello;
    if (hello.role == ours.role) {
        return differs("role", std::string(name_of(ours.role == Role::prefill ? Role::decode : Role::prefill)),
                       std::string(name_of(hello.role)));
    }
    if (hello.connection_id != ours.connection_id) {
        return differs("connection id", std::to_string(ours.connection_id), std::to_string(hello.connection_id));
    }
    if (hello.fingerprint != ours.fingerprint) {
        return differs("model fingerprint", hex(ours.fingerprint), hex(hello.fingerprint));
    }
    LYNX_TRY(compare(ours.geometry, hello.geometry));
    LaneIn& i = lane_in(lane);
    i.hello = true;
    LaneOut& o = lane_out(lane);
    o.window = o.credit = hello.credit_bytes;
    peer = hello;
    if (lane_in(Lane::high).hello && lane_in(Lane::low).hello) {
        ready = true;
        // The peer may be less patient than we are: it says so, and we speak up often enough for it.
        const Nanos often = std::chrono::milliseconds(hello.peer_timeout_ms) / 4;
        options.heartbeat = std::min(options.heartbeat, std::max<Nanos>(often, kHeartbeatMin));
        last_sent = now;
    }
    return {};
}

/// Messages about one request. The request may be ending on this side while the peer does not know yet: then they are
/// late.
Status Session::State::handle_of_request(Lane lane, const Message& message, Nanos now) {
    const FrameHeader& h = lane_in(lane).header;
    RequestRecord* record = requests.find(h.key.request, h.key.generation);
    const std::string name = std::string(to_string(h.type)) + " frame of request " + std::to_string(h.key.request) +
                             " generation " + std::to_string(h.key.generation);
    if (record == nullptr) {
        return {ErrorCode::corrupt, name + ": no such request"};
    }
    if (std::holds_alternative<AbortDone>(message)) {
        bool& end = record->end_received[static_cast<std::size_t>(lane)];
        // The low lane may be ahead of the abort that travels on the high one.
        if (end || (record->live && lane == Lane::high)) {
            return {ErrorCode::corrupt, name + (end ? ": came before" : ": without abort or done")};
        }
        end = true;
        settle(*record);
        return {};
    }
    if (!record->live) {
        return {};
    }
    if (const auto* progress = std::get_if<Progress>(&message)) {
        push_event(lane, *progress);
    } else if (const auto* token = std::get_if<FirstToken>(&message)) {
        push_event(lane, *token);
    } else if (const auto* abort = std::get_if<Abort>(&message)) {
        push_event(lane, *abort);
        end_request(*record, now);
    } else if (const auto* done = std::get_if<Done>(&message)) {
        push_event(lane, *done);
        end_request(*record, now);
    }
    return {};
}

}  // namespace lynx::wire
