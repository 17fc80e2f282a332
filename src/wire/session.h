// One peer, seen without I/O: bytes and a clock in, bytes and events out. Both roles, both lanes, any transport.
//
// The session owns: the handshake, frame parsing, the send order, credit, heartbeats, dead-peer detection, abort and
// quiescence, and the per-request admission of pages. It rejects a page unless request, generation, tier, kind, layer,
// page number, first token and length are right and it has not been seen before; a late page of an aborted request is
// counted and dropped. Bounds: payload memory by credit, the send queue by send_queue_bytes_max, control frames and
// events by named maxima (session_state.h); a peer that makes one overflow loses the session with limit_exceeded.
// High-lane events come first. It does not look into payloads: their checksum is the codec's, checked when the payload
// is decoded. Not thread-safe: one owner. The caller owns sockets and clock (src/transport/pump.h does the moving).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "base/bytes.h"
#include "base/clock.h"
#include "kv/geometry.h"
#include "lynx/status.h"
#include "wire/lane.h"
#include "wire/message.h"

namespace lynx::wire {

using base::Nanos;

struct SessionOptions {
    Hello hello;  ///< what this side says of itself
    std::size_t payload_bytes_max = std::size_t{64} << 20;
    std::size_t credit_bytes = std::size_t{64} << 20;  ///< per lane: frame bytes of pages that may be unreleased here
    std::size_t send_queue_bytes_max = std::size_t{4} << 30;
    std::uint32_t requests_max = 64;               ///< live requests per peer
    Nanos heartbeat = std::chrono::seconds(1);     ///< at most; less when the peer is less patient
    Nanos peer_timeout = std::chrono::seconds(5);  ///< silence after which the peer counts as dead
    Nanos handshake_timeout = std::chrono::seconds(5);
    Nanos promote_after =
        std::chrono::seconds(2);  ///< a later tier older than this takes turns with anchors (bounds starvation)
};

/// A page whose frame was complete and admissible. Handing it back through release() returns its credit.
struct PageReceived {
    kv::PageKey key;
    base::Bytes payload;
    std::size_t credit = 0;  ///< what release() returns; independent of payload, which may have been moved away
};
/// The handshake is complete on both lanes. Always the first event.
struct PeerReady {
    Hello hello;
};

using Event = std::variant<PeerReady, Request, Progress, FirstToken, PageReceived, Abort, AbortDone, Done>;

/// A page payload shared between the request that made it and the send queue.
using SharedPayload = std::shared_ptr<const base::Bytes>;

struct SessionStats {
    std::uint64_t bytes_sent[kLanes] = {};
    std::uint64_t bytes_received[kLanes] = {};
    std::uint64_t pages_sent = 0;
    std::uint64_t pages_received = 0;
    std::uint64_t pages_dropped_late = 0;
};

class Session {
public:
    Session(SessionOptions options, Nanos now);
    ~Session();
    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;

    // --- bytes ---
    /// Takes everything. An error is final: the session is dead and status() repeats it; send_view then yields what
    /// ends the stream cleanly (the rest of a half-sent frame and one goodbye with the reason), after which the caller
    /// closes the link (transport::finish does both).
    [[nodiscard]] Status recv(Lane lane, base::ByteView bytes, Nanos now);
    /// The next bytes to write on `lane`, empty when there are none now. Valid until the next call on this object.
    [[nodiscard]] base::ByteView send_view(Lane lane, Nanos now);
    /// The first n bytes of the last send_view(lane) were written.
    void sent(Lane lane, std::size_t n, Nanos now);
    /// The lane whose bytes go next in the send order; empty when there is nothing to send on either now.
    [[nodiscard]] std::optional<Lane> next_lane(Nanos now);
    /// When on_timeout wants to be called next (heartbeats, dead peer).
    [[nodiscard]] Nanos timeout() const noexcept;
    void on_timeout(Nanos now);

    // --- state ---
    /// ok while the session lives; then why it died (also after on_timeout found the peer silent).
    [[nodiscard]] const Status& status() const noexcept;
    [[nodiscard]] std::optional<Event> poll_event();
    [[nodiscard]] std::size_t queued_bytes(Lane lane) const noexcept;
    /// Payload bytes that the send queue still takes.
    [[nodiscard]] std::size_t send_room() const noexcept;
    /// True when nothing waits to be sent and nothing is half sent.
    [[nodiscard]] bool idle() const noexcept;
    [[nodiscard]] const SessionStats& stats() const noexcept;

    // --- both roles ---
    /// Ends the session on purpose; the peer is told `reason`. status() becomes `reason` (cancelled when it is ok).
    void close(const Status& reason, Nanos now);
    /// The link failed: the session is dead for that reason; names the frame that was cut off, if one was.
    void link_failed(Lane lane, const Status& reason);
    /// Ends the request on this side at once: its queued pages are dropped, its arriving pages are dropped, the peer is
    /// told.
    void abort(const Abort& reason, Nanos now);
    /// Credit for a page taken off poll_event and consumed.
    void release(const PageReceived& page, Nanos now);

    // --- decode role ---
    /// invalid_argument: bad fields, not yet PeerReady, or a generation that is not new; limit_exceeded: too many
    /// requests are live or not yet quiescent, or the control queue is full. A dead session returns its status().
    [[nodiscard]] Status request(const Request& request, Nanos now);
    void done(const Done& done, Nanos now);

    // --- prefill role ---
    /// Queues a page. limit_exceeded: the send queue is full (try again after it has drained), or the page can never
    /// fit the peer's credit window or payload maximum (the message says which); cancelled: the request is over;
    /// invalid_argument: the key does not fit the request. Keys must not repeat: the peer takes a repeated page for
    /// corruption.
    [[nodiscard]] Status send_page(const kv::PageKey& key, SharedPayload payload, Nanos now);
    /// Replaces an unsent Progress of the same request.
    void progress(const Progress& progress, Nanos now);
    void first_token(const FirstToken& token, Nanos now);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lynx::wire
