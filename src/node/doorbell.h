// Wakes the inference thread: anything that changes what it could do next rings.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/clock.h"

namespace lynx::node {

/// Thread-safe.
class Doorbell {
public:
    void ring() {
        {
            const std::lock_guard lock(mutex_);
            ++rings_;
        }
        changed_.notify_all();
    }
    [[nodiscard]] std::uint64_t rings() const {
        const std::lock_guard lock(mutex_);
        return rings_;
    }
    /// Until it has rung since rings() was `seen`, at most for `longest`.
    void wait(std::uint64_t seen, base::Nanos longest) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::max(longest, base::Nanos{0}), [&] { return rings_ != seen; });
    }

private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t rings_ = 0;
};

}  // namespace lynx::node
