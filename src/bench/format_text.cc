#include "bench/format_text.h"

#include <cstdarg>
#include <cstdio>

namespace lynx::bench {

std::string format(const char* pattern, ...) {
    va_list args;
    va_start(args, pattern);
    char line[512];
    std::vsnprintf(line, sizeof line, pattern, args);
    va_end(args);
    return line;
}

}  // namespace lynx::bench
