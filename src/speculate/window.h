// How many tokens to draft before verification must start, and when a gated pass may start: drafting and verifying share one engine.
//
// Two limits, of time and of worth.
// Time.
// With tpot the measured time of one draft step and V(n) that of a pass over n rows, V(n) = tpot + (n - 1) v: k drafts take k tpot, the pass
// over token 1 and them V(k + 1). Both fit before the last tier lands at t_remaining when k tpot + tpot + k v <= t_remaining, so
// k ~ t_remaining / (tpot + v), the paper's t_res / TPOT as v -> 0. Asked again before each draft, with what is left: draft while
// t_remaining > V(drafts made + 1). A draft beyond that would cost tpot + v after the last byte and save at most tpot.
// Worth. With acceptance a the k-th draft saves a tpot with probability a^k, and its row lengthens what the pass still has to do after the last
// byte by e v: e is the share of a pass behind its last gate (the last layer and the output matrix), 1 for a pass that is not gated. So
// draft while a^k tpot > e v. On an engine whose rows are cheap this hardly binds; with low acceptance it ends drafting altogether.
//
// Why V(1) = tpot: a pass over one row is a decode step. It leaves one unknown, which a single pass measures.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace lynx::speculate {

using base::Nanos;

struct WindowOptions {
    std::optional<std::uint32_t> fixed{};  ///< --window N: exactly N drafts, whatever the estimates say
    std::uint32_t drafts_max = 64;         ///< of the adaptive window
};

/// e before a gated pass was measured.
inline constexpr double kTailSharePrior = 41.0 / 260.0;

/// When the better KV is predicted to be there, on the clock of the `now` arguments.
struct TransferEstimate {
    Nanos last_page{0};    ///< all of it
    Nanos first_layer{0};  ///< its first layer; later ones follow evenly until last_page
};

/// Live estimates, sliding averages over steps. Zero until the first step was measured. Not thread-safe.
class CostModel {
public:
    /// A draft or decode step, which ran one row of this sequence.
    void on_draft_step(Nanos took) noexcept;
    /// A verification pass of `rows` rows that computed for `took` (waiting at gates excluded).
    void on_verify_pass(std::uint32_t rows, Nanos took) noexcept;
    /// Of a gated pass that computed for `took`, `tail` came after its last gate.
    void on_gated_tail(Nanos took, Nanos tail) noexcept;
    [[nodiscard]] Nanos tpot() const noexcept;
    /// Predicted compute time of a pass over `rows` rows.
    [[nodiscard]] Nanos verify(std::uint32_t rows) const noexcept;
    /// Cost of one more row; until a pass was measured the prior tpot / 2 (DESIGN section 6: 20 rows took 8.8 to 11.4 tpot).
    [[nodiscard]] Nanos verify_per_token() const noexcept;
    /// e, in [0, 1]; until a gated pass was measured 41/260 (DESIGN section 7).
    [[nodiscard]] double tail_share() const noexcept { return tail_share_; }

private:
    [[nodiscard]] double row_s() const noexcept;

    double tpot_s_ = 0;
    std::optional<double> row_s_;
    double tail_share_ = kTailSharePrior;
    std::uint32_t steps_ = 0;
};

/// Drafts that are worth their rows in the pass: the largest k with acceptance^k tpot > e v, at most `most`. `acceptance` in [0, 1].
[[nodiscard]] std::uint32_t worthwhile_drafts(double tpot_s, double exposed_row_s, double acceptance,
                                              std::uint32_t most) noexcept;

/// What the adaptive window looks at besides the clock.
struct WindowInputs {
    std::uint32_t drafted = 0;   ///< so far
    double acceptance = 1;       ///< of a draft whose predecessors hold
    bool gated = true;           ///< the pass can hide behind the transfer
    std::optional<Nanos> eta{};  ///< predicted arrival of the last tier; absent: unknown yet
};

/// True when one more draft is worth making now. Without an eta: up to the worth limit; with a past one: no. Depends on nothing but its
/// arguments, so drafting resumes when eta moves later.
[[nodiscard]] bool keep_drafting(const WindowOptions& options, const CostModel& cost, const WindowInputs& in,
                                 Nanos now) noexcept;

/// The first moment at which a gated pass over `rows` rows is predicted to wait inside at most one tpot. Layers arrive and are
/// computed evenly, so the longest wait is at one of the ends: for the first layer, or for the last page after V(rows) of computing.
[[nodiscard]] Nanos gated_start(const CostModel& cost, std::uint32_t rows, const TransferEstimate& estimate) noexcept;

}  // namespace lynx::speculate
