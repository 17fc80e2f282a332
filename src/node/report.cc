#include "node/report.h"

#include "base/check.h"

namespace lynx {

std::string_view to_string(Finish finish) noexcept {
    switch (finish) {
        case Finish::length: return "length";
        case Finish::end_token: return "end_token";
        case Finish::stop_string: return "stop_string";
    }
    return "unknown";
}

namespace node {

RequestProgress make_progress(DecodeRequest& request, const StepTimeline& timeline, kv::Paging paging,
                              std::uint32_t provisional, base::Nanos now) {
    const RequestTimes times = request.times();
    const auto since_start = [&](const std::optional<base::Nanos>& t) {
        return t ? std::optional<double>(base::to_seconds(*t - times.start)) : std::nullopt;
    };
    RequestProgress p;
    p.now_s = base::to_seconds(now - times.start);
    p.prompt_tokens = paging.tokens;
    p.prefilled_tokens = times.prefill_done;
    p.prefix_hit = times.prefix_hit;
    p.prefilled_s = since_start(times.prefilled);
    p.token1_s = since_start(times.token1);
    for (const RequestTimes::Tier& tier : times.tiers) {
        p.tiers.push_back({.bytes = tier.bytes, .first_s = since_start(tier.first), .last_s = since_start(tier.last)});
    }
    p.first_draft_s = since_start(timeline.first_provisional);
    p.last_draft_s = since_start(timeline.last_provisional);
    p.verify_start_s = since_start(times.verify_start);
    p.verified_s = since_start(times.verified);
    if (const speculate::Speculation* speculation = request.speculation()) {
        p.drafted = speculation->counters().drafted;
        p.accepted = speculation->counters().accepted;
        p.committed = static_cast<std::uint32_t>(timeline.committed_at.size());
    }
    p.provisional = provisional;
    return p;
}

GenerateReport make_report(DecodeRequest& request, const StepTimeline& timeline, const codec::Codec& codec,
                           const kv::Geometry& geometry, kv::Paging paging) {
    const speculate::Speculation& speculation = *request.speculation();
    const RequestTimes times = request.times();
    LYNX_CHECK(speculation.finish_reason() != speculate::FinishReason::none);
    const auto since_start = [&](base::Nanos t) { return base::to_seconds(t - times.start); };
    const auto optional_s = [&](const std::optional<base::Nanos>& t) {
        return t ? std::optional<double>(since_start(*t)) : std::nullopt;
    };
    const auto mean_s = [](base::Nanos total, std::uint32_t n) { return n == 0 ? 0 : base::to_seconds(total) / n; };

    GenerateReport report;
    report.tokens = speculation.committed();
    for (const base::Nanos t : timeline.committed_at) {
        report.committed_s.push_back(since_start(t));
    }
    report.logprobs = speculation.logprobs();
    report.text = speculation.committed_text();
    report.finish = speculation.finish_reason() == speculate::FinishReason::length      ? Finish::length
                    : speculation.finish_reason() == speculate::FinishReason::end_token ? Finish::end_token
                                                                                        : Finish::stop_string;
    report.prompt_tokens = paging.tokens;
    report.codec = codec.info().name;
    const double elements = static_cast<double>(geometry.token_elements()) * paging.tokens;
    for (const RequestTimes::Tier& tier : times.tiers) {
        report.tiers.push_back({.bytes = tier.bytes,
                                .first_byte_s = optional_s(tier.first).value_or(0),
                                .complete_s = optional_s(tier.last).value_or(0),
                                .bits_per_element = 8 * static_cast<double>(tier.bytes) / elements});
    }
    report.prefill_s = optional_s(times.prefilled).value_or(0);
    report.prefix_hit = times.prefix_hit;
    report.token1_s = optional_s(times.token1).value_or(0);
    report.anchor_complete_s = optional_s(times.anchor_complete).value_or(0);
    report.first_provisional_s = optional_s(timeline.first_provisional);
    report.last_tier_s = optional_s(times.last_tier).value_or(0);
    report.verify_start_s = optional_s(times.verify_start);
    report.verified_s = optional_s(times.verified);
    report.verify_waited_s = base::to_seconds(times.verify_waited);
    report.tpot_s = mean_s(timeline.decode_time, timeline.decode_steps);
    report.draft_tpot_s = mean_s(timeline.draft_time, timeline.draft_steps);
    report.verify_per_token_s = base::to_seconds(speculation.cost().verify_per_token());
    report.window = speculation.counters().window;
    report.drafted = speculation.counters().drafted;
    report.accepted = speculation.counters().accepted;
    report.full_accept = speculation.counters().full_accept;
    return report;
}

}  // namespace node
}  // namespace lynx
