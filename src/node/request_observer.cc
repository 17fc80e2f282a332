#include "node/request_observer.h"

#include <string>

namespace lynx::node {

namespace {
constexpr base::Nanos kProgressEvery = std::chrono::milliseconds(100);
}  // namespace

void RequestObserver::on_times(const RequestTimes& times, std::uint32_t prompt_tokens) {
    if (events_.on_prefill && times.prefill_done > prefill_seen_) {
        prefill_seen_ = times.prefill_done;
        events_.on_prefill(times.prefill_done, prompt_tokens, times.prefix_hit);
    }
}

void RequestObserver::on_progress(DecodeRequest& request, kv::Paging paging, base::Nanos now, bool last) {
    if (!events_.on_progress || (!last && progress_shown_ && now - *progress_shown_ < kProgressEvery)) {
        return;
    }
    progress_shown_ = now;
    events_.on_progress(
        make_progress(request, timeline_, paging, static_cast<std::uint32_t>(provisional_.size()), now));
}

void RequestObserver::on_step(speculate::ActionKind kind, base::Nanos took) {
    if (kind == speculate::ActionKind::decode) {
        timeline_.decode_time += took;
        ++timeline_.decode_steps;
    } else if (kind == speculate::ActionKind::draft) {
        timeline_.draft_time += took;
        ++timeline_.draft_steps;
    }
}

void RequestObserver::on_output(speculate::Speculation& speculation, base::Nanos now) {
    const speculate::Output output = speculation.take_output();
    timeline_.committed_at.insert(timeline_.committed_at.end(), output.committed.size(), now);
    if (!output.provisional.empty()) {
        timeline_.first_provisional = timeline_.first_provisional.value_or(now);
        timeline_.last_provisional = now;
    }
    provisional_.erase(provisional_.begin(), provisional_.begin() + output.confirmed);
    provisional_.resize(provisional_.size() - output.retracted);
    provisional_.insert(provisional_.end(), output.provisional.begin(), output.provisional.end());
    if (!events_.on_text || (output.committed.empty() && output.provisional.empty() && output.retracted == 0)) {
        return;
    }
    const std::string committed = speculation.take_text();
    std::string provisional;
    for (const engine::Token token : provisional_) {
        provisional += engine_.piece(token);
    }
    const std::vector<CommittedLogprobs>& logprobs = speculation.logprobs();
    const std::size_t news = logprobs.empty() ? 0 : output.committed.size();
    events_.on_text({committed, provisional, output.retracted, std::span(logprobs).last(news)});
}

}  // namespace lynx::node
