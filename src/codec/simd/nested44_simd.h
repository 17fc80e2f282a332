// nested44 on Highway's targets: the bytes of ref/nested44.h, many lanes at a time.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec::simd {

/// Null when this build has no kernels for `target` (one of Highway's bits). Whether the CPU runs it is the caller's to check.
[[nodiscard]] std::unique_ptr<PageCoder> make_nested44(const CodecParams& params, std::int64_t target);

}  // namespace lynx::codec::simd
