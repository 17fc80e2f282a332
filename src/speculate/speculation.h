// One request's draft-verify-commit life, without I/O: events and step results in, what to run next and commits out.
//
// The caller (node, or the batching server) owns the engine, decides when a step runs and tells what happened. Output positions: the prompt
// holds positions [0, prompt_tokens); token 1 (from the prefill node) has position prompt_tokens, output token i position prompt_tokens + i - 1.
// Invariant: a token becomes committed only from logits computed on the better KV (or is token 1); once committed it never changes.
//
// Phases: wait for the anchors; draft on them, one row per step; one verification pass over token 1 and the drafts, once the residual is
// there or, gated layer by layer, so early that it hides behind the transfer; then plain decoding. Nothing is drafted after the pass.
// Non-goals: choosing whether to speculate at all, batching several requests, and running the engine. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "lynx/logprobs.h"
#include "lynx/status.h"
#include "speculate/acceptance.h"
#include "speculate/sampling.h"
#include "speculate/stop_strings.h"
#include "speculate/window.h"

namespace lynx::speculate {

struct Options {
    Sampling sampling{};
    std::uint32_t max_tokens = 64;                ///< output tokens, token 1 included; >= 1
    std::vector<Token> end_tokens{};              ///< any of them ends the output (and is not part of the text)
    std::vector<std::string> stop_strings{};      ///< text is cut before the first match, also across token borders
    std::function<std::string(Token)> piece{};    ///< bytes of a token; needed when stop_strings is not empty
    std::optional<std::uint32_t> top_logprobs{};  ///< keep every committed token's, with so many alternatives
    WindowOptions window{};
    bool draft = true;  ///< false: wait for the full KV (monolithic baseline)
    bool gated = true;  ///< false: the pass never starts before the residual is there (the caller cannot gate)
    std::uint64_t ratio_seed = 0;  ///< randomness of the ratio rule (from the OS unless a test fixes it)
    CostModel cost{};              ///< what earlier requests on this engine measured: Speculation::cost()
    AcceptanceModel acceptance{};  ///< and with this codec and model: Speculation::acceptance()
};

/// What a step took, waiting at gates excluded.
struct StepTimes {
    base::Nanos computed{0};
    std::optional<base::Nanos> after_last_gate{};  ///< part of it; of a gated pass
};

enum class FinishReason : std::uint8_t { none, length, end_token, stop_string };

/// What the engine should do next for this request.
enum class ActionKind : std::uint8_t {
    wait,    ///< nothing until an event arrives (or Action::not_before passes)
    draft,   ///< one row on the current KV
    verify,  ///< one pass over `rows` on the better KV; may start before the last tier is there if `gated`
    decode,  ///< one row on verified KV
    finished,
};
struct Action {
    ActionKind kind = ActionKind::wait;
    std::vector<engine::Row> rows{};  ///< seq is 0; the caller fills its own
    std::uint32_t truncate_to = 0;    ///< with rows: positions to keep before the step (what rows[0] continues)
    bool gated = false;               ///< verify only: run it with a LayerGate that waits for each layer's last tier
    std::optional<base::Nanos> not_before{};  ///< wait only: ask again then
};

/// Output since the last take_output(). Apply in order: retract from the end of the provisional tokens, then commit (a committed token
/// that was provisional keeps its place), then append provisional.
struct Output {
    std::uint32_t retracted = 0;     ///< provisional tokens withdrawn
    std::vector<Token> committed;    ///< newly final
    std::uint32_t confirmed = 0;     ///< how many of `committed`, the first ones, were shown provisionally before
    std::vector<Token> provisional;  ///< newly drafted
};

struct Counters {
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    std::uint32_t window = 0;  ///< drafts in the verification pass
    bool full_accept = false;  ///< there were drafts, and every one was accepted
};

class Speculation {
public:
    /// Token 1 is committed at once (it was drawn from exact logits). invalid_argument or limit_exceeded for bad options.
    [[nodiscard]] static Result<Speculation> create(Options options, std::uint32_t prompt_tokens, Token token1);

    /// Whether a pass may be gated from now on: not while it would hold up other requests on the engine.
    void allow_gating(bool allowed) noexcept { options_.gated = allowed; }

    // --- events (repeating one, or telling it after the finish, changes nothing) ---
    /// Tier 0 of every page is in place: drafting may start.
    void on_anchor_ready(base::Nanos now);
    /// The best lossy tier of every page is in place (or will be, behind a gate that is already open). Implies the anchors.
    void on_residual_ready(base::Nanos now);
    /// Live estimate of when the last tier's last page, and its first layer, will be there. One that passed by more than one
    /// tpot without on_residual_ready is not trusted: no gated pass is started on it.
    void on_transfer_estimate(base::Nanos last_page, base::Nanos first_layer);

    /// Token 1's logits, of the better KV; needed once when Options::top_logprobs is set.
    void score_token1(std::span<const float> logits);

    // --- the loop ---
    /// Asked again after every event, step and not_before; an action that was not run may be dropped.
    /// An adaptive window drafts until keep_drafting says no or the residual is there; with nothing drafted by then, decoding starts
    /// at once. A fixed window drafts exactly N whatever arrives (fewer when a draft would end the output).
    [[nodiscard]] Action next(base::Nanos now) const;
    /// The action's step ran; logits(i) are those of action.rows[i]. A step that failed is not told: next() then offers it again.
    /// Precondition: the action came from next(), and since then only events were told.
    void on_step_done(const Action& action, const std::function<std::span<const float>(std::size_t)>& logits,
                      const StepTimes& times);

    [[nodiscard]] Output take_output();
    /// Bytes of committed text since the last take_text() that no stop string can cut any more; all the rest at the finish.
    [[nodiscard]] std::string take_text();
    /// Token 1 first; an end token that ended the output, or the tokens of a stop string, are its last.
    [[nodiscard]] const std::vector<Token>& committed() const noexcept;
    /// One for each of committed(), when Options::top_logprobs is set; the first is a placeholder until score_token1().
    [[nodiscard]] const std::vector<CommittedLogprobs>& logprobs() const noexcept { return logprobs_; }
    /// Without end token, cut at a stop string; empty without Options::piece.
    [[nodiscard]] std::string committed_text() const;
    [[nodiscard]] FinishReason finish_reason() const noexcept;
    [[nodiscard]] const Counters& counters() const noexcept;
    [[nodiscard]] const CostModel& cost() const noexcept;
    [[nodiscard]] const AcceptanceModel& acceptance() const noexcept;

private:
    /// Tests put a wrong acceptance rule in, to prove that their checkers reject it.
    friend struct SpeculationPeer;

    using Logits = std::function<std::span<const float>(std::size_t)>;
    struct Draft {
        Token token = 0;
        Distribution q;  ///< ratio rule only: what it was drawn from
    };

    Speculation(Options options, std::uint32_t prompt_tokens);

    [[nodiscard]] std::uint32_t position(std::size_t output_index) const noexcept;
    [[nodiscard]] bool may_draft(base::Nanos now) const noexcept;
    [[nodiscard]] FinishReason ends(Token token, std::size_t output_tokens, StopText& text) const;
    [[nodiscard]] Action draft_action() const;
    [[nodiscard]] Action verify_action(bool gated) const;
    [[nodiscard]] Action decode_action() const;
    void add_draft(std::span<const float> logits);
    void judge_drafts(const Logits& logits);
    /// `logits`: those it was drawn from; empty for token 1.
    void commit(Token token, std::span<const float> logits);

    Options options_;
    std::uint32_t prompt_tokens_ = 0;
    CostModel cost_;
    AcceptanceModel acceptance_;
    Counters counters_;
    RatioOutcome (*ratio_rule_)(const Distribution&, const Distribution&, Token, double, double) noexcept = &ratio_rule;

    bool anchor_ready_ = false;
    bool residual_ready_ = false;
    bool decoding_ = false;  ///< drafts are judged, or there were none
    std::optional<TransferEstimate> estimate_;

    std::vector<Token> committed_;
    std::vector<CommittedLogprobs> logprobs_;
    StopText text_;  ///< of committed_
    FinishReason finish_reason_ = FinishReason::none;

    std::vector<Draft> drafts_;  ///< not judged yet
    StopText draft_text_;        ///< text_ and the drafts'
    bool draft_ends_output_ = false;

    std::size_t committed_taken_ = 0;  ///< of committed_, by take_output
    std::vector<Token> shown_;         ///< provisional tokens the client holds, following the committed ones it took
    std::size_t text_taken_ = 0;       ///< bytes, by take_text
};

}  // namespace lynx::speculate
