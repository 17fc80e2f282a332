// What passes from the inference thread to the connection that waits for an answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lynx/node.h"

namespace lynx::serve {

/// Thread-safe. Holds no more than the request's own output.
class PendingAnswer {
public:
    struct Update {
        std::string committed;
        std::string provisional;
        std::uint32_t retracted = 0;
        std::vector<CommittedLogprobs> logprobs;
    };
    struct News {
        std::vector<Update> updates;
        std::optional<Result<GenerateReport>> end;  ///< given once, with or after the last update
        [[nodiscard]] bool empty() const noexcept { return updates.empty() && !end; }
    };

    void add(const TextUpdate& update) {
        const std::lock_guard lock(mutex_);
        news_.updates.push_back({std::string(update.committed),
                                 std::string(update.provisional),
                                 update.retracted,
                                 {update.logprobs.begin(), update.logprobs.end()}});
        changed_.notify_one();
    }
    void finish(Result<GenerateReport> report) {
        const std::lock_guard lock(mutex_);
        news_.end = std::move(report);
        changed_.notify_one();
    }
    /// All there is; empty when nothing came for `longest`.
    [[nodiscard]] News wait(std::chrono::milliseconds longest) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, longest, [this] { return !news_.empty(); });
        return std::exchange(news_, {});
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    News news_;
};

}  // namespace lynx::serve
