// lynx44 in thread blocks: a block encodes or decodes one tile of one page.
//
// Encoding goes as in nested_block.h; sums of a chunk stay in token order, as the scalar code adds them, so a thread walks a
// column. The level of a magnitude is guessed by a logarithm and then corrected against the thresholds, which decide: two
// table reads in the common case where a binary search takes seven. Magnitudes are summed per anchor symbol in private bins
// (integers, so any order gives the same sums), then per block, then per page in global memory; a small kernel turns those
// into the page's table. Bins and float64 normalisers bring a block to 61 KiB, three to an H200 multiprocessor.
//
// Decoding reads one of 256 values of (anchor, residual) pairs per element from shared memory.
#pragma once

#ifndef __CUDACC__
#include <cmath>
#endif

#include "codec/cuda/page_jobs.h"
#include "codec/math/alpha_math.h"

namespace lynx::codec::cuda {

inline constexpr std::uint32_t kLynxMagnitudes = 8;
inline constexpr std::size_t kLynxTableBytes = kLynxMagnitudes * sizeof(std::uint16_t);
inline constexpr std::uint32_t kThresholds = kAlphaLevelsMax + 2;  ///< the last one infinite

/// The alpha-law's tables in device memory (ref/alpha_law.h), and what a guess needs.
struct LawTables {
    float magnitude[kAlphaMagnitudes];
    float threshold[kThresholds];
    float alpha = 0;
    float levels_per_log2 = 0;  ///< levels / log2(1 + alpha)
    std::int32_t levels = 0;
};

/// Sum (in 2^-24) and number of a page's magnitudes by anchor symbol.
struct PageBins {
    std::uint64_t sum[kLynxMagnitudes];
    std::uint64_t count[kLynxMagnitudes];
};

/// About the level of `a`; alpha_level_from makes it exact.
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::int32_t guessed_level(const LawTables& law, float a) noexcept {
#ifdef __CUDA_ARCH__
    const float log2 = __log2f(1.0F + law.alpha * a);
#else
    const float log2 = std::log2(1.0F + law.alpha * a);
#endif
    return limited(static_cast<std::int32_t>(log2 * law.levels_per_log2 + 0.5F), 0, law.levels);
}

template <class E>
struct EncodeLynx {
    static constexpr unsigned kBlocksAtOnce = 3;
    Batch batch;
    const LawTables* law = nullptr;
    PageBins* bins = nullptr;  ///< [pages], zero
    MetaFormat format = MetaFormat::f32;

    [[nodiscard]] static std::size_t shared_bytes(std::uint32_t tokens, std::uint32_t width_log2) noexcept {
        return sizeof(Scratch) + (std::size_t{tokens} << width_log2) * sizeof(typename E::Raw);
    }

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        const std::uint32_t page = index / batch.tiles;
        const PageJob job = batch.jobs[page];
        std::uint32_t* first_bad = batch.flags + page;
        const TileSpan span = tile_of(batch.channels, batch.width_log2, index % batch.tiles);
        const std::uint32_t tokens = job.rows.core();
        auto& s = *reinterpret_cast<Scratch*>(block.shared());
        std::byte* const tile = block.shared() + sizeof(Scratch);
        const std::uint32_t width = span.width();
        const std::uint32_t groups = chunks_at_once(span.width_log2);
        const std::uint32_t chunks = batch.chunks(job);
        const AlphaMetaLayout layout = alpha_meta_layout(format, chunks, batch.channels);
        std::byte* const meta = job.anchor + kLynxTableBytes;
        const SymbolRows anchor_rows = nibble_rows(meta + layout.end, batch.channels);
        const SymbolRows residual_rows = nibble_rows(job.residual, batch.channels);

        load_tile_phase<E>(block, job.page, job.rows.head, tokens, span, batch.channels, tile, first_bad);

        block.threads([&](std::uint32_t thread) {
            for (std::uint32_t i = thread; i < kThresholds; i += kBlockThreads) {
                s.threshold[i] = law->threshold[i];
            }
            for (std::uint32_t v = 0; v < kLynxMagnitudes; ++v) {
                s.bins[v][thread] = 0;
            }
            const ChunkThread who(thread, span.width_log2);
            AlphaChunk c[2];
            column_stats(tile, chunk_rows(who.chunk, (tokens + groups - 1) / groups, tokens), who.pair, width, c);
            for (std::uint32_t i = 0; i < 2; ++i) {
                s.extremes.min[who.chunk * width + 2 * who.pair + i] = c[i].min;
                s.extremes.max[who.chunk * width + 2 * who.pair + i] = c[i].max;
            }
        });
        block.threads([&](std::uint32_t thread) {
            if (thread >= span.count) {
                return;
            }
            float min = s.extremes.min[thread];
            float max = s.extremes.max[thread];
            for (std::uint32_t g = 1; g < groups; ++g) {
                min = smaller(min, s.extremes.min[g * width + thread]);
                max = larger(max, s.extremes.max[g * width + thread]);
            }
            s.gamma[thread] = put_alpha_gamma(format, layout, meta, span.first + thread, min, max);
        });

        for (std::uint32_t k0 = 0; k0 < chunks; k0 += groups) {
            block.threads([&](std::uint32_t thread) {
                const ChunkThread who(thread, span.width_log2);
                const std::uint32_t k = k0 + who.chunk;
                if (k >= chunks) {
                    return;
                }
                AlphaChunk c[2];
                column_stats(tile, chunk_rows(k, batch.chunk_tokens, tokens), who.pair, width, c);
                for (std::uint32_t i = 0; i < 2; ++i) {
                    const std::uint32_t channel = 2 * who.pair + i;
                    if (channel < span.count) {
                        const std::size_t at = std::size_t{k} * batch.channels + span.first + channel;
                        s.normaliser[who.chunk * width + channel] =
                            put_alpha_chunk(format, layout, meta, at, s.gamma[channel], c[i]);
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
                const std::uint32_t count = smaller(span.count - channel, kVectorElements);
                AlphaNormaliser n[kVectorElements];
                for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                    n[i] = i < count ? s.normaliser[who.chunk * width + channel + i] : AlphaNormaliser{};
                }
                const ChunkRows rows = chunk_rows(k, batch.chunk_tokens, tokens);
                for (std::uint32_t t = rows.first + who.row; t < rows.end; t += kChunkRowStep) {
                    float x[kVectorElements];
                    load_vector<E>(tile + ((std::size_t{t} << span.width_log2) + channel) * sizeof(typename E::Raw), x);
                    std::uint32_t anchor = 0;
                    std::uint32_t residual = 0;
                    for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                        const double normalised = alpha_normalised(x[i], n[i].center, n[i].inverse_spread);
                        const float a = alpha_magnitude(normalised);
                        const std::uint32_t level = alpha_level_from(s.threshold, guessed_level(*law, a), a);
                        const AlphaSymbols symbols = split_level(static_cast<int>(level), normalised < 0);
                        anchor |= (static_cast<std::uint32_t>(symbols.q_anc) & 15U) << (4 * i);
                        residual |= (static_cast<std::uint32_t>(symbols.q_res) & 15U) << (4 * i);
                        if (i < count) {
                            s.bins[(level + 7U) >> 4U][thread] += (std::uint64_t{1} << kCountShift) + alpha_fixed(a);
                        }
                    }
                    store_nibbles(anchor_rows, t, span.first + channel, count, anchor);
                    store_nibbles(residual_rows, t, span.first + channel, count, residual);
                }
            });
        }

        // Thread (v, lane) adds up the lane's share of bin v, then one thread each bin.
        block.threads([&](std::uint32_t thread) {
            const std::uint32_t v = thread / kLanes;
            const std::uint32_t lane = thread % kLanes;
            std::uint64_t sum = 0;
            std::uint64_t count = 0;
            for (std::uint32_t i = lane; i < kBlockThreads; i += kLanes) {
                sum += s.bins[v][i] & kSumMask;
                count += s.bins[v][i] >> kCountShift;
            }
            s.partial.sum[v][lane] = sum;
            s.partial.count[v][lane] = count;
        });
        block.threads([&](std::uint32_t thread) {
            if (thread >= kLynxMagnitudes) {
                return;
            }
            std::uint64_t sum = 0;
            std::uint64_t count = 0;
            for (std::uint32_t i = 0; i < kLanes; ++i) {
                sum += s.partial.sum[thread][i];
                count += s.partial.count[thread][i];
            }
            Block::atomic_add(&bins[page].sum[thread], sum);
            Block::atomic_add(&bins[page].count[thread], count);
        });
    }

private:
    static constexpr std::uint32_t kWidthMax = 64;
    static constexpr std::uint32_t kLanes = kBlockThreads / kLynxMagnitudes;
    // A thread meets at most 4096 * 8 magnitudes of at most 2^24.
    static constexpr std::uint32_t kCountShift = 44;
    static constexpr std::uint64_t kSumMask = (std::uint64_t{1} << kCountShift) - 1;

    struct Extremes {
        float min[2 * kBlockThreads];
        float max[2 * kBlockThreads];
    };
    struct PartialBins {
        std::uint64_t sum[kLynxMagnitudes][kLanes];
        std::uint64_t count[kLynxMagnitudes][kLanes];
    };
    /// What is in use at different times shares its place.
    struct Scratch {
        std::uint64_t bins[kLynxMagnitudes][kBlockThreads];  ///< count << kCountShift | sum
        union {
            AlphaNormaliser normaliser[2 * kBlockThreads];
            PartialBins partial;
            Extremes extremes;
        };
        AlphaGamma gamma[kWidthMax];
        alignas(16) float threshold[(kThresholds + 3) / 4 * 4];
    };

    /// Extremes and sum of two channels over some rows of a tile, in token order.
    LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static void column_stats(const std::byte* tile, const ChunkRows& rows,
                                                                 std::uint32_t pair, std::uint32_t width,
                                                                 AlphaChunk* c) noexcept {
        for (std::uint32_t i = 0; i < 2; ++i) {
            c[i] = {kF32Max, -kF32Max, 0.0, rows.end - rows.first};
        }
        for (std::uint32_t t = rows.first; t < rows.end; ++t) {
            float x[2];
            load_pair<E>(tile, std::size_t{t} * width / 2 + pair, x[0], x[1]);
            for (std::uint32_t i = 0; i < 2; ++i) {
                const bool first = t == rows.first;
                c[i].min = first || x[i] < c[i].min ? x[i] : c[i].min;
                c[i].max = first || x[i] > c[i].max ? x[i] : c[i].max;
                c[i].sum = first ? static_cast<double>(x[i]) : c[i].sum + static_cast<double>(x[i]);
            }
        }
    }
};

/// After EncodeLynx: a page's bins become the table at the head of its anchor. A thread per page and magnitude.
struct FinishLynx {
    static constexpr unsigned kBlocksAtOnce = 1;
    Batch batch;
    const LawTables* law = nullptr;
    const PageBins* bins = nullptr;
    std::uint32_t pages = 0;

    static constexpr std::uint32_t kPagesPerBlock = kBlockThreads / kLynxMagnitudes;

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        block.threads([&](std::uint32_t thread) {
            const std::uint32_t page = index * kPagesPerBlock + thread / kLynxMagnitudes;
            const std::uint32_t v = thread % kLynxMagnitudes;
            if (page < pages) {
                const PageBins& b = bins[page];
                put_element(batch.jobs[page].anchor, v, alpha_centroid(b.sum[v], b.count[v], law->magnitude[16 * v]));
            }
        });
    }
};

/// kFull: both tiers, else the anchor alone.
template <class E, bool kFull>
struct DecodeLynx {
    static constexpr unsigned kBlocksAtOnce = 3;
    Batch batch;
    const LawTables* law = nullptr;
    MetaFormat format = MetaFormat::f32;

    [[nodiscard]] static std::size_t shared_bytes(std::uint32_t rows, std::uint32_t width_log2) noexcept {
        return kValues * sizeof(float) + (std::size_t{rows} << width_log2) * sizeof(typename E::Raw);
    }

    template <class Block>
    LYNX_HOST_DEVICE void operator()(Block& block, std::uint32_t index) const noexcept {
        const std::uint32_t page = index / batch.tiles;
        const PageJob job = batch.jobs[page];
        const TileSpan span = tile_of(batch.channels, batch.width_log2, index % batch.tiles);
        auto* const value = reinterpret_cast<float*>(block.shared());
        std::byte* const tile = block.shared() + kValues * sizeof(float);
        const std::uint32_t tokens = job.rows.core();
        const std::uint32_t chunks = batch.chunks(job);
        const AlphaMetaLayout layout = alpha_meta_layout(format, chunks, batch.channels);
        const std::byte* const meta = job.anchor + kLynxTableBytes;
        const SymbolRows anchor_rows = nibble_rows(job.anchor + kLynxTableBytes + layout.end, batch.channels);
        const SymbolRows residual_rows = nibble_rows(job.residual, batch.channels);
        const bool direct = span.count % kVectorElements == 0 && rows_are_vectors<E>(job.page, job.rows.head, span);

        // NaN marks a pair that no level splits into; metadata is finite, so nothing else makes one.
        block.threads([&](std::uint32_t thread) {
            const int q_anc = signed_nibble_of(kFull ? thread >> 4U : thread);
            const auto v = static_cast<std::uint32_t>(q_anc < 0 ? -q_anc - 1 : q_anc);
            float a = 0;
            if constexpr (kFull) {
                const int level = join_level({q_anc, signed_nibble_of(thread & 15U)});
                a = level < 0 || level > law->levels ? __builtin_bit_cast(float, 0x7FC00000U) : law->magnitude[level];
            } else {
                a = centroid_magnitude(get_element<std::uint16_t>(job.anchor, v));
            }
            value[thread] = q_anc < 0 ? -a : a;
        });

        for (std::uint32_t k0 = 0; k0 < chunks; k0 += kWarps) {
            const std::uint32_t first = k0 * batch.chunk_tokens;
            block.threads([&](std::uint32_t thread) {
                const WarpThread who(thread, span.width_log2);
                const std::uint32_t k = k0 + who.chunk;
                const std::uint32_t channel = who.vector * kVectorElements;
                if (k >= chunks || channel >= span.count) {
                    return;
                }
                const std::uint32_t count = smaller(span.count - channel, kVectorElements);
                float center[kVectorElements];
                float spread[kVectorElements];
                bool valid = true;
                for (std::uint32_t i = 0; i < kVectorElements; ++i) {
                    AlphaElementMeta m;
                    if (i < count) {
                        const std::size_t at = span.first + channel + i;
                        m = get_alpha_meta(format, layout, meta, at, std::size_t{k} * batch.channels + at);
                        valid = valid && alpha_meta_valid(m);
                    }
                    center[i] = m.gamma_min + m.gamma_scale * m.mu;
                    spread[i] = m.gamma_scale * m.sigma;
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
                        const float a = value[kFull ? symbols.get(i) : (anchor >> (4 * i)) & 15U];
                        valid = valid && (i >= count || a == a);
                        x[i] = center[i] + spread[i] * a;
                    }
                    std::byte* const to = direct ? job.page.at<E>(job.rows.head + t, span.first + channel)
                                                 : tile + ((std::size_t{t - first} << span.width_log2) + channel) *
                                                              sizeof(typename E::Raw);
                    store_vector<E>(to, x);
                }
                if (!valid) {
                    batch.flags[page] = 1;
                }
            });
            if (!direct) {
                const std::uint32_t rows = smaller(tokens - first, kWarps * batch.chunk_tokens);
                store_tile_phase<E>(block, tile, job.rows.head + first, rows, span, job.page);
            }
        }
    }

private:
    static constexpr std::uint32_t kValues = 256;

    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE static int signed_nibble_of(std::uint32_t nibble) noexcept {
        return static_cast<int>((nibble & 15U) ^ 8U) - 8;
    }
};

}  // namespace lynx::codec::cuda
