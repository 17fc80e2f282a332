// The yardstick of the link benchmark: one TCP connection over loopback, one thread writing, one reading, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "lynx/status.h"

namespace lynx::bench {

struct SocketMeasured {
    std::uint64_t bytes = 0;
    double seconds = 0;
    double receiver_cpu_s = 0;
    double sender_cpu_s = 0;
};

/// Blocking writes of `write_bytes`, reads of as much, for `duration`.
[[nodiscard]] Result<SocketMeasured> measure_plain_socket(std::size_t write_bytes, base::Nanos duration);

}  // namespace lynx::bench
