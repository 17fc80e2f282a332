// KIVI (Liu et al., "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache", arXiv:2402.02750): keys per channel in
// groups of 32 tokens, values per token in groups of 32 channels, asymmetric integers between a group's minimum and maximum,
// the newest tokens at full precision: of values 128, of keys those beyond the last multiple of 128 (FORMAT, "KIVI"). Lossy.
//
// What differs: a page's groups start with the page, so groups are the paper's when page_tokens is a multiple of 32; the minimum is rounded
// down and the step up to float16, so that no element falls outside.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

/// Precondition: bits is 2 or 4.
[[nodiscard]] std::unique_ptr<PageCoder> make_kivi(CodecId id, unsigned bits);

}  // namespace lynx::codec
