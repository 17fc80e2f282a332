// The two nodes of disaggregated serving: a prefill node that computes and sends KV, a decode node that drafts on the
// anchor, verifies and commits. Blocking calls; one process may hold both. Standard types only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "lynx/codec.h"
#include "lynx/logprobs.h"
#include "lynx/security.h"
#include "lynx/status.h"

namespace lynx {

/// Shape of an emulated link, applied by the sender. Zero: not emulated.
struct LinkEmulation {
    double rate_bits_per_s = 0;
    double delay_s = 0;
    [[nodiscard]] bool active() const noexcept { return rate_bits_per_s > 0 || delay_s > 0; }
};

/// "250mbit", "1gbit", "8000" (bit/s), "10mbps" (bytes/s): tc's syntax. invalid_argument with the text.
[[nodiscard]] Result<double> parse_link_rate(std::string_view text);
/// "5ms", "100us", "1s" to seconds. invalid_argument with the text.
[[nodiscard]] Result<double> parse_link_delay(std::string_view text);

/// A model as a node loads it. `path` is a GGUF file, or "fake" / "fake:SEED" for the deterministic test model.
struct ModelConfig {
    std::string path;
    std::uint32_t context_tokens = 4096;  ///< per sequence
    std::uint32_t sequences = 1;
    std::uint32_t threads = 1;
    std::uint32_t batch_tokens = 256;  ///< rows per step; the prefill chunk
};

struct PrefillConfig {
    ModelConfig model;
    std::string listen = "127.0.0.1:0";  ///< HOST:PORT; port 0 picks a free one
    PeerSecurity security;
    LinkEmulation link;
    double peer_timeout_s = 5;  ///< silence after which a peer counts as dead
    /// Called once with the bound port when connections are accepted.
    std::function<void(std::uint16_t port)> on_listening;
    /// One line per outcome (request id, what happened); may be called from several threads.
    std::function<void(const std::string& line)> on_log;
};

/// Serves until stop is requested. io / invalid_argument when it cannot start.
[[nodiscard]] Status run_prefill_node(const PrefillConfig& config, std::stop_token stop);

struct DecodeConfig {
    ModelConfig model;
    std::string prefill = "127.0.0.1:0";  ///< HOST:PORT of the prefill node
    PeerSecurity security;
    LinkEmulation link;
    double connect_timeout_s = 10;
    double peer_timeout_s = 5;
    double prefill_timeout_s =
        600;  ///< a request whose prefill says nothing for this long fails with timeout: it may wait for others
    double stall_timeout_s = 30;  ///< so does one whose prefill is done and whose transfer stands still for this long
};

struct GenerateRequest {
    std::string prompt;  ///< text; ignored when prompt_tokens is not empty
    std::vector<std::int32_t> prompt_tokens;
    bool chat = false;              ///< wrap the text in the model's chat template
    std::uint32_t max_tokens = 64;  ///< output tokens, the prefill node's first one included
    float temperature = 0;
    std::uint32_t top_k = 0;
    float top_p = 1;
    std::optional<std::uint64_t> seed;  ///< with temperature > 0: coupled sampling, reproducible
    std::vector<std::string> stop_strings;
    bool ignore_end = false;  ///< go on after an end token (benchmarks)
    /// Log probabilities of the committed tokens, with so many alternatives each, at most kTopLogprobsMax. Token 1's needs the full KV and a step of its
    /// own: such a request shows and drafts nothing before.
    std::optional<std::uint32_t> top_logprobs;
    CodecOptions codec;
    bool draft = true;                    ///< false: wait for the last tier, then decode
    std::optional<std::uint32_t> window;  ///< exactly this many drafts; absent: adaptive
};

/// One change of the visible output.
struct TextUpdate {
    std::string_view committed;                   ///< new final text, to append to the final text so far
    std::string_view provisional;                 ///< all drafted text that now stands behind it
    std::uint32_t retracted = 0;                  ///< drafts withdrawn by this update
    std::span<const CommittedLogprobs> logprobs;  ///< of tokens that were committed; their text may follow later
};

/// Where a request is. Seconds count from its sending; absent: has not happened yet.
struct RequestProgress {
    struct Tier {
        std::uint64_t bytes = 0;  ///< payload and framing, so far
        std::optional<double> first_s, last_s;
    };
    double now_s = 0;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t prefilled_tokens = 0;
    bool prefix_hit = false;
    std::optional<double> prefilled_s, token1_s;
    std::vector<Tier> tiers;
    std::optional<double> first_draft_s, last_draft_s, verify_start_s, verified_s;
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    std::uint32_t provisional = 0;  ///< drafts not judged yet
    std::uint32_t committed = 0;
};

/// What a caller may watch while a request runs; every member may be empty. Called on the inference thread: be quick.
struct GenerateEvents {
    std::function<void(std::uint32_t done, std::uint32_t total, bool prefix_hit)> on_prefill;
    std::function<void(const TextUpdate&)> on_text;
    /// At most ten times a second, and once more at the end, before the outcome. Not before the request has a sequence.
    std::function<void(const RequestProgress&)> on_progress;
};

enum class Finish : std::uint8_t { length, end_token, stop_string };
[[nodiscard]] std::string_view to_string(Finish finish) noexcept;

struct TierReport {
    std::uint64_t bytes = 0;      ///< payload and framing
    double first_byte_s = 0;      ///< arrival of its first page
    double complete_s = 0;        ///< arrival of its last page
    double bits_per_element = 0;  ///< all-in, this tier alone
};

/// Seconds count from the sending of the request.
struct GenerateReport {
    std::vector<std::int32_t> tokens;         ///< committed, token 1 first; ends with the end token if there was one
    std::vector<double> committed_s;          ///< per token
    std::vector<CommittedLogprobs> logprobs;  ///< per token, if asked for
    std::string text;
    Finish finish = Finish::length;
    std::uint32_t prompt_tokens = 0;
    std::string codec;
    std::vector<TierReport> tiers;
    double prefill_s = 0;  ///< until the prefill node had finished
    bool prefix_hit = false;
    double token1_s = 0;           ///< token 1 arrived from the prefill node
    double anchor_complete_s = 0;  ///< tier 0 in place
    std::optional<double> first_provisional_s;
    double last_tier_s = 0;  ///< last byte of the last tier arrived
    std::optional<double> verify_start_s;
    std::optional<double> verified_s;
    double verify_waited_s = 0;  ///< inside the pass, at layer gates
    double tpot_s = 0;           ///< mean of ordinary decode steps
    double draft_tpot_s = 0;
    double verify_per_token_s = 0;
    std::uint32_t window = 0;
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    bool full_accept = false;
};

/// Not thread-safe: one generate() at a time.
class DecodeNode {
public:
    /// Loads the model and connects. io, peer_lost, timeout, or invalid_argument when the peer's model differs.
    [[nodiscard]] static Result<std::unique_ptr<DecodeNode>> create(const DecodeConfig& config);
    virtual ~DecodeNode() = default;

    /// Runs one request to its end. Any failure is an error, never a shorter answer; cancelled when `stop` is requested.
    [[nodiscard]] virtual Result<GenerateReport> generate(const GenerateRequest& request, const GenerateEvents& events,
                                                          std::stop_token stop) = 0;
};

/// Writes OUT as the GGUF at IN requantised to "q4_0" or "q8_0".
[[nodiscard]] Status requantize_model(const std::string& in_path, const std::string& out_path, std::string_view type);

}  // namespace lynx
