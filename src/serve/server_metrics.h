// What the server counts: which metrics there are, and what an outcome does to them.
#pragma once

#include "lynx/node.h"
#include "serve/metrics.h"

namespace lynx::serve {

void declare_metrics(Metrics& metrics);
/// A request that was answered to its end.
void count_answer(Metrics& metrics, const GenerateReport& report);
/// One that was not.
void count_failure(Metrics& metrics, ErrorCode code);

}  // namespace lynx::serve
