// What a benchmark ran on.
#pragma once

#include <string>

namespace lynx::bench {

/// CPU model and cores.
[[nodiscard]] std::string machine_name();

}  // namespace lynx::bench
