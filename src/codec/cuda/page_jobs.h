// What kernels are told about each page, and the shapes of their blocks.
#pragma once

#include "codec/cuda/symbol_io.h"
#include "codec/cuda/tile_io.h"

namespace lynx::codec::cuda {

/// One page of a launch. The bodies are the core's; `exact` is where tier 0 keeps the exact rows.
struct PageJob {
    DeviceView page;
    RowSplit rows;
    std::byte* exact = nullptr;
    std::byte* anchor = nullptr;
    std::byte* residual = nullptr;
};

/// What all pages of a launch share.
struct Batch {
    const PageJob* jobs = nullptr;  ///< [pages]
    std::uint32_t* flags =
        nullptr;  ///< [pages]: encode: first bad element, from kAllFinite; decode: nonzero when corrupt
    std::uint32_t channels = 0;
    std::uint32_t chunk_tokens = 0;
    std::uint32_t width_log2 = 0;  ///< of a block's tile, in channels
    std::uint32_t tiles = 0;       ///< per page

    [[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t chunks(const PageJob& job) const noexcept {
        return (job.rows.core() + chunk_tokens - 1) / chunk_tokens;
    }
};

/// Encoders give a chunk to width / 2 threads: two channels each for what goes down a column, and for rows eight channels
/// each, four rows at a time. A block works on kBlockThreads / (width / 2) chunks at once.
struct ChunkThread {
    LYNX_HOST_DEVICE ChunkThread(std::uint32_t thread, std::uint32_t width_log2) noexcept
        : chunk(thread >> (width_log2 - 1)),
          pair(thread & ((1U << (width_log2 - 1)) - 1)),
          vector(pair & ((1U << (width_log2 - 3)) - 1)),
          row(pair >> (width_log2 - 3)) {}
    std::uint32_t chunk;   ///< among those worked on at once
    std::uint32_t pair;    ///< channels 2 * pair and 2 * pair + 1
    std::uint32_t vector;  ///< channels 8 * vector ..
    std::uint32_t row;     ///< of kChunkRowStep
};
inline constexpr std::uint32_t kChunkRowStep = 4;

[[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t chunks_at_once(std::uint32_t width_log2) noexcept {
    return kBlockThreads >> (width_log2 - 1);
}

/// Decoders give a chunk to a warp: 8 channels a thread, as many rows at once as lanes remain.
struct WarpThread {
    LYNX_HOST_DEVICE WarpThread(std::uint32_t thread, std::uint32_t width_log2) noexcept
        : chunk(thread / 32),
          vector(thread & ((1U << (width_log2 - 3)) - 1)),
          row((thread % 32) >> (width_log2 - 3)),
          row_step(32U >> (width_log2 - 3)) {}
    std::uint32_t chunk;
    std::uint32_t vector;
    std::uint32_t row;
    std::uint32_t row_step;
};
inline constexpr std::uint32_t kWarps = kBlockThreads / 32;
inline constexpr std::uint32_t kDecodeWidthLog2Max = 8;  ///< 32 lanes of 8 channels

/// The core's first and last row of chunk `k`.
struct ChunkRows {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
};
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE ChunkRows chunk_rows(std::uint32_t k, std::uint32_t chunk_tokens,
                                                                       std::uint32_t core_tokens) noexcept {
    const std::uint32_t first = k * chunk_tokens;
    return {smaller(first, core_tokens), smaller(first + chunk_tokens, core_tokens)};
}

}  // namespace lynx::codec::cuda
