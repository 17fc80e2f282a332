#include "serve/server_metrics.h"

#include <string>

namespace lynx::serve {

void declare_metrics(Metrics& m) {
    using Kind = Metrics::Kind;
    m.declare("lynx:num_requests_running", Kind::gauge, "Requests that hold a sequence.");
    m.declare("lynx:num_requests_waiting", Kind::gauge, "Requests in the queue.");
    m.declare("lynx:prefill_node_up", Kind::gauge, "1 while the prefill node is connected.");
    m.declare("lynx:request_success_total", Kind::counter, "Requests answered to their end, by reason.");
    m.declare("lynx:request_failure_total", Kind::counter, "Requests that failed, by error code.");
    m.declare("lynx:prompt_tokens_total", Kind::counter, "Prompt tokens of answered requests.");
    m.declare("lynx:generation_tokens_total", Kind::counter, "Committed output tokens of answered requests.");
    m.declare("lynx:spec_decode_num_draft_tokens_total", Kind::counter, "Drafted tokens.");
    m.declare("lynx:spec_decode_num_accepted_tokens_total", Kind::counter, "Drafted tokens that were committed.");
    m.declare("lynx:spec_decode_num_retracted_tokens_total", Kind::counter, "Drafted tokens that were withdrawn.");
    m.declare("lynx:spec_decode_num_drafts_total", Kind::counter, "Verification passes over at least one draft.");
    m.declare("lynx:spec_decode_num_full_accepts_total", Kind::counter, "Of these, passes that kept every draft.");
    m.declare("lynx:requests_without_drafts_total", Kind::counter, "Answered requests for which nothing was drafted.");
    m.declare("lynx:transfer_bytes_total", Kind::counter, "KV bytes received, framing included, by tier.");
    m.declare("lynx:time_to_first_token_seconds", Kind::histogram, "Until the first committed token.");
    m.declare("lynx:time_to_first_provisional_token_seconds", Kind::histogram, "Until the first draft.");
    m.declare("lynx:time_to_full_kv_seconds", Kind::histogram, "Until the last tier's last byte.");
    m.declare("lynx:inter_token_latency_seconds", Kind::histogram, "Between committed tokens.");
    m.declare("lynx:request_time_per_output_token_seconds", Kind::histogram, "Mean of a request's, after its first.");
    m.declare("lynx:e2e_request_latency_seconds", Kind::histogram, "Until the last token.");
}

void count_answer(Metrics& m, const GenerateReport& r) {
    m.add("lynx:request_success_total", 1, "finished_reason=\"" + std::string(to_string(r.finish)) + "\"");
    m.add("lynx:prompt_tokens_total", r.prompt_tokens);
    m.add("lynx:generation_tokens_total", static_cast<double>(r.tokens.size()));
    m.add("lynx:spec_decode_num_draft_tokens_total", r.drafted);
    m.add("lynx:spec_decode_num_accepted_tokens_total", r.accepted);
    m.add("lynx:spec_decode_num_retracted_tokens_total", r.drafted - r.accepted);
    m.add(r.window > 0 ? "lynx:spec_decode_num_drafts_total" : "lynx:requests_without_drafts_total", 1);
    m.add("lynx:spec_decode_num_full_accepts_total", r.full_accept ? 1 : 0);
    for (std::size_t tier = 0; tier < r.tiers.size(); ++tier) {
        m.add("lynx:transfer_bytes_total", static_cast<double>(r.tiers[tier].bytes),
              "tier=\"" + std::to_string(tier) + "\"");
    }
    if (r.first_provisional_s) {
        m.observe("lynx:time_to_first_provisional_token_seconds", *r.first_provisional_s);
    }
    if (r.last_tier_s > 0) {
        m.observe("lynx:time_to_full_kv_seconds", r.last_tier_s);
    }
    if (r.committed_s.empty()) {
        return;
    }
    m.observe("lynx:time_to_first_token_seconds", r.committed_s.front());
    m.observe("lynx:e2e_request_latency_seconds", r.committed_s.back());
    for (std::size_t i = 1; i < r.committed_s.size(); ++i) {
        m.observe("lynx:inter_token_latency_seconds", r.committed_s[i] - r.committed_s[i - 1]);
    }
    if (r.committed_s.size() > 1) {
        m.observe("lynx:request_time_per_output_token_seconds",
                  (r.committed_s.back() - r.committed_s.front()) / static_cast<double>(r.committed_s.size() - 1));
    }
}

void count_failure(Metrics& m, ErrorCode code) {
    m.add("lynx:request_failure_total", 1, "code=\"" + std::string(to_string(code)) + "\"");
}

}  // namespace lynx::serve
