#include "node/prefill_worker.h"

#include <algorithm>
#include <random>
#include <string>

#include "base/try.h"
#include "node/prefill.h"

namespace lynx::node {

namespace {
/// Without a seed any fresh randomness will do: the draw only has to follow the distribution.
std::uint64_t fresh_seed() {
    std::random_device source;
    return (std::uint64_t{source()} << 32) | source();
}
}  // namespace

speculate::Sampling sampling_of(const wire::Request& request) {
    return {request.sampler.temperature, request.sampler.top_k, request.sampler.top_p, request.sampler.seed};
}

PrefillJob::Snapshot PrefillJob::snapshot() const {
    const std::lock_guard lock(mutex_);
    return snapshot_;
}

void PrefillJob::update(const std::function<void(Snapshot&)>& change) {
    {
        const std::lock_guard lock(mutex_);
        change(snapshot_);
    }
    notify_();
}

PrefillWorker::PrefillWorker(engine::Engine& engine) : engine_(engine), slots_(engine.info().sequences) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].seq = static_cast<engine::SeqId>(i);
    }
    thread_ = std::thread([this] { run(); });
}

PrefillWorker::~PrefillWorker() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

Status PrefillWorker::submit(std::shared_ptr<PrefillJob> job) {
    const engine::ModelInfo& info = engine_.info();
    const std::vector<engine::Token>& prompt = job->request().prompt;
    if (prompt.empty() || prompt.size() > info.context_tokens) {
        return {ErrorCode::invalid_argument, "prompt: expected 1.." + std::to_string(info.context_tokens) +
                                                 " tokens (the prefill node's context), actual " +
                                                 std::to_string(prompt.size())};
    }
    for (const engine::Token t : prompt) {
        if (t < 0 || static_cast<std::uint32_t>(t) >= info.vocabulary) {
            return {ErrorCode::invalid_argument, "prompt: token " + std::to_string(t) + " outside the vocabulary of " +
                                                     std::to_string(info.vocabulary)};
        }
    }
    {
        const std::lock_guard lock(mutex_);
        if (queue_.size() >= kPrefillQueueMax) {
            return {ErrorCode::limit_exceeded,
                    "prefill queue is full (" + std::to_string(kPrefillQueueMax) + " requests)"};
        }
        queue_.push_back(std::move(job));
    }
    changed_.notify_all();
    return {};
}

void PrefillWorker::release(const std::shared_ptr<PrefillJob>& job) {
    job->cancel();
    {
        const std::lock_guard lock(mutex_);
        std::erase(queue_, job);
        for (Slot& slot : slots_) {
            std::erase(slot.users, job.get());
        }
    }
    changed_.notify_all();
}

PrefillWorker::Slot* PrefillWorker::take_slot(const PrefillJob& job) {
    Slot* best = nullptr;
    for (Slot& slot : slots_) {
        if (slot.prompt == job.request().prompt) {
            best = &slot;
            break;
        }
        if (slot.users.empty() && (best == nullptr || slot.used_at < best->used_at)) {
            best = &slot;
        }
    }
    if (best != nullptr) {
        best->users.push_back(&job);
        best->used_at = ++use_counter_;
    }
    return best;
}

void PrefillWorker::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        Slot* slot = nullptr;
        changed_.wait(lock,
                      [&] { return stopping_ || (!queue_.empty() && (slot = take_slot(*queue_.front())) != nullptr); });
        if (stopping_) {
            break;
        }
        const std::shared_ptr<PrefillJob> job = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        process(*job, *slot);
        lock.lock();
    }
    for (const auto& job : queue_) {
        job->update([](PrefillJob::Snapshot& s) {
            s.failure = {ErrorCode::cancelled, "the prefill node is stopping"};
        });
    }
    queue_.clear();
}

void PrefillWorker::process(PrefillJob& job, Slot& slot) {
    const wire::Request& request = job.request();
    const auto tokens = static_cast<std::uint32_t>(request.prompt.size());
    const bool hit = slot.prompt == request.prompt;
    if (!hit) {
        if (const Status status = prefill(job, slot); !status.ok()) {
            job.update([&](PrefillJob::Snapshot& s) { s.failure = status; });
            return;
        }
    }
    const engine::Token first = speculate::sample(slot.logits, sampling_of(request), tokens, fresh_seed());
    job.update([&](PrefillJob::Snapshot& s) {
        s.seq = slot.seq;
        s.prefix_hit = hit;
        s.tokens_final = tokens;
        s.first_token = first;
    });
}

Status PrefillWorker::prefill(PrefillJob& job, Slot& slot) {
    const std::vector<engine::Token>& prompt = job.request().prompt;
    slot.prompt.clear();  // until the prefill is complete nothing in it may be hit
    LYNX_ASSIGN(slot.logits, node::prefill(engine_, slot.seq, prompt, [&](std::uint32_t done) -> Status {
                    {
                        const std::lock_guard lock(mutex_);
                        if (stopping_) {
                            return {ErrorCode::cancelled, "the prefill node is stopping"};
                        }
                    }
                    if (job.cancelled()) {
                        return {ErrorCode::cancelled, "the request was aborted"};
                    }
                    job.update([&](PrefillJob::Snapshot& s) {
                        s.seq = slot.seq;
                        s.tokens_final = done;
                    });
                    return {};
                }));
    slot.prompt = prompt;
    return {};
}

}  // namespace lynx::node
