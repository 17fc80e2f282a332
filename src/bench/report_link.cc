// The link benchmark's report as JSON and as a table.
#include <nlohmann/json.hpp>

#include "bench/format_text.h"
#include "lynx/link_bench.h"

namespace lynx {

std::string to_json(const LinkBenchReport& report) {
    using Json = nlohmann::ordered_json;
    const LinkBenchConfig& c = report.config;
    Json json{{"machine", report.machine},
              {"link_rate_bits_per_s", c.link.rate_bits_per_s},
              {"link_delay_s", c.link.delay_s},
              {"peers", c.peers},
              {"requests", c.requests},
              {"frame_kib", c.frame_kib},
              {"anchor_frames", c.anchor_frames},
              {"probes", c.probes},
              {"seconds", c.seconds},
              {"rounds", c.rounds},
              {"rows", Json::array()}};
    const auto latency = [](const std::optional<LinkLatency>& x) {
        return x ? Json{{"p50", x->p50}, {"p99", x->p99}} : Json(nullptr);
    };
    for (const LinkBenchRow& r : report.rows) {
        json["rows"].push_back(
            {{"transport", r.transport},
             {"goodput_mbit", r.goodput_mbit},
             {"vs_socket", r.vs_socket > 0 ? Json(r.vs_socket) : Json(nullptr)},
             {"anchors_idle_ms", latency(r.anchors_idle_ms)},
             {"anchors_loaded_ms", latency(r.anchors_loaded_ms)},
             {"frame_ms", r.frame_ms},
             {"receiver_cpu_s_per_gb", r.receiver_cpu_s_per_gb},
             {"sender_cpu_s_per_gb", r.sender_cpu_s_per_gb ? Json(*r.sender_cpu_s_per_gb) : Json(nullptr)},
             {"fairness", r.fairness}});
    }
    return json.dump();
}

std::string to_table(const LinkBenchReport& report) {
    using bench::format;
    const LinkBenchConfig& c = report.config;
    std::string out =
        format("%s, frames of %u KiB, %u peer%s with %u requests each; anchors: %u frames, ms\n\n",
               report.machine.c_str(), c.frame_kib, c.peers, c.peers == 1 ? "" : "s", c.requests, c.anchor_frames);
    constexpr const char* kTitles = "%-9s %12s %9s %18s %18s %9s %16s %8s\n";
    out += format(kTitles, "", "goodput", "of plain", "anchors idle", "anchors loaded", "a frame", "CPU s per GB",
                  "Jain's");
    out += format(kTitles, "transport", "Mbit/s", "socket", "p50 / p99", "p50 / p99", "ms", "send / receive", "index");
    const auto latency = [](const std::optional<LinkLatency>& x) {
        return x ? format("%.2f / %.2f", x->p50, x->p99) : std::string("-");
    };
    for (const LinkBenchRow& r : report.rows) {
        const std::string sender = r.sender_cpu_s_per_gb ? format("%.3f", *r.sender_cpu_s_per_gb) : "-";
        out += format("%-9s %12.1f %9s %18s %18s %9.3f %16s %8.3f\n", r.transport.c_str(), r.goodput_mbit,
                      r.vs_socket > 0 ? format("%.3f", r.vs_socket).c_str() : "-", latency(r.anchors_idle_ms).c_str(),
                      latency(r.anchors_loaded_ms).c_str(), r.frame_ms,
                      (sender + format(" / %.3f", r.receiver_cpu_s_per_gb)).c_str(), r.fairness);
    }
    return out;
}

}  // namespace lynx
