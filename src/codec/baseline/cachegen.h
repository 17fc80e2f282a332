// CacheGen (Liu et al., "CacheGen: KV Cache Compression and Streaming for Fast Large Language Model Serving", SIGCOMM 2024,
// arXiv:2310.07240): tokens in groups of ten, the first at 8 bits, the others as differences to it, vector-wise scales per
// token, coarser bins in later layers, arithmetic coding (FORMAT, "CacheGen"). Lossy, through its quantiser.
//
// What differs: probabilities adapt while coding, where the paper profiles them offline per model, layer and channel; the first
// third of the layers has 32 bins and the rest 16, for K and V alike, as in the authors' released defaults; differences are
// taken to the decoded first token, so that errors do not add up.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

[[nodiscard]] std::unique_ptr<PageCoder> make_cachegen();

}  // namespace lynx::codec
