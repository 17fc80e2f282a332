// What several measurements of one thing amount to.
#pragma once

#include <vector>

#include "lynx/bench.h"

namespace lynx::bench {

/// 0 for none.
[[nodiscard]] double median(std::vector<double> values);

/// Mean and its standard error, s / sqrt(n). Precondition: not empty.
[[nodiscard]] PlaceMean mean_of(const std::vector<double>& values);

}  // namespace lynx::bench
