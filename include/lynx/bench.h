// Benchmarks. e2e: the same KV over the same emulated link for every system. codec: speed, size and error of every codec on a
// model's real KV. accept: what a tier is worth, in the model's own tokens. Each measures side by side in one run.
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
struct CodecBenchConfig {
    ModelConfig model;  ///< computes the KV; its threads are not the codec's
    std::string prompt;
    std::uint32_t prompt_tokens_max = 0;  ///< cut the prompt to this many tokens; 0: as it is
    std::vector<std::string> codecs;      ///< empty: all
    std::vector<std::string> backends;    ///< empty: all that this CPU runs
    std::vector<std::uint32_t> threads{1};
    CodecOptions codec;  ///< parameters for all of them; its name is ignored
    bool bf16 = false;   ///< round the KV to bfloat16 first, as a model with such a cache would have it
    /// The KV is copied until it has this many bytes, so that nothing stays in a cache between two passes. Memory needed: three times this.
    std::uint64_t working_set_bytes = std::uint64_t{1} << 30;
    std::uint32_t repeats = 1;  ///< of every pass; the median counts
    /// One line per step done.
    std::function<void(const std::string&)> on_progress;
};

/// One codec on one backend with so many threads. Speeds are in 1e9 bytes of float16 input per second, whatever the tier.
struct CodecBenchRow {
    std::string codec;
    std::string backend;
    std::uint32_t threads = 1;
    double encode_gbps = 0;  ///< all tiers
    double decode_anchor_gbps = 0;
    double decode_full_gbps = 0;  ///< from nothing, through the last lossy tier
    double memcpy_gbps = 0;       ///< the same pages copied, same threads, bytes counted once
    double bits_anchor = 0;       ///< all-in: payload, metadata and framing, per KV element
    double bits_full = 0;
    /// Of the exact tier, or of the last one where that returned this KV bit for bit without being one; absent where neither did.
    std::optional<double> bits_exact;
    std::optional<double> decode_exact_gbps;  ///< from nothing, through that tier
    double nmse_anchor_k = 0;                 ///< sum of squared errors / sum of squares, over all layers' keys
    double nmse_anchor_v = 0;
    double nmse_full_k = 0;
    double nmse_full_v = 0;
    double peak_mib = 0;  ///< most resident memory of the process while the row was measured
};

struct CodecBenchReport {
    std::string machine;
    std::string model;
    std::string dtype;  ///< of the KV: f16, bf16 or f32
    std::uint32_t prompt_tokens = 0;
    double working_set_mib = 0;
    std::vector<CodecBenchRow> rows;
};

/// invalid_argument: unknown codec or backend, empty prompt; limit_exceeded: more memory than the machine has.
[[nodiscard]] Result<CodecBenchReport> run_codec_bench(const CodecBenchConfig& config, std::stop_token stop);

struct NamedText {
    std::string name;  ///< for messages
    std::string text;
};

/// How a tier's acceptance is measured. Each text is prefilled once; its places are prefixes of it, evenly spaced, and since
/// attention is causal the KV of a prefix is the prefix of the KV. At a place the tier's KV of the prefix stands in the cache, and
/// two passes of the exact engine follow, whose rows do not depend on what shares a pass:
///  - teacher-forced on the text that follows the place: distributions;
///  - on the tokens that greedy decoding on the original KV gives: a draft holds while its pick is the next of them, which is where
///    free drafting would stop being right.
/// Token 1, which in serving comes from the prefill node, is the exact engine's own.
struct AcceptConfig {
    ModelConfig model;
    std::vector<NamedText> texts;
    std::uint32_t prompt_tokens_max = 0;  ///< longest prefix of a text; 0: what the text and the context hold
    std::vector<CodecOptions> codecs;
    std::uint32_t places = 8;   ///< per text
    std::uint32_t tokens = 32;  ///< per place: teacher-forced rows, and drafts
    bool against_full = true;   ///< fill AcceptRow::full; takes about as long as the rest
    /// One line per step done.
    std::function<void(const std::string&)> on_progress;
};

/// Mean over places with its standard error (0 for one place). Places of one text are not independent: a lower bound.
struct PlaceMean {
    double mean = 0;
    double se = 0;
};

/// A tier's KV against a better one, "reference".
struct AcceptFigures {
    PlaceMean kl;                          ///< mean KL(reference || tier) of a row, nats, temperature 1
    PlaceMean top1;                        ///< share of rows whose most likely token is the same
    PlaceMean expected_accept;             ///< mean over rows of sum_i min(p_i, q_i): a sampled draft's acceptance
    PlaceMean accepted_prefix;             ///< greedy drafts that hold, of AcceptConfig::tokens
    std::optional<PlaceMean> p_accept_10;  ///< share of places where the first 10 drafts hold; absent with fewer tokens
    std::optional<PlaceMean> p_accept_20;
};

struct AcceptRow {
    CodecOptions codec;
    std::string
        tier;         ///< "anchor", "tier1" and so on, "full", perhaps "exact"; a codec with one tier has only the last
    double bits = 0;  ///< all-in and cumulative, per KV element, over all places
    AcceptFigures original;             ///< against the original KV
    std::optional<AcceptFigures> full;  ///< an earlier tier against its codec's last one, which verification uses
};

struct AcceptReport {
    std::string model;
    std::vector<std::string> texts;
    std::vector<std::uint32_t> prefix_tokens;  ///< of every place, texts in order
    std::uint32_t tokens = 0;
    std::vector<AcceptRow> rows;
};

/// invalid_argument: no or unknown codec, a text too short for the places.
[[nodiscard]] Result<AcceptReport> run_accept(const AcceptConfig& config, std::stop_token stop);

/// The codecs of the ablation: one parameter varied at a time around the defaults.
[[nodiscard]] std::vector<CodecOptions> ablation_codecs();

/// One JSON object; "rows": [one object per row with exactly CodecBenchRow's fields].
[[nodiscard]] std::string to_json(const CodecBenchReport& report);
[[nodiscard]] std::string to_table(const CodecBenchReport& report);
/// One JSON object; a row has its codec's name and parameters, tier, bits, each figure, the figure's standard error as NAME_se, and
/// "vs_full" with the same figures or null.
[[nodiscard]] std::string to_json(const AcceptReport& report);
[[nodiscard]] std::string to_table(const AcceptReport& report);
/// A request's report as one JSON object / as a timeline for a terminal.
[[nodiscard]] std::string to_json(const GenerateReport& report);
[[nodiscard]] std::string to_timeline(const GenerateReport& report);

}  // namespace lynx
