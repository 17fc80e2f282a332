// One request's draft-verify-commit life, without I/O: events and step results in, what to run next and commits out.
//
// The caller (node, or the batching server) owns the engine, decides when a step runs and tells what happened. Output positions: the prompt
// holds positions [0, prompt_tokens); token 1 (from the prefill node) has position prompt_tokens, output token i position prompt_tokens + i - 1.
// Invariant: a token becomes committed only from logits computed on the better KV (or is token 1); once committed it never changes.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "lynx/status.h"
#include "speculate/sampling.h"
#include "speculate/window.h"

namespace lynx::speculate {

struct Options {
    Sampling sampling;
    std::uint32_t max_tokens = 64;             ///< output tokens, token 1 included; >= 1
    std::vector<Token> end_tokens;             ///< any of them ends the output (and is not part of the text)
    std::vector<std::string> stop_strings;     ///< text is cut before the first match, also across token borders
    std::function<std::string(Token)> piece;   ///< bytes of a token; needed when stop_strings is not empty
    WindowOptions window;
    bool draft = true;                         ///< false: wait for the full KV (monolithic baseline)
    std::uint64_t ratio_seed = 0;              ///< randomness of the ratio rule (from the OS unless a test fixes it)
};

enum class FinishReason : std::uint8_t { none, length, end_token, stop_string };

/// What the engine should do next for this request.
enum class ActionKind : std::uint8_t {
    wait,      ///< nothing until an event arrives (or Action::not_before passes)
    draft,     ///< one row on the current KV
    verify,    ///< truncate to `truncate_to`, then one pass over `rows`; may start before the last tier is there if gated
    decode,    ///< one row on verified KV
    finished,
};
struct Action {
    ActionKind kind = ActionKind::wait;
    std::vector<engine::Row> rows;             ///< seq is 0; the caller fills its own
    std::uint32_t truncate_to = 0;             ///< verify only: positions to keep before the pass
    std::optional<base::Nanos> not_before;     ///< wait only: ask again then
};

/// Output since the last take_output(). Apply in order: retract from the end of the provisional tokens, then commit (a committed token
/// that was provisional keeps its place), then append provisional.
struct Output {
    std::uint32_t retracted = 0;               ///< provisional tokens withdrawn
    std::vector<Token> committed;              ///< newly final
    std::uint32_t confirmed = 0;               ///< how many of `committed` were shown provisionally before
    std::vector<Token> provisional;            ///< newly drafted
};

struct Counters {
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    std::uint32_t window = 0;                  ///< drafts in the verification pass
    bool full_accept = false;                  ///< every draft was accepted
};

class Speculation {
public:
    /// Token 1 is committed at once (it was drawn from exact logits). Checks options: invalid_argument.
    [[nodiscard]] static Result<Speculation> create(Options options, std::uint32_t prompt_tokens, Token token1);

    // --- events ---
    /// Tier 0 of every page is in place: drafting may start.
    void on_anchor_ready(base::Nanos now);
    /// The best lossy tier of every page is in place (or will be, behind a gate that is already open).
    void on_residual_ready(base::Nanos now);
    /// Live estimate of when the last tier's last page, and its first layer, will be there.
    void on_transfer_estimate(base::Nanos last_page, base::Nanos first_layer);

    // --- the loop ---
    [[nodiscard]] Action next(base::Nanos now) const;
    /// The action's step ran; logits(i) are those of action.rows[i]. `took` excludes waiting at gates.
    void on_step_done(const Action& action, const std::function<std::span<const float>(std::size_t)>& logits, base::Nanos took,
                      base::Nanos now);

    [[nodiscard]] Output take_output();
    [[nodiscard]] const std::vector<Token>& committed() const noexcept;   ///< token 1 first
    [[nodiscard]] std::string committed_text() const;                     ///< cut at a stop string; needs Options::piece
    [[nodiscard]] FinishReason finish_reason() const noexcept;
    [[nodiscard]] const Counters& counters() const noexcept;
    [[nodiscard]] const CostModel& cost() const noexcept;

private:
    // Filled by the implementation.
};

}  // namespace lynx::speculate
