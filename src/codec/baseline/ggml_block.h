// llama.cpp's cache types q8_0 and q4_0: blocks of 32 channels, bit for bit as ggml's reference quantiser (quantize_row_q8_0_ref,
// quantize_row_q4_0_ref) writes them (FORMAT, "ggml blocks"). Lossy. Two things differ where ggml has no answer: a last block
// of fewer than 32 channels is filled with zeros, and a scale beyond float16 saturates instead of becoming infinite.
#pragma once

#include <memory>

#include "codec/coder.h"

namespace lynx::codec {

inline constexpr std::uint32_t kBlockChannels = 32;

[[nodiscard]] std::unique_ptr<PageCoder> make_q8_0();
[[nodiscard]] std::unique_ptr<PageCoder> make_q4_0();

}  // namespace lynx::codec
