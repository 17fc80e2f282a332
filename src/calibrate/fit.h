// From statistics to the integers of a profile: eigenvectors block by block, rounded.
#pragma once

#include <cstdint>

#include "calibrate/statistics.h"
#include "codec/profile.h"

namespace lynx::calibrate {

struct FitOptions {
    std::uint32_t block = 0;       ///< channels that one transform mixes; divides the statistics' channels
    std::uint32_t basis_bits = 6;  ///< of an entry, sign included; 3..8
};

/// Precondition: at least two tokens.
[[nodiscard]] codec::ProfileMatrix fit_matrix(const Statistics& statistics, FitOptions options);

}  // namespace lynx::calibrate
