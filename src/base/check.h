// LYNX_CHECK: an invariant that must hold in every build; LYNX_DCHECK: the same inside kernels, debug builds only.
#pragma once

namespace lynx::base {
/// Prints file, line and the failed condition to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition) noexcept;
}  // namespace lynx::base

#define LYNX_CHECK(condition) \
    ((condition) ? static_cast<void>(0) : ::lynx::base::check_failed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define LYNX_DCHECK(condition) static_cast<void>(0)
#else
#define LYNX_DCHECK(condition) LYNX_CHECK(condition)
#endif
