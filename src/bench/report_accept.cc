// The acceptance benchmark's report as JSON and as a table.
#include <nlohmann/json.hpp>

#include "bench/format_text.h"
#include "lynx/bench.h"

namespace lynx {

namespace {

using Json = nlohmann::ordered_json;

void put(Json& json, const std::string& name, const std::optional<PlaceMean>& figure) {
    json[name] = figure ? Json(figure->mean) : Json(nullptr);
    json[name + "_se"] = figure ? Json(figure->se) : Json(nullptr);
}

void put(Json& json, const AcceptFigures& f) {
    put(json, "kl", f.kl);
    put(json, "top1", f.top1);
    put(json, "expected_accept", f.expected_accept);
    put(json, "accepted_prefix_mean", f.accepted_prefix);
    put(json, "p_accept_10", f.p_accept_10);
    put(json, "p_accept_20", f.p_accept_20);
}

}  // namespace

std::string to_json(const AcceptReport& report) {
    Json json{{"model", report.model},
              {"texts", report.texts},
              {"places", report.prefix_tokens.size()},
              {"prefix_tokens", report.prefix_tokens},
              {"tokens", report.tokens},
              {"rows", Json::array()}};
    for (const AcceptRow& r : report.rows) {
        Json row{{"codec", r.codec.name},
                 {"alpha", r.codec.alpha},
                 {"chunk_tokens", r.codec.chunk_tokens},
                 {"page_tokens", r.codec.page_tokens},
                 {"meta", r.codec.meta},
                 {"sinks", r.codec.sinks},
                 {"recent", r.codec.recent},
                 {"tier", r.tier},
                 {"bits", r.bits}};
        put(row, r.original);
        row["vs_full"] = nullptr;
        if (r.full) {
            put(row["vs_full"], *r.full);
        }
        json["rows"].push_back(std::move(row));
    }
    return json.dump();
}

std::string to_table(const AcceptReport& report) {
    using bench::format;
    std::string out = format("%s, %zu places in %zu texts, %u tokens at each; +-: standard error over places\n\n",
                             report.model.c_str(), report.prefix_tokens.size(), report.texts.size(), report.tokens);
    out += format("%-16s %5s %5s %5s %4s %-7s %6s %-16s %-14s %-14s %-12s %5s %5s\n", "codec", "alpha", "chunk", "page",
                  "meta", "tier", "bits", "KL, nats", "same top", "E[accept]", "accepted", "P(10)", "P(20)");
    const auto row = [&](const AcceptRow& r, const char* tier, const AcceptFigures& f) {
        const auto share = [](const std::optional<PlaceMean>& p) { return p ? format("%.2f", p->mean) : "-"; };
        out += format(
            "%-16s %5g %5u %5u %4s %-7s %6.2f %7.4f +-%6.4f %6.3f +-%5.3f %6.3f +-%5.3f %5.1f +-%4.1f %5s %5s\n",
            r.codec.name.c_str(), r.codec.alpha, r.codec.chunk_tokens, r.codec.page_tokens, r.codec.meta.c_str(), tier,
            r.bits, f.kl.mean, f.kl.se, f.top1.mean, f.top1.se, f.expected_accept.mean, f.expected_accept.se,
            f.accepted_prefix.mean, f.accepted_prefix.se, share(f.p_accept_10).c_str(), share(f.p_accept_20).c_str());
    };
    for (const AcceptRow& r : report.rows) {
        row(r, r.tier.c_str(), r.original);
    }
    out += "\nanchors against their own codec's full tier\n";
    for (const AcceptRow& r : report.rows) {
        if (r.full) {
            row(r, r.tier.c_str(), *r.full);
        }
    }
    return out;
}

}  // namespace lynx
