#include "transport/pump.h"

#include <algorithm>
#include <array>
#include <string>

namespace lynx::transport {
namespace {

using wire::Session;

/// What one lane had to give: bytes, and whether it is empty now.
struct Drained {
    std::size_t bytes = 0;
    bool empty = false;
};

std::span<std::byte> read_buffer() {
    // Per thread, not per session: a round leaves nothing in it.
    thread_local std::array<std::byte, kPumpChunkBytes> buffer;
    return buffer;
}

Status on_lane(const Status& status, Lane lane) {
    return status.with_context(lane == Lane::high ? "high lane" : "low lane");
}

Result<Drained> read_lane(Session& session, Link& link, Lane lane, Nanos now) {
    Drained drained;
    const std::span<std::byte> buffer = read_buffer();
    while (drained.bytes < kPumpReadBytesMax) {
        const Result<std::size_t> n = link.read(lane, buffer);
        if (!n.ok()) {
            return n.status();
        }
        if (n.value() == 0) {
            drained.empty = true;
            break;
        }
        drained.bytes += n.value();
        if (!session.recv(lane, buffer.first(n.value()), now).ok()) {
            break;
        }
    }
    return drained;
}

/// The link failed on `lane`. The peer's goodbye may still lie unread on either lane, and it says more than a reset
/// does.
void fail_link(Session& session, Link& link, Lane lane, const Status& why, Nanos now) {
    for (const Lane other : {Lane::high, Lane::low}) {
        static_cast<void>(read_lane(session, link, other, now));
    }
    session.link_failed(lane, on_lane(why, lane));
}

std::size_t read_lanes(Session& session, Link& link, Nanos now) {
    std::size_t moved = 0;
    for (const Lane lane : {Lane::high, Lane::low}) {
        const Result<Drained> drained = read_lane(session, link, lane, now);
        if (!drained.ok()) {
            fail_link(session, link, lane, drained.status(), now);
            return moved;
        }
        moved += drained.value().bytes;
        if (!session.status().ok() || !drained.value().empty) {
            break;  // anchors left to read: the low lane waits for the next round
        }
    }
    return moved;
}

/// Writes in send order until nothing is left, the link is full, or the round's share is used up.
Result<std::size_t> write_lanes(Session& session, Link& link, Nanos now, Interest& interest, Lane& failed) {
    std::size_t moved = 0;
    interest = {};
    while (moved < kPumpWriteBytesMax) {
        std::optional<Lane> lane = session.next_lane(now);
        if (lane == Lane::low && interest.write_low) {
            lane = Lane::high;  // an aged tier's turn, but it does not fit now
        }
        if (!lane) {
            break;
        }
        const base::ByteView view = session.send_view(*lane, now);
        if (view.empty()) {
            break;
        }
        failed = *lane;
        const Result<std::size_t> n = link.write(*lane, view.first(std::min(view.size(), kPumpChunkBytes)));
        if (!n.ok()) {
            return n.status();
        }
        if (n.value() == 0) {
            if (*lane == Lane::high) {
                interest.write_high = true;
                break;
            }
            interest.write_low = true;
            continue;
        }
        session.sent(*lane, n.value(), now);
        moved += n.value();
    }
    return moved;
}

std::size_t round(Session& session, Link& link, const base::Clock& clock, Interest& interest) {
    const Nanos now = clock.now();
    std::size_t moved = read_lanes(session, link, now);
    // Only after reading: a process that was stopped for a while must not take its own silence for the peer's.
    if (now >= session.timeout()) {
        session.on_timeout(now);
    }
    Lane failed = Lane::high;
    const Result<std::size_t> written = write_lanes(session, link, now, interest, failed);
    if (!written.ok()) {
        fail_link(session, link, failed, written.status(), now);
        return moved;
    }
    return moved + written.value();
}

/// Reads and forgets what has arrived. True when the lane has ended.
bool discard(Link& link, Lane lane) {
    for (std::size_t total = 0; total < kPumpReadBytesMax;) {
        const Result<std::size_t> n = link.read(lane, read_buffer());
        if (!n.ok()) {
            return true;
        }
        if (n.value() == 0) {
            break;
        }
        total += n.value();
    }
    return false;
}

}  // namespace

Result<std::size_t> pump_once(Session& session, Link& link, const base::Clock& clock, Nanos deadline) {
    if (!session.status().ok()) {
        return session.status();
    }
    Interest interest;
    std::size_t moved = round(session, link, clock, interest);
    if (session.status().ok() && moved == 0 && clock.now() < deadline) {
        if (const Status waited = link.wait(interest, std::min(deadline, session.timeout())); !waited.ok()) {
            session.link_failed(Lane::high, waited);
            return session.status();
        }
        moved = round(session, link, clock, interest);
    }
    if (!session.status().ok()) {
        return session.status();
    }
    return moved;
}

bool say_goodbye(Session& session, Link& link, const base::Clock& clock) {
    Interest interest;
    Lane failed = Lane::high;
    const Result<std::size_t> written = write_lanes(session, link, clock.now(), interest, failed);
    // What has arrived is forgotten: unread bytes would turn the close into a reset, which can overtake the goodbye.
    const bool ended = discard(link, Lane::high) || discard(link, Lane::low);
    return !written.ok() || ended || (!session.next_lane(clock.now()) && link.held_bytes() == 0);
}

void finish(Session& session, Link& link, const base::Clock& clock, Nanos deadline) {
    // Each wait ends at the deadline, and each pass of a loop but the first follows a wait.
    while (!say_goodbye(session, link, clock) && clock.now() < deadline) {
        const bool high = session.next_lane(clock.now()) == Lane::high;
        const bool low = session.next_lane(clock.now()) == Lane::low;
        if (!link.wait({.write_high = high, .write_low = low}, deadline).ok()) {
            break;
        }
    }
    link.shutdown();
    while (!discard(link, Lane::high) && !discard(link, Lane::low) && clock.now() < deadline) {
        if (!link.wait({}, deadline).ok()) {
            break;
        }
    }
    link.close();
}

}  // namespace lynx::transport
