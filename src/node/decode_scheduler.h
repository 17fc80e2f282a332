// Continuous batching on the decode node: one inference thread on which all live requests draft, verify and decode, sharing steps.
//
// Each round asks every request what it wants to run and puts as many rows as fit into one step; who went first last time goes last next time.
// A request that waits for KV takes no part. A pass that waits at layer gates would hold up everybody, so only a request that is alone gets one:
// with company, verification starts once the last tier is there.
// Exactness rests on the engine: a row's logits do not depend on what shares its step.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "codec/codec.h"
#include "engine/engine.h"
#include "lynx/node.h"
#include "node/decode_request.h"
#include "node/doorbell.h"
#include "node/peer_io.h"
#include "node/request_observer.h"
#include "transport/tcp/tcp.h"

namespace lynx::node {

class DecodeScheduler {
public:
    using Done = std::function<void(Result<GenerateReport>)>;
    using JobId = std::uint64_t;

    /// Loads the model and connects. Errors as DecodeNode::create. `queue_max`: requests that may wait for a sequence.
    [[nodiscard]] static Result<std::unique_ptr<DecodeScheduler>> open(const DecodeConfig& config,
                                                                       std::size_t queue_max);
    ~DecodeScheduler();
    DecodeScheduler(const DecodeScheduler&) = delete;
    DecodeScheduler& operator=(const DecodeScheduler&) = delete;

    /// Thread-safe. `events` and then `done`, once, are called on the inference thread: they must be quick and must not call back.
    /// invalid_argument: the request itself; limit_exceeded: the queue is full.
    [[nodiscard]] Result<JobId> submit(const GenerateRequest& request, GenerateEvents events, Done done);
    /// Thread-safe. The request's `done` follows with cancelled, unless it ended before.
    void cancel(JobId id);

    /// Every request that is not done fails with cancelled, and so does every later one. Returns when nothing runs any more.
    void stop();

    struct Load {
        std::size_t running = 0;
        std::size_t waiting = 0;
    };
    [[nodiscard]] Load load() const;
    /// ok while the prefill node is connected. Thread-safe.
    [[nodiscard]] Status peer_status() const;
    /// Its text side is thread-safe.
    [[nodiscard]] const engine::Engine& engine() const noexcept { return *engine_; }

private:
    struct Job;
    using Jobs = std::vector<std::unique_ptr<Job>>;

    DecodeScheduler(const DecodeConfig& config, std::size_t queue_max);
    [[nodiscard]] Status connect();
    [[nodiscard]] Result<std::vector<engine::Token>> tokens_of(const GenerateRequest& request) const;
    [[nodiscard]] Result<std::unique_ptr<Job>> make_job(const GenerateRequest& request) const;

    void run();
    /// Moves queued jobs to free sequences. False when stopping.
    [[nodiscard]] bool admit();
    [[nodiscard]] Status start(Job& job, engine::SeqId seq);
    /// One round over the live jobs; how long nothing will change unless the bell rings (zero: go on at once).
    [[nodiscard]] base::Nanos round();
    [[nodiscard]] Status step_together(std::vector<Job*>& parts);
    void finish(Job& job, const Status& status);

    DecodeConfig config_;
    transport::TcpOptions tcp_options_;
    std::size_t queue_max_;
    base::SteadyClock clock_;
    std::unique_ptr<engine::Engine> engine_;
    std::uint64_t seed_ = 0;
    Doorbell bell_;

    // Inference thread only, once it runs.
    Jobs live_;
    base::Nanos connect_again_{0};  ///< not before
    std::vector<engine::SeqId> free_sequences_;
    std::vector<engine::Row> rows_;
    speculate::CostModel cost_;
    std::map<std::string, speculate::AcceptanceModel> acceptance_;  ///< by codec

    mutable std::mutex mutex_;      // guards what follows
    std::shared_ptr<PeerIo> peer_;  ///< replaced on the inference thread only
    std::size_t running_ = 0;
    std::deque<std::unique_ptr<Job>> queue_;
    std::vector<JobId> cancelled_;
    JobId last_id_ = 0;
    bool stopping_ = false;

    std::thread thread_;
};

}  // namespace lynx::node
