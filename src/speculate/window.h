// How many tokens to draft before verification must start: drafting and verifying share one engine.
//
// With tpot the measured time of one draft step and v the measured time of verifying one more token, draft while the time left until the
// last tier exceeds the verification of what has been drafted: k ~ t_remaining / (tpot + v), the paper's t_res / TPOT as v -> 0.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace lynx::speculate {

using base::Nanos;

struct WindowOptions {
    std::optional<std::uint32_t> fixed;   ///< --window N: exactly N drafts, whatever the estimates say
    std::uint32_t drafts_max = 64;
};

/// Live estimates, sliding averages over steps. Not thread-safe.
class CostModel {
public:
    void on_draft_step(Nanos took) noexcept;
    /// A verification pass of `rows` rows that computed for `took` (waiting at gates excluded).
    void on_verify_pass(std::uint32_t rows, Nanos took) noexcept;
    [[nodiscard]] Nanos tpot() const noexcept;
    /// Predicted compute time of a pass over `rows` rows.
    [[nodiscard]] Nanos verify(std::uint32_t rows) const noexcept;
    /// Cost of one more row.
    [[nodiscard]] Nanos verify_per_token() const noexcept;

private:
    double tpot_s_ = 0;
    double verify_base_s_ = 0;
    double verify_row_s_ = 0;
    std::uint32_t drafts_ = 0;
    std::uint32_t passes_ = 0;
};

/// True when one more draft is worth making now. `eta` is the predicted arrival of the last tier (absent: unknown yet, keep
/// drafting up to drafts_max).
[[nodiscard]] bool keep_drafting(const WindowOptions& options, const CostModel& cost, std::uint32_t drafted, Nanos now,
                                 std::optional<Nanos> eta) noexcept;

}  // namespace lynx::speculate
