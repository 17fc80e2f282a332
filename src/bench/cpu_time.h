// CPU time that was spent, for benchmarks.
#pragma once

#include <ctime>

namespace lynx::bench {

/// Seconds; CLOCK_THREAD_CPUTIME_ID: of this thread, CLOCK_PROCESS_CPUTIME_ID: of all.
[[nodiscard]] inline double cpu_seconds(clockid_t clock) noexcept {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace lynx::bench
