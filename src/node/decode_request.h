// One request on the decode node: received events on one side, engine steps on the other, speculation between them.
//
// Sans-IO apart from the engine: the threaded node and the simulator drive the same code. Two threads may use it: the receive thread calls
// on_*, the inference thread calls everything else. Every failure ends up in status(), and a failed request yields no more tokens.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "codec/codec.h"
#include "engine/engine.h"
#include "lynx/status.h"
#include "node/arrival_estimator.h"
#include "node/kv_assembly.h"
#include "node/kv_row.h"
#include "speculate/speculation.h"
#include "wire/session.h"

namespace lynx::node {

/// What happened when, for the timeline; absent: has not happened. Times are the node's clock.
struct RequestTimes {
    struct Tier {
        std::uint64_t bytes = 0;  ///< payload and framing
        std::optional<base::Nanos> first, last;
    };
    base::Nanos start{0};
    std::optional<base::Nanos> prefilled, token1, anchor_complete, last_tier, verify_start, verified;
    std::vector<Tier> tiers;
    base::Nanos verify_waited{0};
    std::uint32_t prefill_done = 0;  ///< tokens
    bool prefix_hit = false;
};

class DecodeRequest final : public engine::LayerGate {
public:
    /// Called while a gated pass has to wait for `layer`: returns when it may be there, or fails. The threaded node blocks on a condition
    /// variable (the default); the simulator runs its event loop.
    using WaitForLayer = std::function<Status(DecodeRequest&, std::uint32_t layer)>;

    struct Setup {
        std::uint64_t request = 0;
        std::uint32_t generation = 0;
        engine::Engine& engine;
        engine::SeqId seq = 0;
        const base::Clock& clock;
        const codec::Codec& codec;
        kv::Paging paging;
        speculate::Options speculation;
        engine::Token last_prompt_token = 0;  ///< read with speculation.top_logprobs: what token 1 is scored by
        base::Nanos prefill_timeout = std::chrono::seconds(600);  ///< without news, until the prefill is done
        base::Nanos stall_timeout = std::chrono::seconds(30);     ///< without news, from then on
        std::function<void()> on_change;  ///< what next() says may have changed; any thread; may be empty
        WaitForLayer wait_for_layer;      ///< empty: block on the condition variable
    };

    /// Reserves the sequence's KV.
    [[nodiscard]] static Result<std::unique_ptr<DecodeRequest>> create(Setup setup);

    // --- receive thread ---
    /// Takes what concerns this request and generation; decodes pages. Everything else is ignored.
    void on_event(wire::Event event);
    /// The request cannot go on. Any thread; the first reason counts.
    void fail(Status status);

    // --- inference thread ---
    /// What to do now: folds arrivals into the speculation. Fails when the request failed or stalled. `may_gate`: a pass may wait at layer gates.
    [[nodiscard]] Result<speculate::Action> next(bool may_gate);
    /// Makes the sequence ready for the action's rows. Precondition, here and below: kind is draft, verify or decode.
    [[nodiscard]] Status prepare(const speculate::Action& action);
    /// What the step with the action's rows needs: the gate of a gated pass, else null.
    [[nodiscard]] engine::LayerGate* gate(const speculate::Action& action) noexcept {
        return action.gated ? this : nullptr;
    }
    /// Takes the results of the step that ran the action, which began at `start` and whose rows begin at `first_row` of the step.
    [[nodiscard]] Status complete(const speculate::Action& action, std::size_t first_row, base::Nanos start,
                                  base::Nanos end);

    [[nodiscard]] Status status() const;
    [[nodiscard]] RequestTimes times() const;
    /// Null until token 1 is there.
    [[nodiscard]] speculate::Speculation* speculation() noexcept { return speculation_ ? &*speculation_ : nullptr; }
    [[nodiscard]] bool layer_staged(std::uint32_t layer) const noexcept { return assembly_->layer_staged(layer); }

    /// Log probabilities are wanted and token 1's is not there: its logits never left the prefill node, so the prompt's last token runs once more on
    /// the full KV. Nothing else runs before, drafts neither, and nothing is shown.
    [[nodiscard]] bool score_pending() const noexcept { return setup_.speculation.top_logprobs && !scored_; }

    /// LayerGate: waits for the layer's last tier and applies it.
    [[nodiscard]] Status wait(std::uint32_t layer) override;

private:
    explicit DecodeRequest(Setup setup);
    [[nodiscard]] speculate::Action score_action() const;
    void on_progress(const wire::Progress& progress);
    void on_first_token(engine::Token token);
    void on_page(wire::PageReceived page);
    [[nodiscard]] base::Nanos now() const { return setup_.clock.now(); }
    /// Stall check under the lock.
    [[nodiscard]] Status check_alive(base::Nanos now) const;
    void arrived(base::Nanos now);    // under the lock
    void fail_locked(Status status);  // under the lock
    [[nodiscard]] std::uint32_t layers() const noexcept;
    void apply_staged_layers();

    Setup setup_;
    std::unique_ptr<KvAssembly> assembly_;

    mutable std::mutex mutex_;  // guards what follows up to the blank line
    std::condition_variable changed_;
    Status status_;
    RequestTimes times_;
    std::optional<ArrivalEstimator> estimate_;
    std::optional<engine::Token> token1_;
    bool anchor_complete_ = false;
    bool full_complete_ = false;
    base::Nanos last_arrival_{0};

    // Inference thread only.
    std::optional<speculate::Speculation> speculation_;
    std::uint32_t layers_applied_ = 0;
    base::Nanos last_gate_{0};  ///< when the latest layer gate opened
    bool told_anchor_ = false;
    bool told_full_ = false;
    bool scored_ = false;
    std::optional<KvRow> last_prompt_row_;  ///< as it arrived, while the scoring step overwrites it
    base::Nanos waited_before_{0};          ///< at gates, before the step that runs
};

}  // namespace lynx::node
