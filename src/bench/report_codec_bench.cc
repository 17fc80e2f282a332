// The codec benchmark's report as JSON and as a table.
#include <nlohmann/json.hpp>

#include "bench/format_text.h"
#include "lynx/bench.h"

namespace lynx {

std::string to_json(const CodecBenchReport& report) {
    using Json = nlohmann::ordered_json;
    Json json{{"machine", report.machine},
              {"model", report.model},
              {"dtype", report.dtype},
              {"prompt_tokens", report.prompt_tokens},
              {"working_set_mib", report.working_set_mib},
              {"rows", Json::array()}};
    for (const CodecBenchRow& r : report.rows) {
        json["rows"].push_back({{"codec", r.codec},
                                {"backend", r.backend},
                                {"threads", r.threads},
                                {"encode_gbps", r.encode_gbps},
                                {"decode_anchor_gbps", r.decode_anchor_gbps},
                                {"decode_full_gbps", r.decode_full_gbps},
                                {"decode_exact_gbps", r.decode_exact_gbps ? Json(*r.decode_exact_gbps) : Json(nullptr)},
                                {"memcpy_gbps", r.memcpy_gbps},
                                {"bits_anchor", r.bits_anchor},
                                {"bits_full", r.bits_full},
                                {"bits_exact", r.bits_exact ? Json(*r.bits_exact) : Json(nullptr)},
                                {"nmse_anchor_k", r.nmse_anchor_k},
                                {"nmse_anchor_v", r.nmse_anchor_v},
                                {"nmse_full_k", r.nmse_full_k},
                                {"nmse_full_v", r.nmse_full_v},
                                {"peak_mib", r.peak_mib}});
    }
    return json.dump();
}

std::string to_table(const CodecBenchReport& report) {
    using bench::format;
    std::string out = format(
        "%s, %s, %s KV of %u prompt tokens, copied to %.0f MiB\nGB/s of 16-bit input; NMSE: squared error / square\n\n",
        report.machine.c_str(), report.model.c_str(), report.dtype.c_str(), report.prompt_tokens,
        report.working_set_mib);
    constexpr const char* kTitles = "%-18s %-8s %7s %7s %7s %7s %7s %7s %6s %6s %6s %8s %8s %8s %8s %7s\n";
    out += format(kTitles, "codec", "backend", "threads", "encode", "decode", "decode", "decode", "memcpy", "bits",
                  "bits", "bits", "anchor", "anchor", "full", "full", "peak");
    out += format(kTitles, "", "", "", "", "anchor", "full", "exact", "", "anchor", "full", "exact", "K", "V", "K", "V",
                  "MiB");
    const auto optional = [](const char* form, std::optional<double> x) {
        return x ? format(form, *x) : std::string("-");
    };
    for (const CodecBenchRow& r : report.rows) {
        out += format("%-18s %-8s %7u %7.3f %7.3f %7.3f %7s %7.2f %6.2f %6.2f %6s %8.1e %8.1e %8.1e %8.1e %7.0f\n",
                      r.codec.c_str(), r.backend.c_str(), r.threads, r.encode_gbps, r.decode_anchor_gbps,
                      r.decode_full_gbps, optional("%.3f", r.decode_exact_gbps).c_str(), r.memcpy_gbps, r.bits_anchor,
                      r.bits_full, optional("%.2f", r.bits_exact).c_str(), r.nmse_anchor_k, r.nmse_anchor_v,
                      r.nmse_full_k, r.nmse_full_v, r.peak_mib);
    }
    return out;
}

}  // namespace lynx
