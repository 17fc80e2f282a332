// printf into a string, for tables.
#pragma once

#include <string>

namespace lynx::bench {

/// At most 511 characters.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

}  // namespace lynx::bench
