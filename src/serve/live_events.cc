#include "serve/live_events.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace lynx::serve {
namespace {

using Json = nlohmann::json;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json object(const RequestHead& head, std::string_view state, double now_s) {
    return {{"type", "request"},   {"id", head.id},  {"codec", head.codec},
            {"sent", head.sent_s}, {"state", state}, {"now", now_s}};
}

/// [begin, end] in seconds since the request was sent; end null: goes on; null: has not begun.
Json span(std::optional<double> begin, std::optional<double> end) {
    if (!begin) {
        return nullptr;
    }
    return Json::array({*begin, end ? Json(*end) : Json()});
}

}  // namespace

std::string queued_event(const RequestHead& head, double now_s) { return dump(object(head, "queued", now_s)); }

std::string failed_event(const RequestHead& head, double now_s) { return dump(object(head, "failed", now_s)); }

std::string progress_event(const RequestHead& head, const RequestProgress& p, std::string_view state) {
    Json json = object(head, state, head.sent_s + p.now_s);
    Json tiers = Json::array();
    for (const RequestProgress::Tier& tier : p.tiers) {
        tiers.push_back(tier.bytes);
    }
    Json residual;
    if (p.tiers.size() > 1) {
        residual = span(p.tiers[1].first_s, p.tiers.back().last_s);
    }
    const bool over = state != "running";
    const std::optional<double> now = p.now_s;
    json["tiers"] = std::move(tiers);
    json["prompt_tokens"] = p.prompt_tokens;
    json["prefilled_tokens"] = p.prefilled_tokens;
    json["prefix_hit"] = p.prefix_hit;
    json["drafted"] = p.drafted;
    json["accepted"] = p.accepted;
    json["provisional"] = p.provisional;
    json["committed"] = p.committed;
    json["lanes"] = {{"prefill", span(0.0, p.prefilled_s)},
                     {"anchor", p.tiers.empty() ? Json() : span(p.tiers[0].first_s, p.tiers[0].last_s)},
                     {"residual", std::move(residual)},
                     {"draft", span(p.first_draft_s, p.verify_start_s || over ? p.last_draft_s : std::nullopt)},
                     {"verify", span(p.verify_start_s, p.verified_s)},
                     {"committed", span(p.token1_s, over ? now : std::nullopt)}};
    return dump(json);
}

std::string server_event(const ServerState& state) {
    return dump({{"type", "server"},
                 {"model", state.model},
                 {"now", state.now_s},
                 {"running", state.running},
                 {"waiting", state.waiting},
                 {"sequences", state.sequences},
                 {"prefill_up", state.prefill_up},
                 {"draining", state.draining}});
}

}  // namespace lynx::serve
