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

/// Shape of an emulated link at the sender. rate 0: not limited.
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
    /// Blocks until a lane is readable, an interested lane is writable, wake() was called, or `deadline` passed.
    [[nodiscard]] virtual Status wait(Interest interest, Nanos deadline) = 0;
    /// Ends a wait() in progress, or the next one. Thread-safe.
    virtual void wake() noexcept = 0;
    virtual void close() noexcept = 0;
};

}  // namespace lynx::transport
