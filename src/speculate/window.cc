#include "speculate/window.h"

#include <algorithm>

namespace lynx::speculate {
namespace {

/// Steps that the sliding average of tpot remembers: long enough to smooth scheduling noise, short against a request.
constexpr double kTpotMemorySteps = 8;
/// Rows of a pass that weigh as much as all that was known before (prior included): a pass over two rows says little about v.
constexpr double kRowMemory = 16;
/// v / tpot before any pass was measured.
constexpr double kRowPrior = 0.5;

}  // namespace

void CostModel::on_draft_step(Nanos took) noexcept {
    ++steps_;
    const double weight = std::max(1.0 / static_cast<double>(steps_), 1.0 / kTpotMemorySteps);
    tpot_s_ += weight * (std::max(0.0, base::to_seconds(took)) - tpot_s_);
    steps_ = std::min(steps_, 1U << 30);
}

void CostModel::on_verify_pass(std::uint32_t rows, Nanos took) noexcept {
    if (rows <= 1) {
        on_draft_step(took);
        return;
    }
    const double more_rows = static_cast<double>(rows) - 1;
    const double sample = std::max(0.0, (base::to_seconds(took) - tpot_s_) / more_rows);
    const double weight = more_rows / (more_rows + kRowMemory);
    row_s_ = row_s() + weight * (sample - row_s());
}

Nanos CostModel::tpot() const noexcept { return base::from_seconds(tpot_s_); }

Nanos CostModel::verify(std::uint32_t rows) const noexcept {
    return rows == 0 ? Nanos{0} : base::from_seconds(tpot_s_ + (static_cast<double>(rows) - 1) * row_s());
}

Nanos CostModel::verify_per_token() const noexcept { return base::from_seconds(row_s()); }

double CostModel::row_s() const noexcept { return row_s_.value_or(kRowPrior * tpot_s_); }

bool keep_drafting(const WindowOptions& options, const CostModel& cost, std::uint32_t drafted, Nanos now,
                   std::optional<Nanos> eta) noexcept {
    if (options.fixed) {
        return drafted < *options.fixed;
    }
    if (drafted >= options.drafts_max) {
        return false;
    }
    return !eta || *eta - now > cost.verify(drafted + 1);
}

Nanos gated_start(const CostModel& cost, std::uint32_t rows, const TransferEstimate& estimate) noexcept {
    return std::max(estimate.first_layer, estimate.last_page - cost.verify(rows)) - cost.tpot();
}

}  // namespace lynx::speculate
