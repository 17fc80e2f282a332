// Where Highway is not at hand (LYNX_ONLY_CODEC): the scalar code alone.
#include "codec/simd/backend.h"

namespace lynx::codec::simd {

std::vector<SimdTarget> list_targets() { return {}; }

std::unique_ptr<PageCoder> on_target(std::unique_ptr<PageCoder> reference, const CodecParams& /*params*/,
                                     std::int64_t /*target*/) {
    return reference;
}

}  // namespace lynx::codec::simd
