// Reports for a terminal: the bench's table and a request's timeline. ASCII and fixed width, so they paste anywhere.
#include <algorithm>
#include <string>

#include "bench/format_text.h"
#include "lynx/bench.h"

namespace lynx {

namespace {

using bench::format;

constexpr int kBarColumns = 48;

/// "name   from - to s  |   ####   |  note".
std::string lane(const char* name, double from_s, double to_s, double total_s, const std::string& note) {
    const auto column = [&](double t) {
        return std::clamp(static_cast<int>(kBarColumns * t / total_s), 0, kBarColumns - 1);
    };
    std::string bar(kBarColumns, ' ');
    for (int c = column(from_s); c <= column(to_s); ++c) {
        bar[static_cast<std::size_t>(c)] = '#';
    }
    return format("  %-9s %8.3f %8.3f s |%s| %s\n", name, from_s, to_s, bar.c_str(), note.c_str());
}

std::string speed(const TierReport& tier) {
    const double seconds = tier.complete_s - tier.first_byte_s;
    const double mbit = seconds > 0 ? 8e-6 * static_cast<double>(tier.bytes) / seconds : 0;
    return format("%.2f MB, %.1f mbit/s, %.2f bits/element", 1e-6 * static_cast<double>(tier.bytes), mbit,
                  tier.bits_per_element);
}

const E2eRow* find(const E2eReport& report, const char* codec) {
    for (const E2eRow& row : report.rows) {
        if (row.codec == codec) {
            return &row;
        }
    }
    return nullptr;
}

/// How much sooner than `base` each row is.
std::string ratios(const E2eReport& report, const E2eRow& base, const char* name) {
    std::string out = format("\nsooner than %s by (ratio of times)\n  %-16s %12s %12s %12s\n", name, "codec",
                             "first token", "32 committed", "64 committed");
    for (const E2eRow& r : report.rows) {
        if (&r != &base) {
            out += format("  %-16s %11.2fx %11.2fx %11.2fx\n", r.codec.c_str(),
                          base.ttft_committed_s / r.ttft_provisional_s.value_or(r.ttft_committed_s),
                          base.tt32t_committed_s / r.tt32t_committed_s, base.tt64t_committed_s / r.tt64t_committed_s);
        }
    }
    return out;
}

}  // namespace

std::string to_table(const E2eReport& report) {
    std::string out = format("%s, %s, %u prompt tokens, KV ready at time zero\n", report.machine.c_str(),
                             report.model.c_str(), report.prompt_tokens);
    out +=
        format("reference TPOT %.1f ms; link %.1f mbit/s: the INT8 transfer takes %.1f TPOT; times in s, medians\n\n",
               report.tpot_ms, report.rows.empty() ? 0 : report.rows.front().link_mbit, report.int8_tpots);
    out += format("%-14s %6s %6s %7s %7s %7s %7s %7s %6s %7s %7s %8s %8s %7s\n", "codec", "bits", "bits", "first",
                  "commit", "commit", "commit", "model", "TPOT", "verify", "drafts", "accepted", "exposed", "same");
    out += format("%-14s %6s %6s %7s %7s %7s %7s %7s %6s %7s %7s %8s %8s %7s\n", "", "anchor", "full", "token", "1",
                  "32", "64", "32", "ms", "ms/tok", "", "", "ms", "tokens");
    for (const E2eRow& r : report.rows) {
        out += format("%-14s %6.2f %6.2f %7.3f %7.3f %7.3f %7.3f %7.3f %6.1f %7.1f %7.1f %8.1f %8.1f %7s\n",
                      r.codec.c_str(), r.bits_anchor, r.bits_full, r.ttft_provisional_s.value_or(r.ttft_committed_s),
                      r.ttft_committed_s, r.tt32t_committed_s, r.tt64t_committed_s, r.model_tt32t_s, r.tpot_ms,
                      r.verify_ms_per_token, r.drafted, r.accepted, r.verify_exposed_ms.value_or(0),
                      r.tokens_equal_full ? "yes" : "NO");
    }
    if (const E2eRow* int8 = find(report, "int8")) {
        out += ratios(report, *int8, "INT8");
    }
    if (const E2eRow* f16 = find(report, "f16")) {
        out += ratios(report, *f16, "F16");
    }
    return out;
}

std::string to_timeline(const GenerateReport& r) {
    const double end = r.committed_s.empty() ? r.last_tier_s : std::max(r.last_tier_s, r.committed_s.back());
    const double total = std::max(end, 1e-9);
    std::string out = format("%u prompt tokens, codec %s, %zu output tokens, finished by %s\n", r.prompt_tokens,
                             r.codec.c_str(), r.tokens.size(), std::string(to_string(r.finish)).c_str());
    out += lane("prefill", 0, r.prefill_s, total, r.prefix_hit ? "prefix hit" : "");
    for (std::size_t t = 0; t < r.tiers.size(); ++t) {
        const char* name = r.tiers.size() == 1 ? "KV" : t == 0 ? "anchor" : "residual";
        out += lane(name, r.tiers[t].first_byte_s, r.tiers[t].complete_s, total, speed(r.tiers[t]));
    }
    if (r.first_provisional_s && r.verify_start_s && r.verified_s) {
        out += lane("draft", r.anchor_complete_s, *r.verify_start_s, total,
                    format("first draft at %.3f s, %u drafted, TPOT %.1f ms", *r.first_provisional_s, r.drafted,
                           1e3 * r.draft_tpot_s));
        out += lane("verify", *r.verify_start_s, *r.verified_s, total,
                    format("%u of %u accepted, done %.0f ms after the last byte", r.accepted, r.drafted,
                           1e3 * (*r.verified_s - r.last_tier_s)));
    }
    if (r.committed_s.size() > 1) {
        out += lane("committed", r.committed_s[1], r.committed_s.back(), total, format("TPOT %.1f ms", 1e3 * r.tpot_s));
    }
    return out;
}

}  // namespace lynx
