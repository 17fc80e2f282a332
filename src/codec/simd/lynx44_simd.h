// lynx44 on Highway's targets: the bytes of ref/alpha_coder.h, many lanes at a time.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec::simd {

/// `reference` is lynx44's, which the kernels lean on for what is not worth vectorising. Returned as it is when this build has
/// no kernels for the target.
[[nodiscard]] std::unique_ptr<PageCoder> lynx44_on_target(std::unique_ptr<PageCoder> reference,
                                                          const CodecParams& params, std::int64_t target);

}  // namespace lynx::codec::simd
