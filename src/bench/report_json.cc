// Reports as JSON: one object per line, field names those of the structs, absent values null.
#include <nlohmann/json.hpp>

#include "lynx/bench.h"

namespace lynx {

using Json = nlohmann::ordered_json;

namespace {

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json row_json(const E2eRow& r) {
    return {{"system", r.system},
            {"codec", r.codec},
            {"link_mbit", r.link_mbit},
            {"threads", r.threads},
            {"bits_anchor", r.bits_anchor},
            {"bits_full", r.bits_full},
            {"token1_from_prefill_s", r.token1_from_prefill_s},
            {"ttft_provisional_s", optional_json(r.ttft_provisional_s)},
            {"ttft_committed_s", r.ttft_committed_s},
            {"tt32t_committed_s", r.tt32t_committed_s},
            {"tt64t_committed_s", r.tt64t_committed_s},
            {"tpot_ms", r.tpot_ms},
            {"verify_ms_per_token", r.verify_ms_per_token},
            {"verify_exposed_ms", optional_json(r.verify_exposed_ms)},
            {"window", r.window},
            {"drafted", r.drafted},
            {"accepted", r.accepted},
            {"acceptance", r.acceptance},
            {"p_full_accept", r.p_full_accept},
            {"tokens", r.tokens},
            {"tokens_equal_full", r.tokens_equal_full},
            {"kl_anchor_vs_full", r.kl_anchor_vs_full},
            {"model_tt32t_s", r.model_tt32t_s}};
}

/// Text that may hold half a character (a token can end inside one) as valid JSON.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_json(const E2eReport& report) {
    Json json{{"machine", report.machine}, {"model", report.model},           {"prompt_tokens", report.prompt_tokens},
              {"tpot_ms", report.tpot_ms}, {"int8_tpots", report.int8_tpots}, {"rows", Json::array()}};
    for (const E2eRow& row : report.rows) {
        json["rows"].push_back(row_json(row));
    }
    return dump(json);
}

std::string to_json(const GenerateReport& r) {
    Json tiers = Json::array();
    for (const TierReport& t : r.tiers) {
        tiers.push_back({{"bytes", t.bytes},
                         {"first_page_s", t.first_byte_s},
                         {"complete_s", t.complete_s},
                         {"bits_per_element", t.bits_per_element}});
    }
    return dump(Json{{"text", r.text},
                     {"tokens", r.tokens},
                     {"committed_s", r.committed_s},
                     {"finish", to_string(r.finish)},
                     {"prompt_tokens", r.prompt_tokens},
                     {"codec", r.codec},
                     {"tiers", tiers},
                     {"prefill_s", r.prefill_s},
                     {"prefix_hit", r.prefix_hit},
                     {"token1_s", r.token1_s},
                     {"anchor_complete_s", r.anchor_complete_s},
                     {"first_provisional_s", optional_json(r.first_provisional_s)},
                     {"last_tier_s", r.last_tier_s},
                     {"verify_start_s", optional_json(r.verify_start_s)},
                     {"verified_s", optional_json(r.verified_s)},
                     {"verify_waited_s", r.verify_waited_s},
                     {"tpot_s", r.tpot_s},
                     {"draft_tpot_s", r.draft_tpot_s},
                     {"verify_per_token_s", r.verify_per_token_s},
                     {"window", r.window},
                     {"drafted", r.drafted},
                     {"accepted", r.accepted},
                     {"full_accept", r.full_accept}});
}

}  // namespace lynx
