// The prefill node's inference thread: takes jobs, fills slots with KV, tells how far each is. Non-goals: encoding, peers.
//
// A slot is one engine sequence. It keeps its prompt and KV after the job, so the same prompt again is a prefix hit. A slot
// with users is never overwritten: its pages are still being read.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "lynx/status.h"
#include "speculate/sampling.h"
#include "wire/message.h"

namespace lynx::node {

/// The sampler settings a request carries. Not validated.
[[nodiscard]] speculate::Sampling sampling_of(const wire::Request& request);

/// One request's prefill. The peer thread makes it and polls snapshot(); the worker fills it.
class PrefillJob {
public:
    struct Snapshot {
        std::uint32_t tokens_final = 0;  ///< KV of positions [0, tokens_final) may be read
        bool prefix_hit = false;
        engine::SeqId seq = -1;                    ///< valid when tokens_final > 0
        std::optional<engine::Token> first_token;  ///< set when the prefill is complete
        Status failure;                            ///< not ok: the job is over
    };

    PrefillJob(wire::Request request, std::function<void()> notify)
        : request_(std::move(request)), notify_(std::move(notify)) {}

    [[nodiscard]] const wire::Request& request() const noexcept { return request_; }
    [[nodiscard]] Snapshot snapshot() const;
    /// Applies `change` to the snapshot under its lock, then notifies. Worker thread.
    void update(const std::function<void(Snapshot&)>& change);
    void cancel() noexcept { cancelled_ = true; }
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

private:
    wire::Request request_;
    std::function<void()> notify_;  // called without locks held; must be cheap
    mutable std::mutex mutex_;
    Snapshot snapshot_;
    std::atomic<bool> cancelled_{false};
};

inline constexpr std::size_t kPrefillQueueMax = 256;

/// submit() and release() from any thread.
class PrefillWorker {
public:
    /// Starts the thread. The engine must outlive the worker and be stepped by nobody else.
    explicit PrefillWorker(engine::Engine& engine);
    /// Ends after the step in progress; waiting jobs fail with cancelled.
    ~PrefillWorker();

    /// limit_exceeded: the queue is full; invalid_argument: the prompt does not fit the model.
    [[nodiscard]] Status submit(std::shared_ptr<PrefillJob> job);
    /// The job's pages are no longer read (or it never got a slot); a second call changes nothing. Every submitted job needs one.
    void release(const std::shared_ptr<PrefillJob>& job);

private:
    struct Slot {
        engine::SeqId seq = 0;
        std::vector<engine::Token> prompt;     // what its KV holds; empty: nothing usable. Worker thread only
        std::vector<float> logits;             // of the last prompt token. Worker thread only
        std::vector<const PrefillJob*> users;  // under the mutex
        std::uint64_t used_at = 0;             // worker thread only
    };

    void run();
    /// A slot for the job, marked used, or null when all are busy. Lock held.
    [[nodiscard]] Slot* take_slot(const PrefillJob& job);
    void process(PrefillJob& job, Slot& slot);
    [[nodiscard]] Status prefill(PrefillJob& job, Slot& slot);

    engine::Engine& engine_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<PrefillJob>> queue_;
    std::vector<Slot> slots_;
    std::uint64_t use_counter_ = 0;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace lynx::node
