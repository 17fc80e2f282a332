// One thread per connected peer of a node that listens.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace lynx::node {

/// The peers' threads. Finished ones are joined when the next peer comes, all at the end.
class PeerThreads {
public:
    ~PeerThreads() {
        for (Entry& entry : entries_) {
            entry.thread.request_stop();
        }
    }

    void start(std::function<void(const std::stop_token&)> run) {
        auto done = std::make_shared<std::atomic<bool>>(false);
        entries_.push_back({done, std::jthread([done, run = std::move(run)](const std::stop_token& stop) {
                                run(stop);
                                *done = true;
                            })});
    }

    [[nodiscard]] std::size_t live() {
        std::erase_if(entries_, [](const Entry& entry) { return entry.done->load(); });
        return entries_.size();
    }

private:
    struct Entry {
        std::shared_ptr<std::atomic<bool>> done;
        std::jthread thread;
    };
    std::vector<Entry> entries_;
};

}  // namespace lynx::node
