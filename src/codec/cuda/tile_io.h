// Between a page in global memory, of any layout, and a tile in shared memory: `width` channels, token-major, without gaps.
#pragma once

#include "codec/cuda/block.h"
#include "codec/cuda/element.h"

namespace lynx::codec::cuda {

/// A page in device memory; strides in elements.
struct DeviceView {
    std::byte* data = nullptr;
    std::int64_t token_stride = 0;
    std::int64_t channel_stride = 1;

    template <class E>
    [[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE std::byte* at(std::uint32_t token,
                                                                    std::uint32_t channel) const noexcept {
        return data +
               (static_cast<std::int64_t>(token) * token_stride + static_cast<std::int64_t>(channel) * channel_stride) *
                   static_cast<std::int64_t>(sizeof(typename E::Raw));
    }
};

/// Channels [first, first + count) of a page, count in 1..1 << width_log2. Unused channels of a tile hold 0.
struct TileSpan {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
    std::uint32_t width_log2 = 6;

    [[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t width() const noexcept { return 1U << width_log2; }
    [[nodiscard]] LYNX_HOST_DEVICE constexpr bool full() const noexcept { return count == width(); }
};

[[nodiscard]] LYNX_HOST_DEVICE constexpr TileSpan tile_of(std::uint32_t channels, std::uint32_t width_log2,
                                                          std::uint32_t tile) noexcept {
    const std::uint32_t first = tile << width_log2;
    return {first, smaller(channels - first, 1U << width_log2), width_log2};
}

/// Whether rows (or, channel-major, columns) from `token` on can be read and written 16 bytes at a time.
template <class E>
[[nodiscard]] LYNX_HOST_DEVICE inline bool rows_are_vectors(const DeviceView& v, std::uint32_t token,
                                                            const TileSpan& span) noexcept {
    constexpr std::int64_t kPerVector = 16 / sizeof(typename E::Raw);
    return v.channel_stride == 1 && v.token_stride % kPerVector == 0 && is_aligned(v.at<E>(token, span.first), 16);
}
template <class E>
[[nodiscard]] LYNX_HOST_DEVICE inline bool columns_are_vectors(const DeviceView& v, std::uint32_t token,
                                                               const TileSpan& span) noexcept {
    constexpr std::int64_t kPerVector = 16 / sizeof(typename E::Raw);
    return v.token_stride == 1 && v.channel_stride % kPerVector == 0 && is_aligned(v.at<E>(token, span.first), 16);
}

/// Token and channel of the i-th of `tokens * count` elements, neighbours in memory first.
struct TilePlace {
    std::uint32_t token = 0;
    std::uint32_t channel = 0;
};
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE TilePlace place_of(const DeviceView& v, std::uint32_t i,
                                                                     std::uint32_t tokens,
                                                                     std::uint32_t count) noexcept {
    const std::int64_t channel_step = v.channel_stride < 0 ? -v.channel_stride : v.channel_stride;
    const std::int64_t token_step = v.token_stride < 0 ? -v.token_stride : v.token_stride;
    return channel_step <= token_step ? TilePlace{i / count, i % count} : TilePlace{i % tokens, i / tokens};
}

/// Where a page's first NaN or infinity in token-major order is noted; starts as kAllFinite.
inline constexpr std::uint32_t kAllFinite = ~0U;

/// The element, or 0 in the place of one that is noted, so that what follows computes with finite numbers.
template <class E, class Block>
[[nodiscard]] LYNX_HOST_DEVICE typename E::Raw finite_or_noted(typename E::Raw raw, std::uint32_t token,
                                                               std::uint32_t channel, std::uint32_t channels,
                                                               std::uint32_t* first_bad) noexcept {
    if (raw_is_finite<E>(raw)) {
        return raw;
    }
    Block::atomic_min(first_bad, token * channels + channel);
    return typename E::Raw{};
}

template <class Raw>
[[nodiscard]] LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE Raw load_raw(const std::byte* p) noexcept {
    Raw raw;
#ifdef __CUDA_ARCH__
    raw = *reinterpret_cast<const Raw*>(p);
#else
    __builtin_memcpy(&raw, p, sizeof raw);
#endif
    return raw;
}
template <class Raw>
LYNX_ALWAYS_INLINE LYNX_HOST_DEVICE void store_raw(std::byte* p, Raw raw) noexcept {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<Raw*>(p) = raw;
#else
    __builtin_memcpy(p, &raw, sizeof raw);
#endif
}

/// One phase: tokens [first, first + tokens) of the page into `tile`, looking for NaN and infinity on the way.
template <class E, class Block>
LYNX_HOST_DEVICE void load_tile_phase(Block& block, const DeviceView& page, std::uint32_t first, std::uint32_t tokens,
                                      const TileSpan& span, std::uint32_t channels, std::byte* tile,
                                      std::uint32_t* first_bad) noexcept {
    using Raw = typename E::Raw;
    constexpr std::uint32_t kPerVector = 16 / sizeof(Raw);
    constexpr std::uint32_t kPerVectorLog2 = sizeof(Raw) == 2 ? 3 : 2;
    const bool rows = span.full() && rows_are_vectors<E>(page, first, span);
    const bool columns = !rows && columns_are_vectors<E>(page, first, span);
    block.threads([&](std::uint32_t thread) {
        if (rows) {
            const std::uint32_t row_vectors_log2 = span.width_log2 - kPerVectorLog2;
            const std::uint32_t vectors = tokens << row_vectors_log2;
            LYNX_UNROLL_4
            for (std::uint32_t i = thread; i < vectors; i += kBlockThreads) {
                const std::uint32_t token = i >> row_vectors_log2;
                const std::uint32_t channel = (i & ((1U << row_vectors_log2) - 1)) * kPerVector;
                const Words4 v = load16(page.at<E>(first + token, span.first + channel));
                store16(tile + std::size_t{i} * 16, v);
                if ((non_finite<E>(v.w[0]) | non_finite<E>(v.w[1]) | non_finite<E>(v.w[2]) | non_finite<E>(v.w[3])) !=
                    0) {
                    for (std::uint32_t j = 0; j < kPerVector; ++j) {
                        std::byte* const p = tile + std::size_t{i} * 16 + j * sizeof(Raw);
                        store_raw(p, finite_or_noted<E, Block>(load_raw<Raw>(p), first + token,
                                                               span.first + channel + j, channels, first_bad));
                    }
                }
            }
            return;
        }
        const auto put = [&](std::uint32_t token, std::uint32_t channel, Raw raw) {
            store_raw(tile + ((std::size_t{token} << span.width_log2) + channel) * sizeof(Raw), raw);
        };
        for (std::uint32_t i = thread; i < tokens * (span.width() - span.count); i += kBlockThreads) {
            put(i % tokens, span.count + i / tokens, Raw{});
        }
        const std::uint32_t in_vectors = columns ? tokens & ~(kPerVector - 1) : 0;
        if (columns) {
            // Four threads along the tokens, 64 bytes of a channel, and eight channels a warp.
            const std::uint32_t column_vectors = in_vectors / kPerVector;
            const std::uint32_t groups = (column_vectors + 3) / 4;
            for (std::uint32_t i = thread; i < groups * 4 * span.count; i += kBlockThreads) {
                const std::uint32_t channel = (i / 4) % span.count;
                const std::uint32_t vector = (i / 4 / span.count) * 4 + i % 4;
                if (vector >= column_vectors) {
                    continue;
                }
                const std::uint32_t token = vector * kPerVector;
                const Words4 v = load16(page.at<E>(first + token, span.first + channel));
                for (std::uint32_t j = 0; j < kPerVector; ++j) {
                    const std::uint32_t word = v.w[j * sizeof(Raw) / 4];
                    Raw raw{};
                    if constexpr (sizeof(Raw) == 2) {
                        raw = static_cast<Raw>(word >> (j % 2 * 16U));
                    } else {
                        raw = __builtin_bit_cast(Raw, word);
                    }
                    put(token + j, channel,
                        finite_or_noted<E, Block>(raw, first + token + j, span.first + channel, channels, first_bad));
                }
            }
        }
        const std::uint32_t rest = tokens - in_vectors;
        for (std::uint32_t i = thread; i < rest * span.count; i += kBlockThreads) {
            const TilePlace p = place_of(page, i, rest, span.count);
            const std::uint32_t token = in_vectors + p.token;
            const Raw raw = load_raw<Raw>(page.at<E>(first + token, span.first + p.channel));
            put(token, p.channel,
                finite_or_noted<E, Block>(raw, first + token, span.first + p.channel, channels, first_bad));
        }
    });
}

/// One phase, the reverse of load_tile_phase for pages whose rows are not vectors: `tile` holds tokens [first, first + tokens).
template <class E, class Block>
LYNX_HOST_DEVICE void store_tile_phase(Block& block, const std::byte* tile, std::uint32_t first, std::uint32_t tokens,
                                       const TileSpan& span, const DeviceView& page) noexcept {
    using Raw = typename E::Raw;
    constexpr std::uint32_t kPerVector = 16 / sizeof(Raw);
    const bool columns = columns_are_vectors<E>(page, first, span);
    block.threads([&](std::uint32_t thread) {
        const auto get = [&](std::uint32_t token, std::uint32_t channel) {
            return load_raw<Raw>(tile + ((std::size_t{token} << span.width_log2) + channel) * sizeof(Raw));
        };
        const std::uint32_t in_vectors = columns ? tokens & ~(kPerVector - 1) : 0;
        const std::uint32_t column_vectors = in_vectors / kPerVector;
        const std::uint32_t groups = (column_vectors + 3) / 4;
        for (std::uint32_t i = thread; i < groups * 4 * span.count; i += kBlockThreads) {
            const std::uint32_t channel = (i / 4) % span.count;
            const std::uint32_t vector = (i / 4 / span.count) * 4 + i % 4;
            if (vector >= column_vectors) {
                continue;
            }
            const std::uint32_t token = vector * kPerVector;
            Words4 v{};
            for (std::uint32_t j = 0; j < kPerVector; ++j) {
                const Raw raw = get(token + j, channel);
                if constexpr (sizeof(Raw) == 2) {
                    v.w[j / 2] |= static_cast<std::uint32_t>(raw) << (j % 2 * 16U);
                } else {
                    v.w[j] = __builtin_bit_cast(std::uint32_t, raw);
                }
            }
            store16(page.at<E>(first + token, span.first + channel), v);
        }
        const std::uint32_t rest = tokens - in_vectors;
        for (std::uint32_t i = thread; i < rest * span.count; i += kBlockThreads) {
            const TilePlace p = place_of(page, i, rest, span.count);
            const std::uint32_t token = in_vectors + p.token;
            store_raw(page.at<E>(first + token, span.first + p.channel), get(token, p.channel));
        }
    });
}

/// Which rows of a page are kept exact: the first `head` and the last `tail` of `tokens`.
struct RowSplit {
    std::uint32_t tokens = 0;
    std::uint32_t head = 0;
    std::uint32_t tail = 0;
    [[nodiscard]] LYNX_HOST_DEVICE constexpr std::uint32_t core() const noexcept { return tokens - head - tail; }
};

/// One phase: the span's channels of the exact rows to or from their place in the payload, [head + tail][channels].
template <class E, bool kToPayload, class Block>
LYNX_HOST_DEVICE void exact_rows_phase(Block& block, const DeviceView& page, const RowSplit& rows, const TileSpan& span,
                                       std::uint32_t channels, std::byte* payload, std::uint32_t* first_bad) noexcept {
    using Raw = typename E::Raw;
    block.threads([&](std::uint32_t thread) {
        for (std::uint32_t i = thread; i < (rows.head + rows.tail) * span.count; i += kBlockThreads) {
            const std::uint32_t row = i / span.count;
            const std::uint32_t channel = span.first + i % span.count;
            const std::uint32_t token = row < rows.head ? row : rows.tokens - rows.tail + (row - rows.head);
            std::byte* in_page = page.at<E>(token, channel);
            std::byte* in_payload = payload + (std::size_t{row} * channels + channel) * sizeof(Raw);
            if constexpr (kToPayload) {
                store_raw(in_payload,
                          finite_or_noted<E, Block>(load_raw<Raw>(in_page), token, channel, channels, first_bad));
            } else {
                store_raw(in_page, load_raw<Raw>(in_payload));
            }
        }
    });
}

}  // namespace lynx::codec::cuda
