// The exact tier: any lossy coder with one more tier behind its own, after which every element has its original bits, NaN payloads, signed
// zeros and denormals among them (FORMAT, "Exact tier"). It corrects the float32 that the lossy tiers yield before the final rounding, which
// is the same on every backend. Non-goals: kernels; all backends run this code for the tier and their own for those before it.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

/// `lossy` with an exact tier as codec `id`.
[[nodiscard]] std::unique_ptr<PageCoder> make_exact(CodecId id, std::unique_ptr<PageCoder> lossy);

}  // namespace lynx::codec
