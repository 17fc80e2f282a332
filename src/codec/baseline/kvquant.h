// KVQuant (Hooper et al., "KVQuant: Towards 10 Million Context Length LLM Inference with KV Cache Quantization",
// arXiv:2401.18079), nuq-1%: keys per channel before their rotation, values per token, non-uniform levels, one element in a
// hundred of every vector kept apart as an outlier, the first token exact (FORMAT, "KVQuant"). Lossy.
//
// What differs: the paper calibrates levels (weighted by sensitivity) and key thresholds offline per layer; here both come from
// the page itself, unweighted, and levels travel with it. Rotation is undone and redone by the codec with the context's parameters.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

/// Precondition: bits is 3 or 4.
[[nodiscard]] std::unique_ptr<PageCoder> make_kvquant(CodecId id, unsigned bits);

}  // namespace lynx::codec
