// POST /v1/completions and /v1/chat/completions: from an HTTP request to the scheduler and back, whole or streamed. The connection's thread waits;
// counting, logging and telling watchers happen on the inference thread.
#pragma once

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "lynx/serve.h"
#include "node/decode_scheduler.h"
#include "serve/answer_logprobs.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/event_feed.h"
#include "serve/metrics.h"
#include "serve/pending_answer.h"

namespace lynx::serve {

/// Thread-safe. Everything given must outlive it, and the scheduler must have stopped before it goes.
class Answers {
public:
    struct Parts {
        const ServeConfig& config;
        node::DecodeScheduler& scheduler;
        Metrics& metrics;
        EventFeed& feed;
        const std::string& model;  ///< what clients call it
        std::function<double()> uptime_s;
    };
    explicit Answers(Parts parts) : parts_(std::move(parts)) {}

    void answer(Endpoint endpoint, const httplib::Request& request, httplib::Response& response);
    /// From now on every request is refused.
    void drain() noexcept { draining_ = true; }
    [[nodiscard]] bool draining() const noexcept { return draining_; }
    /// Requests without an answer yet.
    [[nodiscard]] std::uint64_t under_way() const noexcept { return under_way_; }

private:
    struct Watched;  ///< one request, as the inference thread sees it

    [[nodiscard]] Status make_prompt(ApiRequest& wanted) const;
    [[nodiscard]] Result<node::DecodeScheduler::JobId> submit(const ApiRequest& wanted,
                                                              const std::shared_ptr<Watched>& watched,
                                                              const std::shared_ptr<PendingAnswer>& pending);
    void ended(Watched& watched, const Result<GenerateReport>& report);
    void whole(const AnswerHead& head, PendingAnswer& pending, httplib::Response& response) const;
    void stream(const AnswerHead& head, const ApiRequest& wanted, std::shared_ptr<PendingAnswer> pending,
                node::DecodeScheduler::JobId job, httplib::Response& response) const;
    [[nodiscard]] AnswerLogprobs::Piece piece() const;
    void log(const RequestLog& entry) const;

    Parts parts_;
    std::atomic<bool> draining_{false};
    std::atomic<std::uint64_t> under_way_{0};
};

}  // namespace lynx::serve
