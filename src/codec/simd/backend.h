// Highway's targets by name, and the coders that run on them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codec/coder.h"

namespace lynx::codec::simd {

struct SimdTarget {
    std::int64_t bit = 0;   ///< Highway's (hwy/detect_targets.h)
    std::string name;       ///< "avx2"
    bool runnable = false;  ///< on this CPU and operating system
};

/// The targets this build has kernels for, best first.
[[nodiscard]] std::vector<SimdTarget> list_targets();

/// The reference coder on a runnable target, or as it is: for target 0, and for a codec that has no kernels.
[[nodiscard]] std::unique_ptr<PageCoder> on_target(std::unique_ptr<PageCoder> reference, const CodecParams& params,
                                                   std::int64_t target);

}  // namespace lynx::codec::simd
