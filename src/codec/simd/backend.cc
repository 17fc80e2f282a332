#include "codec/simd/backend.h"

#include <hwy/targets.h>

#include "codec/simd/lynx44_simd.h"
#include "codec/simd/nested44_simd.h"

namespace lynx::codec::simd {

std::vector<SimdTarget> list_targets() {
    constexpr std::int64_t kPortable = HWY_EMU128 | HWY_SCALAR;  // emulated lanes; the scalar backend is faster
    const std::int64_t runnable = hwy::SupportedTargets();
    std::vector<SimdTarget> all;
    // A better target has a lower bit.
    for (std::int64_t rest = HWY_TARGETS & ~kPortable; rest != 0; rest &= rest - 1) {
        const std::int64_t bit = rest & -rest;
        SimdTarget target{.bit = bit, .name = {}, .runnable = (runnable & bit) != 0};
        for (const char* c = hwy::TargetName(bit); *c != '\0'; ++c) {
            target.name.push_back(*c >= 'A' && *c <= 'Z' ? static_cast<char>(*c - 'A' + 'a') : *c);
        }
        all.push_back(std::move(target));
    }
    return all;
}

std::unique_ptr<PageCoder> on_target(std::unique_ptr<PageCoder> reference, const CodecParams& params,
                                     std::int64_t target) {
    if (target == 0) {
        return reference;
    }
    switch (reference->id()) {
        case CodecId::nested44: return nested44_on_target(std::move(reference), params, target);
        case CodecId::lynx44: return lynx44_on_target(std::move(reference), params, target);
        default: return reference;
    }
}

}  // namespace lynx::codec::simd
