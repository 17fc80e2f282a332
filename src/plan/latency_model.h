// Closed-form timeline of one request: when the anchor is there, how many tokens are drafted, when they and the following tokens are
// committed. After arXiv:2607.01831 Eq. 16-20, extended by what one engine pays for verification and by hidden verification.
//
// Time 0: the KV is ready on the prefill node and token 1 is known. With B0 anchor and B1 remaining bytes, link rate r, one-way delay d,
// TPOT p, a pass over n rows V(n) = b + (n - 1) v, acceptance a of a draft whose predecessors were accepted:
//   (1) t_anchor = d + B0 / r,   t_full = d + (B0 + B1) / r
//   (2) adaptive window: the smallest k >= 0 with t_full - t_anchor - k p <= V(k + 1), so k = ceil((t_full - t_anchor - b) / (p + v)), at
//       most drafts_max and what is worthwhile (speculate/window.h); fixed window: k = N; either at most tokens_max - 1
//   (3) t_drafted = t_anchor + k p
//   (4) not gated: t_start = max(t_drafted, t_full), t_verified = t_start + V(k + 1)
//       gated, with the first layer at t_first = t_anchor + B1 / (r L) and a part e of the pass after the last layer's KV is needed:
//       t_start = max(t_drafted, max(t_first, t_full - V(k + 1)) - p), not waiting when t_drafted >= t_full;
//       t_verified = max(t_start + V, t_first + V, t_full + e V): layers arrive and are computed evenly, so an end decides
//   (5) A accepted drafts: P(A >= i) = a^i for i <= k, E[A] = sum of a^i. A + 2 tokens are committed at t_verified, then one each p:
//       E[t(n)] = t_verified + p (m - sum_{i=1}^{min(m, k)} a^i), m = n - 2, for n >= 2; t(1) = d
//   (6) monolithic codec (draft = false, all bytes in one tier or several): t(n) = t_full + (n - 1) p
//
// Non-goals: other requests on the engine or the link, codec time (it overlaps the transfer), losses, and slow start.
#pragma once

#include <cstdint>

#include "speculate/window.h"

namespace lynx::plan {

struct LatencyInputs {
    double anchor_bytes = 0;
    double residual_bytes = 0;    ///< tiers after the anchor, through the one that is verified against
    double link_bytes_per_s = 0;  ///< > 0
    double delay_s = 0;           ///< one way
    double tpot_s = 0;            ///< > 0; one decode or draft step
    double verify_base_s = 0;     ///< V(1)
    double verify_row_s = 0;      ///< V(n + 1) - V(n)
    double acceptance = 1;        ///< [0, 1]
    speculate::WindowOptions window{};
    std::uint32_t tokens_max = 64;  ///< output tokens wanted, token 1 included; >= 1
    bool draft = true;              ///< false: wait for all bytes, then decode
    bool gated = true;              ///< the pass hides behind the transfer, layer by layer
    std::uint32_t layers = 30;      ///< L, >= 1
    /// e: share of a pass that follows the last layer's gate; 41 of 260 ms measured (DESIGN section 7, 30 layers, output matrix included).
    double exposed_fraction = speculate::kTailSharePrior;
};

/// Seconds from time 0. Expected values where acceptance is involved.
struct Timeline {
    double anchor_s = 0;
    double full_s = 0;
    std::uint32_t window = 0;        ///< drafts in the pass
    double accepted = 0;             ///< E[A]
    double first_provisional_s = 0;  ///< the first draft exists; infinite with no drafts
    double verify_start_s = 0;       ///< of the pass, or of the first decode step when nothing is drafted and not gated
    double verify_end_s = 0;         ///< token 2 and the accepted drafts are committed
    double token1_s = 0;             ///< from the prefill node: it needs no KV
    double tpot_s = 0;
    double acceptance = 0;

    /// E[t(n)], n >= 1: when the n-th output token is committed. Meaningful up to tokens_max.
    [[nodiscard]] double committed_s(std::uint32_t n) const;
    /// The bench's columns count the tokens that the decode node makes itself (docs/adr/0005): its first is output token 2.
    [[nodiscard]] double ttft_committed_s() const { return committed_s(2); }
    [[nodiscard]] double tt32t_s() const { return committed_s(33); }
    [[nodiscard]] double tt64t_s() const { return committed_s(65); }
};

/// The maximum-likelihood `acceptance` of some passes: accepted / (accepted + passes that rejected a draft). Drafts after the first
/// rejected one are never judged, so accepted / drafted is not it: that falls with the window. 1 when there was nothing to judge.
[[nodiscard]] double acceptance_of(std::uint64_t accepted, std::uint64_t passes_with_rejection) noexcept;

/// Precondition: the ranges above.
[[nodiscard]] Timeline predict(const LatencyInputs& in);

}  // namespace lynx::plan
