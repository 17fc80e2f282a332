// When will the rest of a transfer be here? A sliding estimate from arrivals so far. No I/O, not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "speculate/window.h"

namespace lynx::node {

class ArrivalEstimator {
public:
    /// `pages_per_tier`: pages (K and V, all layers) that each tier has. `pages_per_layer`: of those, in one layer.
    ArrivalEstimator(std::uint8_t tiers, std::uint32_t pages_per_tier, std::uint32_t pages_per_layer);

    /// A page of `tier` with `bytes` on the wire arrived.
    void on_page(std::uint8_t tier, std::size_t bytes, base::Nanos now);

    /// Absent until two arrivals tell a rate. Assumes later tiers are as large per page as what is known of them, or as tier 0 before any
    /// of them arrived.
    [[nodiscard]] std::optional<speculate::TransferEstimate> eta() const;

private:
    struct Arrival {
        base::Nanos at;
        std::uint64_t bytes_before;  // cumulative, this page excluded
    };
    struct Tier {
        std::uint32_t pages = 0;
        std::uint64_t bytes = 0;
    };

    std::vector<Tier> tiers_;
    std::uint32_t pages_per_tier_;
    std::uint32_t pages_per_layer_;
    std::uint64_t bytes_total_ = 0;
    base::Nanos last_at_{0};
    std::deque<Arrival> recent_;  // bounded by kWindow
};

}  // namespace lynx::node
