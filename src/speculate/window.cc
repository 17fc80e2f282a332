#include "speculate/window.h"

#include <algorithm>
#include <cmath>

namespace lynx::speculate {
namespace {

/// Steps that the sliding average of tpot remembers: long enough to smooth scheduling noise, short against a request.
constexpr double kTpotMemorySteps = 8;
/// Rows of a pass that weigh as much as all that was known before (prior included): a pass over two rows says little about v.
constexpr double kRowMemory = 16;
/// v / tpot before any pass was measured.
constexpr double kRowPrior = 0.5;
/// Weight of one more gated pass in the tail's share.
constexpr double kTailWeight = 0.25;

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

void CostModel::on_gated_tail(Nanos took, Nanos tail) noexcept {
    if (took > Nanos{0}) {
        const double share = std::clamp(base::to_seconds(tail) / base::to_seconds(took), 0.0, 1.0);
        tail_share_ += kTailWeight * (share - tail_share_);
    }
}

Nanos CostModel::tpot() const noexcept { return base::from_seconds(tpot_s_); }

Nanos CostModel::verify(std::uint32_t rows) const noexcept {
    return rows == 0 ? Nanos{0} : base::from_seconds(tpot_s_ + (static_cast<double>(rows) - 1) * row_s());
}

Nanos CostModel::verify_per_token() const noexcept { return base::from_seconds(row_s()); }

double CostModel::row_s() const noexcept { return row_s_.value_or(kRowPrior * tpot_s_); }

std::uint32_t worthwhile_drafts(double tpot_s, double exposed_row_s, double acceptance, std::uint32_t most) noexcept {
    if (tpot_s <= 0) {
        return most;  // nothing measured: the first draft measures
    }
    const double break_even = exposed_row_s / tpot_s;
    if (break_even <= 0 || acceptance >= 1) {
        return break_even < 1 ? most : 0;
    }
    if (acceptance <= break_even) {
        return 0;
    }
    // acceptance^k > break_even, strictly.
    const double k = std::ceil(std::log(break_even) / std::log(acceptance)) - 1;
    return k >= most ? most : static_cast<std::uint32_t>(std::max(0.0, k));
}

bool keep_drafting(const WindowOptions& options, const CostModel& cost, const WindowInputs& in, Nanos now) noexcept {
    if (options.fixed) {
        return in.drafted < *options.fixed;
    }
    const double exposed_row_s = (in.gated ? cost.tail_share() : 1.0) * base::to_seconds(cost.verify_per_token());
    if (in.drafted >=
        worthwhile_drafts(base::to_seconds(cost.tpot()), exposed_row_s, in.acceptance, options.drafts_max)) {
        return false;
    }
    return !in.eta || *in.eta - now > cost.verify(in.drafted + 1);
}

Nanos gated_start(const CostModel& cost, std::uint32_t rows, const TransferEstimate& estimate) noexcept {
    return std::max(estimate.first_layer, estimate.last_page - cost.verify(rows)) - cost.tpot();
}

}  // namespace lynx::speculate
