// Blocks: the channels of a page that a kernel works on at a time, token-major, a multiple of kGroupChannels wide. Channels
// that lie so in the page are used where they are; other layouts, and a page's last few channels, are staged in scratch memory
// and padded with zeros. Included once per target by foreach_target, hence no #pragma once.
#include <cstring>

#include "codec/simd/elements.h"
#include "codec/simd/scratch.h"
#include "kv/view.h"

#if defined(LYNX_CODEC_SIMD_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef LYNX_CODEC_SIMD_BLOCKS_INL_H
#undef LYNX_CODEC_SIMD_BLOCKS_INL_H
#else
#define LYNX_CODEC_SIMD_BLOCKS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "codec/simd/lanes-inl.h"

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128  // the scalar backend is the fallback
HWY_BEFORE_NAMESPACE();
namespace lynx::codec::simd::HWY_NAMESPACE {

inline constexpr std::uint32_t kGroupChannels = 64;    // 4 vectors of float32 or more on every target
inline constexpr std::uint32_t kBlockChannels = 1024;  // a row of constants per channel stays in the L1 cache
// How far ahead, in bytes; measured, and flat around these.
inline constexpr std::size_t kSourceAhead = 8192;
inline constexpr std::size_t kPayloadAhead = 2048;

/// Brings the memory that lies `distance` beyond a row into the cache while the row is worked on. Pages and payloads are too
/// short for the hardware's own guesses: each pass would wait for memory at its start.
template <bool kWrite>
HWY_INLINE void FetchAhead(const void* row, std::size_t bytes, std::size_t distance) {
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(row) + distance;  // may lie beyond the buffer
    for (std::size_t at = 0; at < bytes; at += 64) {
        __builtin_prefetch(reinterpret_cast<const void*>(begin + at), kWrite ? 1 : 0, 3);
    }
}

/// Channels of the block that starts at `first`: whole groups where the rows are contiguous, else at most one group.
template <class View>
HWY_INLINE std::uint32_t BlockChannels(const View& page, std::uint32_t first) {
    const std::uint32_t rest = page.channels - first;
    if (rest < kGroupChannels) {
        return rest;
    }
    if (page.channel_stride != 1) {
        return kGroupChannels;
    }
    return HWY_MIN(rest, kBlockChannels) / kGroupChannels * kGroupChannels;
}

/// The widest block of a page.
HWY_INLINE std::uint32_t BlockWidthMax(const kv::ConstView& page) {
    const std::uint32_t groups = (page.channels + kGroupChannels - 1) / kGroupChannels;
    return page.channel_stride == 1 ? HWY_MIN(groups * kGroupChannels, kBlockChannels) : kGroupChannels;
}

template <class E>
struct Block {
    const typename E::Raw* data;
    std::ptrdiff_t stride;  // between tokens, in elements
    std::uint32_t tokens;
    std::uint32_t width;

    HWY_INLINE const typename E::Raw* row(std::uint32_t t) const {
        return data + static_cast<std::ptrdiff_t>(t) * stride;
    }
};

/// Where a decoded block goes.
template <class E>
struct Target {
    typename E::Raw* data;
    std::ptrdiff_t stride;
    std::uint32_t width;
    bool stream;  // past the caches: rows are aligned and nobody reads them soon

    HWY_INLINE typename E::Raw* row(std::uint32_t t) const { return data + static_cast<std::ptrdiff_t>(t) * stride; }
};

/// One staged group of channels.
template <class E>
class Staging {
public:
    using Raw = typename E::Raw;

    Staging(ScratchLayout& layout, std::uint32_t tokens)
        : data_(layout.array<Raw>(std::size_t{tokens} * kGroupChannels)) {}

    HWY_INLINE Block<E> load(const kv::ConstView& page, std::uint32_t first, std::uint32_t count) const {
        const Raw* src = reinterpret_cast<const Raw*>(page.at(0, first));
        if (page.channel_stride == 1 && count % kGroupChannels == 0) {
            return {src, page.token_stride, page.tokens, count};
        }
        if (count < kGroupChannels) {
            std::memset(data_, 0, std::size_t{page.tokens} * kGroupChannels * sizeof(Raw));
        }
        if (page.channel_stride == 1) {
            for (std::uint32_t t = 0; t < page.tokens; ++t) {
                std::memcpy(data_ + std::size_t{t} * kGroupChannels,
                            src + static_cast<std::ptrdiff_t>(t) * page.token_stride, count * sizeof(Raw));
            }
        } else if (page.token_stride == 1) {
            Transpose(src, page.channel_stride, count, page.tokens, data_, kGroupChannels);
        } else {
            for (std::uint32_t t = 0; t < page.tokens; ++t) {
                for (std::uint32_t c = 0; c < count; ++c) {
                    std::memcpy(data_ + std::size_t{t} * kGroupChannels + c, page.at(t, first + c), sizeof(Raw));
                }
            }
        }
        return {data_, kGroupChannels, page.tokens, kGroupChannels};
    }

    HWY_INLINE Target<E> target(const kv::View& page, std::uint32_t first, std::uint32_t count) const {
        if (page.channel_stride != 1 || count % kGroupChannels != 0) {
            return {data_, kGroupChannels, kGroupChannels, false};
        }
        Raw* dst = reinterpret_cast<Raw*>(page.at(0, first));
        const std::uintptr_t misaligned =
            reinterpret_cast<std::uintptr_t>(dst) | static_cast<std::uintptr_t>(page.token_stride) * sizeof(Raw);
        return {dst, page.token_stride, count, misaligned % kScratchAlignment == 0};
    }

    /// Moves what was decoded into a staged target to its place.
    HWY_INLINE void store(const Target<E>& target, const kv::View& page, std::uint32_t first,
                          std::uint32_t count) const {
        if (target.data != data_) {
            return;
        }
        Raw* dst = reinterpret_cast<Raw*>(page.at(0, first));
        if (page.channel_stride == 1) {
            for (std::uint32_t t = 0; t < page.tokens; ++t) {
                std::memcpy(dst + static_cast<std::ptrdiff_t>(t) * page.token_stride,
                            data_ + std::size_t{t} * kGroupChannels, count * sizeof(Raw));
            }
        } else if (page.token_stride == 1) {
            Transpose(data_, kGroupChannels, page.tokens, count, dst, page.channel_stride);
        } else {
            for (std::uint32_t t = 0; t < page.tokens; ++t) {
                for (std::uint32_t c = 0; c < count; ++c) {
                    std::memcpy(page.at(t, first + c), data_ + std::size_t{t} * kGroupChannels + c, sizeof(Raw));
                }
            }
        }
    }

private:
    Raw* data_;
};

template <class E>
using OrderedTag = hn::Rebind<typename E::Ordered, DF>;

/// The value that an order-preserving integer stands for.
template <class E>
HWY_INLINE VF OrderedToFloat(hn::Vec<OrderedTag<E>> ordered) {
    return ToFloat<E>(hn::BitCast(RawTag<E>(), FlipOrder(OrderedTag<E>(), ordered)));
}

/// Minimum and maximum of every channel of a block, in the page and in every chunk, as order-preserving integers. -0 counts as
/// less than 0.
template <class E>
class Extremes {
public:
    using Ordered = typename E::Ordered;

    Extremes(ScratchLayout& layout, std::uint32_t chunks, std::uint32_t width)
        : page_min(layout.array<Ordered>(width)),
          page_max(layout.array<Ordered>(width)),
          stride_(width),
          min_(layout.array<Ordered>(std::size_t{chunks} * width)),
          max_(layout.array<Ordered>(std::size_t{chunks} * width)) {}

    HWY_INLINE Ordered* chunk_min(std::uint32_t k) const { return min_ + std::size_t{k} * stride_; }
    HWY_INLINE Ordered* chunk_max(std::uint32_t k) const { return max_ + std::size_t{k} * stride_; }

    HWY_NOINLINE void find(const Block<E>& block, std::uint32_t chunk_tokens) const {
        const hn::ScalableTag<Ordered> d;
        const std::uint32_t width = block.width;
        std::uint32_t first = 0;
        for (std::uint32_t k = 0; first < block.tokens; ++k) {
            const std::uint32_t end = HWY_MIN(block.tokens, first + chunk_tokens);
            rows(block, first, 1, true, chunk_min(k), chunk_max(k));
            std::uint32_t t = first + 1;
            for (; t + kRows <= end; t += kRows) {
                rows(block, t, kRows, false, chunk_min(k), chunk_max(k));
            }
            for (; t < end; ++t) {
                rows(block, t, 1, false, chunk_min(k), chunk_max(k));
            }
            for (std::uint32_t c = 0; c < width; c += hn::Lanes(d)) {
                const auto min = hn::Load(d, chunk_min(k) + c);
                const auto max = hn::Load(d, chunk_max(k) + c);
                hn::Store(k == 0 ? min : hn::Min(min, hn::Load(d, page_min + c)), d, page_min + c);
                hn::Store(k == 0 ? max : hn::Max(max, hn::Load(d, page_max + c)), d, page_max + c);
            }
            first = end;
        }
    }

    Ordered* page_min;
    Ordered* page_max;

private:
    static constexpr std::uint32_t kRows = 4;  // at a time, so that the extremes are loaded and stored less often

    HWY_INLINE static void rows(const Block<E>& block, std::uint32_t first, std::uint32_t count, bool start,
                                Ordered* min_row, Ordered* max_row) {
        const hn::ScalableTag<Ordered> d;
        for (std::uint32_t i = 0; i < count; ++i) {
            FetchAhead<false>(block.row(first + i), block.width * sizeof(Ordered), kSourceAhead);
        }
        for (std::uint32_t c = 0; c < block.width; c += hn::Lanes(d)) {
            auto x = FlipOrder(d, hn::LoadU(d, reinterpret_cast<const Ordered*>(block.row(first)) + c));
            auto min = start ? x : hn::Min(x, hn::Load(d, min_row + c));
            auto max = start ? x : hn::Max(x, hn::Load(d, max_row + c));
            for (std::uint32_t i = 1; i < count; ++i) {
                x = FlipOrder(d, hn::LoadU(d, reinterpret_cast<const Ordered*>(block.row(first + i)) + c));
                min = hn::Min(min, x);
                max = hn::Max(max, x);
            }
            hn::Store(min, d, min_row + c);
            hn::Store(max, d, max_row + c);
        }
    }

    std::size_t stride_;
    Ordered* min_;
    Ordered* max_;
};

/// Stores two vectors' worth of neighbouring elements.
template <class E, bool kStream>
HWY_INLINE void StoreElements(RawVec<E> lower, RawVec<E> upper, typename E::Raw* dst) {
    const RawTag<E> d;
    if constexpr (sizeof(typename E::Raw) == 2) {
        const hn::Twice<RawTag<E>> both;
        if constexpr (kStream) {
            hn::Stream(hn::Combine(both, upper, lower), both, dst);
        } else {
            hn::StoreU(hn::Combine(both, upper, lower), both, dst);
        }
    } else if constexpr (kStream) {
        hn::Stream(lower, d, dst);
        hn::Stream(upper, d, dst + hn::Lanes(d));
    } else {
        hn::StoreU(lower, d, dst);
        hn::StoreU(upper, d, dst + hn::Lanes(d));
    }
}

}  // namespace lynx::codec::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // LYNX_CODEC_SIMD_BLOCKS_INL_H
