// Moves bytes between one session and one link. The I/O thread of a node is a loop around pump_once; the simulator
// calls it under a virtual clock. Holds no state between calls; one thread per session and link.
//
// Reading: the high lane is drained before the low lane is looked at, so every anchor is in before any later tier.
// Writing: in the session's send order; the low lane only when the high lane has nothing to send (or it is an aged
// tier's turn), also when the high lane is merely blocked: two connections share one bottleneck.
#pragma once

#include <cstddef>

#include "base/clock.h"
#include "lynx/status.h"
#include "transport/link.h"
#include "wire/session.h"

namespace lynx::transport {

inline constexpr std::size_t kPumpReadBytesMax = std::size_t{1}
                                                 << 20;  ///< per lane and call: events are polled in between
inline constexpr std::size_t kPumpWriteBytesMax = std::size_t{1} << 18;  ///< per call: new anchors get in between
inline constexpr std::size_t kPumpChunkBytes = std::size_t{1} << 16;     ///< per read or write
inline constexpr Nanos kLinger = std::chrono::milliseconds(250);         ///< what finish() deserves by default

/// One round: read, run due timers, write. If no byte moved, waits until one can, link.wake(), a timer, or `deadline`,
/// then does one more round. Returns the bytes moved, both directions; the caller then polls the session's events. Once
/// the session is dead returns its status (never ok again); then call finish().
[[nodiscard]] Result<std::size_t> pump_once(wire::Session& session, Link& link, const base::Clock& clock,
                                            Nanos deadline);

/// One step of finish() that never blocks. True once the goodbye of a dead session has left, or never can.
[[nodiscard]] bool say_goodbye(wire::Session& session, Link& link, const base::Clock& clock);

/// Says goodbye if the session has one to say, lets it reach the peer, and closes the link. Blocks until `deadline` at
/// most.
void finish(wire::Session& session, Link& link, const base::Clock& clock, Nanos deadline);

}  // namespace lynx::transport
