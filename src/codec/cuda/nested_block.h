// nested44 in thread blocks: a block encodes or decodes one tile of one page.
//
// Encoding. The tile (64 channels of 256 float16 tokens: 32 KiB) is read from global memory once, 16 bytes a thread and whole
// 128-byte lines a warp, into shared memory, where column extremes, chunk extremes and quantisation each pass over it; a
// thread quantises 8 channels of a token and stores 4 bytes per tier. 37 KiB of shared memory and at most 64 registers a thread
// let 4 blocks (1024 threads, 128 KiB of tiles) share a multiprocessor: while one waits for memory, the others compute, and the
// 26 KB that must be under way to keep 4 TB/s busy at 0.8 us are one block's loads. About 20 instructions an element stay below
// the 39 that 1.5 TB/s of float16 leave 132 multiprocessors at 1.75 GHz.
//
// Decoding needs no shared memory unless it must transpose: a warp takes a chunk of up to 256 channels, each thread holds the
// chunk's constants of 8 channels in registers and turns 4 + 4 bytes into 16 at a time. 3.1 bytes are moved an element, so
// 4.3 TB/s of memory bound it at 2.8 TB/s of float16; at about 12 instructions an element arithmetic is not the limit.
#pragma once

#include "codec/cuda/page_jobs.h"
#include "codec/math/nested_math.h"

namespace lynx::codec::cuda {

/// Parts of an anchor's core body (FORMAT, "nested44").
struct NestedLayout {
    LYNX_HOST_DEVICE NestedLayout(std::uint32_t channels, std::uint32_t chunks) noexcept
        : lo(std::size_t{channels} * 4),
          hi(lo + std::size_t{chunks} * channels),
          symbols(hi + std::size_t{chunks} * channels) {}
    std::size_t lo;
    std::size_t hi;
    std::size_t symbols;
};

template <class E>
struct EncodeNested {
    static constexpr unsigned kBlocksAtOnce = 4;
    Batch batch;

    /// Of a block, for cores of at most `tokens`.
    [[nodiscard]] static std::size_t shared_bytes(std::uint32_t tokens, std::uint32_t width_log2) noexcept {
        return scratch_bytes() + (std::size_t{tokens} << width_log2) * sizeof(typename E::Raw);
    }

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        const std::uint32_t page = index / batch.tiles;
        const PageJob job = batch.jobs[page];
        std::uint32_t* first_bad = batch.flags + page;
        const TileSpan span = tile_of(batch.channels, batch.width_log2, index % batch.tiles);
        exact_rows_phase<E, true>(block, job.page, job.rows, span, batch.channels, job.exact, first_bad);
        const std::uint32_t tokens = job.rows.core();
        if (tokens == 0) {
            return;
        }
        // A page's partial extremes and later a chunk's quantisers: two floats a channel and chunk, two channels a thread.
        auto* const first_of = reinterpret_cast<float*>(block.shared());
        float* const second_of = first_of + 2 * kBlockThreads;
        float* const inverse_unit = second_of + 2 * kBlockThreads;
        auto* const channel_of = reinterpret_cast<NestedChannel*>(inverse_unit + kWidthMax);
        std::byte* const tile = block.shared() + scratch_bytes();
        const std::uint32_t width = span.width();
        const std::uint32_t groups = chunks_at_once(span.width_log2);
        const std::uint32_t chunks = batch.chunks(job);
        const NestedLayout layout(batch.channels, chunks);
        const SymbolRows anchor_rows = nibble_rows(job.anchor + layout.symbols, batch.channels);
        const SymbolRows residual_rows = nibble_rows(job.residual, batch.channels);

        load_tile_phase<E>(block, job.page, job.rows.head, tokens, span, batch.channels, tile, first_bad);

        block.threads([&](std::uint32_t thread) {
            const ChunkThread who(thread, span.width_log2);
            const ChunkRows rows = chunk_rows(who.chunk, (tokens + groups - 1) / groups, tokens);
            float min[2];
            float max[2];
            column_extremes(tile, rows, who.pair, width, min, max);
            for (std::uint32_t i = 0; i < 2; ++i) {
                first_of[who.chunk * width + 2 * who.pair + i] = min[i];
                second_of[who.chunk * width + 2 * who.pair + i] = max[i];
            }
        });
        block.threads([&](std::uint32_t thread) {
            if (thread >= width) {
                return;
            }
            float min = first_of[thread];
            float max = second_of[thread];
            for (std::uint32_t g = 1; g < groups; ++g) {
                min = smaller(min, first_of[g * width + thread]);
                max = larger(max, second_of[g * width + thread]);
            }
            const NestedChannel c = nested_channel(min, max);
            channel_of[thread] = c;
            inverse_unit[thread] = power_of_two(-c.exponent);
            if (thread < span.count) {
                put_bytes(job.anchor + std::size_t{span.first + thread} * 4, pack_nested_channel(c));
            }
        });

        for (std::uint32_t k0 = 0; k0 < chunks; k0 += groups) {
            block.threads([&](std::uint32_t thread) {
                const ChunkThread who(thread, span.width_log2);
                const std::uint32_t k = k0 + who.chunk;
                if (k >= chunks) {
                    return;
                }
                float min[2];
                float max[2];
                column_extremes(tile, chunk_rows(k, batch.chunk_tokens, tokens), who.pair, width, min, max);
                for (std::uint32_t i = 0; i < 2; ++i) {
                    const std::uint32_t channel = 2 * who.pair + i;
                    const NestedChannel c = channel_of[channel];
                    const float inverse = inverse_unit[channel];
                    const NestedCells cells = nested_cells(c, min[i] * inverse, max[i] * inverse);
                    const NestedQuantiser q = nested_quantiser(c, cells);
                    first_of[who.chunk * width + channel] = q.low;
                    second_of[who.chunk * width + channel] = q.scale;
                    if (channel < span.count) {
                        const std::size_t at = std::size_t{k} * batch.channels + span.first + channel;
                        job.anchor[layout.lo + at] = static_cast<std::byte>(cells.lo);
                        job.anchor[layout.hi + at] = static_cast<std::byte>(cells.hi);
                    }
                }
            });
            block.threads([&](std::uint32_t thread) {
                const ChunkThread who(thread, span.width_log2);
                const std::uint32_t k = k0 + who.chunk;
                const std::uint32_t channel = who.vector * kVectorElements;
                if (k >= chunks || channel >= span.count) {
                    return;
                }
                float inverse[kVectorElements];
                float low[kVectorElements];
                float scale[kVectorElements];
                for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                    inverse[i] = inverse_unit[channel + i];
                    low[i] = first_of[who.chunk * width + channel + i];
                    scale[i] = second_of[who.chunk * width + channel + i];
                }
                const ChunkRows rows = chunk_rows(k, batch.chunk_tokens, tokens);
                for (std::uint32_t t = rows.first + who.row; t < rows.end; t += kChunkRowStep) {
                    float x[kVectorElements];
                    load_vector<E>(tile + ((std::size_t{t} << span.width_log2) + channel) * sizeof(typename E::Raw), x);
                    std::uint32_t anchor = 0;
                    std::uint32_t residual = 0;
                    for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                        const auto q = static_cast<std::uint32_t>(nested_index(x[i], inverse[i], low[i], scale[i]));
                        anchor |= (q >> 4U) << (4 * i);
                        residual |= (q & 15U) << (4 * i);
                    }
                    store_nibbles(anchor_rows, t, span.first + channel, span.count - channel, anchor);
                    store_nibbles(residual_rows, t, span.first + channel, span.count - channel, residual);
                }
            });
        }
    }

    static constexpr std::uint32_t kWidthMax = 64;

private:
    [[nodiscard]] LYNX_HOST_DEVICE static constexpr std::size_t scratch_bytes() noexcept {
        return (4 * kBlockThreads + kWidthMax) * sizeof(float) + kWidthMax * sizeof(NestedChannel);
    }

    /// Extremes of two channels over some rows of a tile; the earlier of two zeros wins, as in the scalar code.
    LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static void column_extremes(const std::byte* tile, const ChunkRows& rows,
                                                                    std::uint32_t pair, std::uint32_t width, float* min,
                                                                    float* max) noexcept {
        min[0] = min[1] = kF32Max;
        max[0] = max[1] = -kF32Max;
        for (std::uint32_t t = rows.first; t < rows.end; ++t) {
            float x[2];
            load_pair<E>(tile, std::size_t{t} * width / 2 + pair, x[0], x[1]);
            for (std::uint32_t i = 0; i < 2; ++i) {
                min[i] = x[i] < min[i] ? x[i] : min[i];
                max[i] = x[i] > max[i] ? x[i] : max[i];
            }
        }
    }
};

/// kFull: both tiers, else the anchor alone.
template <class E, bool kFull>
struct DecodeNested {
    static constexpr unsigned kBlocksAtOnce = 3;
    Batch batch;

    /// Of a block; `rows`: most that are transposed at once, 0 when every page's rows are vectors.
    [[nodiscard]] static std::size_t shared_bytes(std::uint32_t rows, std::uint32_t width_log2) noexcept {
        return (std::size_t{rows} << width_log2) * sizeof(typename E::Raw);
    }

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        const std::uint32_t page = index / batch.tiles;
        const PageJob job = batch.jobs[page];
        const TileSpan span = tile_of(batch.channels, batch.width_log2, index % batch.tiles);
        exact_rows_phase<E, false>(block, job.page, job.rows, span, batch.channels, job.exact, nullptr);
        const std::uint32_t tokens = job.rows.core();
        const std::uint32_t chunks = batch.chunks(job);
        const NestedLayout layout(batch.channels, chunks);
        const SymbolRows anchor_rows = nibble_rows(job.anchor + layout.symbols, batch.channels);
        const SymbolRows residual_rows = nibble_rows(job.residual, batch.channels);
        const bool direct = span.count % kVectorElements == 0 && rows_are_vectors<E>(job.page, job.rows.head, span);

        for (std::uint32_t k0 = 0; k0 < chunks; k0 += kWarps) {
            const std::uint32_t first = k0 * batch.chunk_tokens;
            block.threads([&](std::uint32_t thread) {
                const WarpThread who(thread, span.width_log2);
                const std::uint32_t k = k0 + who.chunk;
                const std::uint32_t channel = who.vector * kVectorElements;
                if (k >= chunks || channel >= span.count) {
                    return;
                }
                const std::uint32_t count = span.count - channel;
                // The base moves under the shift, as 32 times itself: fixed = (low + width * t) >> 5, below 2^31 as before.
                std::int32_t low[kVectorElements];
                std::int32_t width[kVectorElements];
                float unit[kVectorElements];
                bool valid = true;
                for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                    NestedChannel c;
                    NestedCells cells;
                    if (i < count) {
                        const std::size_t at = span.first + channel + i;
                        const std::size_t chunk_at = std::size_t{k} * batch.channels + at;
                        c = unpack_nested_channel(get_bytes(job.anchor + at * 4));
                        cells.lo = static_cast<std::uint8_t>(job.anchor[layout.lo + chunk_at]);
                        cells.hi = static_cast<std::uint8_t>(job.anchor[layout.hi + chunk_at]);
                        valid = valid && nested_channel_valid(c) && cells.lo <= cells.hi;
                    }
                    const NestedScale scale = nested_scale(c, cells);
                    low[i] = scale.base * 32 + scale.low;
                    width[i] = scale.width;
                    unit[i] = valid ? nested_unit(c) : 0.0F;
                }
                if (!valid) {
                    batch.flags[page] = 1;
                }
                const ChunkRows rows = chunk_rows(k, batch.chunk_tokens, tokens);
                LYNX_UNROLL_4
                for (std::uint32_t t = rows.first + who.row; t < rows.end; t += who.row_step) {
                    const std::uint32_t anchor = load_nibbles(anchor_rows, t, span.first + channel, count);
                    PairedNibbles symbols;
                    if constexpr (kFull) {
                        symbols = pair_nibbles(anchor, load_nibbles(residual_rows, t, span.first + channel, count));
                    }
                    float x[kVectorElements];
                    for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                        const std::int32_t at =
                            kFull ? nested_full_t(static_cast<std::int32_t>(symbols.get(i)))
                                  : nested_anchor_t(static_cast<std::int32_t>((anchor >> (4 * i)) & 15U));
                        x[i] = nested_value(at, 0, low[i], width[i], unit[i]);
                    }
                    std::byte* const to =
                        direct ? job.page.at<E>(job.rows.head + t, span.first + channel)
                               : block.shared() +
                                     ((std::size_t{t - first} << span.width_log2) + channel) * sizeof(typename E::Raw);
                    store_vector<E>(to, x);
                }
            });
            if (!direct) {
                const std::uint32_t rows = smaller(tokens - first, kWarps * batch.chunk_tokens);
                store_tile_phase<E>(block, block.shared(), job.rows.head + first, rows, span, job.page);
            }
        }
    }
};

}  // namespace lynx::codec::cuda
