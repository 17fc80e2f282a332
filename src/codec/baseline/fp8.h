// fp8 with the range of E4M3 (FORMAT, "fp8"). Lossy. `fp8-page` has one float32 scale per page, as serving engines keep one per
// tensor (vLLM's `kv_cache_dtype="fp8_e4m3"` with k_scale and v_scale; theirs is calibrated, ours is the page's largest
// magnitude / 448); `fp8-token` one per token, as their dynamic per-token quantisation does.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

[[nodiscard]] std::unique_ptr<PageCoder> make_fp8(CodecId id, bool scale_per_token);

}  // namespace lynx::codec
