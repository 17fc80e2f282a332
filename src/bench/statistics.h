// What several measurements of one thing amount to.
#pragma once

#include <vector>

#include "lynx/bench.h"

namespace lynx::bench {

/// 0 for none.
[[nodiscard]] double median(std::vector<double> values);

/// The smallest value that is not below `share` of them, 0 < share <= 1; 0 for none.
[[nodiscard]] double percentile(std::vector<double> values, double share);

/// Mean and its standard error, s / sqrt(n). Precondition: not empty.
[[nodiscard]] PlaceMean mean_of(const std::vector<double>& values);

}  // namespace lynx::bench
