#include "plan/latency_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace lynx::plan {
namespace {

/// sum of a^i for i in 1..n: the expected number accepted of the first n drafts.
double accepted_of(double a, std::uint32_t n) { return a == 1 ? n : a * (1 - std::pow(a, n)) / (1 - a); }

double verify_s(const LatencyInputs& in, std::uint32_t rows) { return in.verify_base_s + (rows - 1) * in.verify_row_s; }

/// Equation (2).
std::uint32_t window_of(const LatencyInputs& in, double remaining_s) {
    const std::uint32_t most = in.tokens_max - 1;
    if (!in.draft) {
        return 0;
    }
    if (in.window.fixed) {
        return std::min(*in.window.fixed, most);
    }
    const double k = std::ceil((remaining_s - in.verify_base_s) / (in.tpot_s + in.verify_row_s));
    const double exposed_row_s = (in.gated ? in.exposed_fraction : 1.0) * in.verify_row_s;
    const std::uint32_t limit =
        speculate::worthwhile_drafts(in.tpot_s, exposed_row_s, in.acceptance, std::min(in.window.drafts_max, most));
    return k >= limit ? limit : static_cast<std::uint32_t>(std::max(0.0, k));
}

}  // namespace

double Timeline::committed_s(std::uint32_t n) const {
    if (n <= 1) {
        return token1_s;
    }
    const std::uint32_t m = n - 2;
    return verify_end_s + tpot_s * (m - accepted_of(acceptance, std::min(m, window)));
}

double acceptance_of(std::uint64_t accepted, std::uint64_t passes_with_rejection) noexcept {
    const std::uint64_t judged = accepted + passes_with_rejection;
    return judged == 0 ? 1 : static_cast<double>(accepted) / static_cast<double>(judged);
}

Timeline predict(const LatencyInputs& in) {
    LYNX_CHECK(in.link_bytes_per_s > 0 && in.tpot_s > 0 && in.tokens_max >= 1 && in.layers >= 1);
    LYNX_CHECK(in.acceptance >= 0 && in.acceptance <= 1);
    Timeline t;
    t.tpot_s = in.tpot_s;
    t.acceptance = in.acceptance;
    t.token1_s = in.delay_s;
    t.anchor_s = in.delay_s + in.anchor_bytes / in.link_bytes_per_s;
    const double transfer_s = in.residual_bytes / in.link_bytes_per_s;
    t.full_s = t.anchor_s + transfer_s;
    t.window = window_of(in, transfer_s);
    t.accepted = accepted_of(in.acceptance, t.window);
    t.first_provisional_s = t.window > 0 ? t.anchor_s + in.tpot_s : std::numeric_limits<double>::infinity();

    const double drafted_s = t.anchor_s + t.window * in.tpot_s;
    const double pass_s = verify_s(in, t.window + 1);
    if (!in.draft || !in.gated || drafted_s >= t.full_s) {
        t.verify_start_s = std::max(drafted_s, t.full_s);
        t.verify_end_s = t.verify_start_s + (t.window == 0 ? in.tpot_s : pass_s);
        return t;
    }
    const double first_layer_s = t.anchor_s + transfer_s / in.layers;
    t.verify_start_s = std::max(drafted_s, std::max(first_layer_s, t.full_s - pass_s) - in.tpot_s);
    t.verify_end_s =
        std::max({t.verify_start_s + pass_s, first_layer_s + pass_s, t.full_s + in.exposed_fraction * pass_s});
    return t;
}

}  // namespace lynx::plan
