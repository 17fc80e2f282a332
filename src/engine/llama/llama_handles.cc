#include "engine/llama/llama_handles.h"

#include <cstdlib>
#include <mutex>
#include <utility>

namespace lynx::engine {
namespace {

constexpr std::size_t kErrorBytesMax = 400;

thread_local std::string errors;

void keep_error(ggml_log_level level, const char* text, void* /*user*/) {
    if (level != GGML_LOG_LEVEL_ERROR) {
        return;
    }
    for (const char* c = text; *c != '\0' && errors.size() < kErrorBytesMax; ++c) {
        errors.push_back(*c == '\n' ? ' ' : *c);
    }
}

}  // namespace

void prepare_llama() {
    static std::once_flag once;
    std::call_once(once, [] {
        setenv("GGML_CPU_TILED_MM", "0", 1);
        llama_log_set(keep_error, nullptr);
        llama_backend_init();
    });
}

std::string take_llama_error() {
    while (!errors.empty() && errors.back() == ' ') {
        errors.pop_back();
    }
    return std::exchange(errors, {});
}

}  // namespace lynx::engine
