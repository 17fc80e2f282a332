// From statistics to the integers of a profile: eigenvectors block by block, in a metric that says which errors matter, rounded.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/kv_statistics.h"
#include "codec/profile.h"

namespace lynx::calibrate {

struct FitOptions {
    std::uint32_t block = 0;       ///< channels that one transform mixes; divides the statistics' channels
    std::uint32_t basis_bits = 6;  ///< of an entry, sign included; 3..8
    std::uint32_t head = 0;        ///< channels per head; divides the block when there is a metric
    /// What an error e of a head costs, e^T M e: [heads, head, head], symmetric. Empty: the squared error itself.
    std::vector<double> metric{};
};

/// Precondition: at least two tokens.
[[nodiscard]] codec::ProfileMatrix fit_matrix(const Statistics& statistics, const FitOptions& options);

}  // namespace lynx::calibrate
