// The transport contract: two ordered byte lanes to one peer. Moves bytes only; knows nothing of frames or requests.
//
// One thread drives a link (write, read, wait); wake() may be called from any thread. Contract suite:
// src/transport/link_contract.h, passed by tcp and sim. Nothing elsewhere may branch on which transport it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "lynx/status.h"
#include "wire/lane.h"

namespace lynx::transport {

using base::Nanos;
using wire::Lane;

/// Shape of an emulated link at the sender (emulated_link.h). rate 0: not limited; delay: one way.
struct Emulation {
    double rate_bits_per_s = 0;
    Nanos delay{0};
};

/// Which directions of which lanes the caller wants to be woken for.
struct Interest {
    bool write_high = false;
    bool write_low = false;
};

class Link {
public:
    virtual ~Link() = default;

    /// Accepts a prefix of `bytes` for `lane` without blocking; 0: would block. peer_lost / io on failure.
    [[nodiscard]] virtual Result<std::size_t> write(Lane lane, base::ByteView bytes) = 0;
    /// Fills a prefix of `buffer` without blocking; 0: nothing now. peer_lost when the lane was closed by the peer.
    [[nodiscard]] virtual Result<std::size_t> read(Lane lane, std::span<std::byte> buffer) = 0;
    /// Blocks until a lane is readable (end of stream and failure count), an interested lane is writable, wake() was
    /// called, or `deadline` passed (Nanos::max(): none). May return early.
    [[nodiscard]] virtual Status wait(Interest interest, Nanos deadline) = 0;
    /// Ends a wait() in progress, or the next one. Thread-safe.
    virtual void wake() noexcept = 0;
    /// Nothing more will be written: the peer reads what was accepted, then peer_lost. Reading goes on.
    virtual void shutdown() noexcept = 0;
    /// Ends both lanes; bytes still held are lost. Reads and writes then return io. Not for other threads: they use
    /// wake().
    virtual void close() noexcept = 0;
    /// Bytes that write() accepted and this object still holds (the operating system's buffers do not count).
    [[nodiscard]] virtual std::size_t held_bytes() const noexcept { return 0; }
};

}  // namespace lynx::transport
