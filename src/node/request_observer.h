// Shows one request's progress and output to whoever asked for it, and keeps the times that its report needs.
#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "lynx/node.h"
#include "node/decode_request.h"
#include "node/report.h"
#include "speculate/speculation.h"

namespace lynx::node {

/// Not thread-safe. The engine must outlive it.
class RequestObserver {
public:
    RequestObserver(GenerateEvents events, const engine::Engine& engine)
        : events_(std::move(events)), engine_(engine) {}

    void on_times(const RequestTimes& times, std::uint32_t prompt_tokens);
    void on_step(speculate::ActionKind kind, base::Nanos took);
    /// Shows where the request is, unless it did so less than a tenth of a second ago. `last`: it ends now.
    void on_progress(DecodeRequest& request, kv::Paging paging, base::Nanos now, bool last);
    /// Takes what the speculation has put out since the last call.
    void on_output(speculate::Speculation& speculation, base::Nanos now);

    [[nodiscard]] const StepTimeline& timeline() const noexcept { return timeline_; }

private:
    GenerateEvents events_;
    const engine::Engine& engine_;
    std::uint32_t prefill_seen_ = 0;
    std::optional<base::Nanos> progress_shown_;
    std::vector<engine::Token> provisional_;
    StepTimeline timeline_;
};

}  // namespace lynx::node
