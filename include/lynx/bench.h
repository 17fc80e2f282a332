// The end-to-end benchmark: the same KV over the same emulated link for every system, measured side by side in one run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lynx/node.h"
#include "lynx/status.h"

namespace lynx {

struct E2eConfig {
    ModelConfig model;  ///< both nodes and the reference
    std::string prompt;
    std::uint32_t prompt_tokens_max = 0;  ///< cut the prompt to this many tokens; 0: as it is
    std::vector<std::string>
        systems;         ///< codec names; a progressive codec drafts, "<codec>-mono" and monolithic ones wait
    CodecOptions codec;  ///< parameters for all of them; its name is ignored
    std::optional<double> link_rate_bits_per_s;
    double int8_tpots = 40;  ///< without a rate: the rate at which the INT8 transfer takes this many TPOT
    double link_delay_s = 0;
    std::uint32_t tokens = 65;  ///< output tokens, token 1 included
    std::uint32_t repeats = 3;
    std::optional<std::uint32_t> window;
    /// Starts a prefill node as its own process with that link and returns its HOST:PORT.
    std::function<Result<std::string>(LinkEmulation link)> start_prefill;
    /// One line per step done.
    std::function<void(const std::string&)> on_progress;
};

/// One system; times are medians over the repeats, in seconds from the sending of the request, KV ready at time zero.
struct E2eRow {
    std::string system;  ///< "lynx" (drafting) or "monolithic"
    std::string codec;
    double link_mbit = 0;
    std::uint32_t threads = 1;
    double bits_anchor = 0;  ///< all-in: payload, metadata and framing, per KV element
    double bits_full = 0;
    double token1_from_prefill_s = 0;
    std::optional<double> ttft_provisional_s;  ///< first draft; for a monolithic system its first token
    double ttft_committed_s = 0;               ///< first committed token that the decode node made itself
    double tt32t_committed_s = 0;              ///< 32nd of them
    double tt64t_committed_s = 0;              ///< 64th
    double tpot_ms = 0;
    double verify_ms_per_token = 0;
    std::optional<double> verify_exposed_ms;  ///< from the last tier's last byte to the verified tokens
    double window = 0;
    double drafted = 0;
    double accepted = 0;
    double acceptance = 0;     ///< accepted / drafted, over all repeats
    double p_full_accept = 0;  ///< share of repeats in which every draft was accepted
    std::vector<std::int32_t> tokens;
    bool tokens_equal_full = false;  ///< in every repeat identical to the reference run on this codec's full tier
    double kl_anchor_vs_full = 0;    ///< mean KL(full || anchor) in nats over the reference tokens, teacher-forced
    double model_tt32t_s = 0;        ///< what the latency model predicts for tt32t_committed_s
};

struct E2eReport {
    std::string machine;  ///< CPU model and cores
    std::string model;
    std::uint32_t prompt_tokens = 0;
    double tpot_ms = 0;     ///< of the reference run
    double int8_tpots = 0;  ///< what the link rate amounts to
    std::vector<E2eRow> rows;
};

[[nodiscard]] Result<E2eReport> run_e2e(const E2eConfig& config, std::stop_token stop);

/// One JSON object: machine, model, ..., "rows": [one object per system with exactly E2eRow's fields].
[[nodiscard]] std::string to_json(const E2eReport& report);
/// The same as a table for a terminal, with ratios against INT8 and F16.
[[nodiscard]] std::string to_table(const E2eReport& report);
/// A request's report as one JSON object / as a timeline for a terminal.
[[nodiscard]] std::string to_json(const GenerateReport& report);
[[nodiscard]] std::string to_timeline(const GenerateReport& report);

}  // namespace lynx
