// Two passes over a page: the extremes of every channel and chunk, on the order-preserving integers of the raw elements; then
// the indices. A page is cut into blocks of channels that lie token-major; other layouts and the last channels are staged into
// such a block first. Arithmetic is math/nested_math.h's, operation by operation, except where a comment says why the bits are the same.
#include "codec/simd/nested44_simd.h"

#include <cstring>

#include "base/check.h"
#include "codec/math/nested_math.h"
#include "codec/simd/kernel_coder.h"
#include "codec/simd/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/simd/nested44_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "codec/simd/blocks-inl.h"
#include "codec/simd/lanes-inl.h"

#ifndef LYNX_CODEC_SIMD_NESTED44_ONCE
#define LYNX_CODEC_SIMD_NESTED44_ONCE
namespace lynx::codec::simd {

/// Where a page's nested44 bodies have their parts (FORMAT, "nested44"), for a block of its channels.
struct NestedParts {
    std::uint8_t* words;     // u32 [width]
    std::uint8_t* lo;        // u8 [chunks][chunk_stride]
    std::uint8_t* hi;        // the same
    std::uint8_t* anchor;    // nibbles [tokens][row_stride bytes]
    std::uint8_t* residual;  // the same; null when decoding an anchor
    std::size_t chunk_stride;
    std::size_t row_stride;
};

struct NestedPage {
    std::uint32_t chunk_tokens;
    NestedParts parts;
};

using NestedEncode = bool (*)(const kv::ConstView& core, const NestedPage& page);
using NestedDecode = bool (*)(const NestedPage& page, const kv::View& dst);

struct NestedKernels {
    NestedEncode encode;  ///< false: the core holds a NaN or an infinity
    NestedDecode decode;  ///< false: the metadata is not what an encoder writes
};

}  // namespace lynx::codec::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace lynx::codec::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

const NestedKernels* kernels_of_target() { return nullptr; }  // the scalar backend is the fallback

#else

/// 2^e in every lane. Precondition: -126 <= e <= 127.
HWY_INLINE VF PowerOfTwo(VI e) { return hn::BitCast(DF(), hn::ShiftLeft<23>(hn::Add(e, hn::Set(DI(), 127)))); }

/// What the first pass leaves for the second, per channel of a block.
struct NestedChannels {
    explicit NestedChannels(ScratchLayout& layout)
        : unit(layout.array<float>(kBlockChannels)),
          inverse_unit(layout.array<float>(kBlockChannels)),
          base(layout.array<float>(kBlockChannels)),
          range(layout.array<std::int32_t>(kBlockChannels)),
          low(layout.array<float>(kBlockChannels)),
          scale(layout.array<float>(kBlockChannels)) {}
    float* unit;
    float* inverse_unit;
    float* base;
    std::int32_t* range;
    float* low;    // of the chunk at hand
    float* scale;  // of the chunk at hand
};

/// nested_channel of math/nested_math.h for a block. False when an extreme is not finite.
template <class E>
HWY_INLINE bool MakeChannels(const Extremes<E>& extremes, std::uint32_t width, const NestedChannels& out,
                             std::uint8_t* words) {
    const DF df;
    const DI di;
    const hn::Rebind<typename E::Ordered, DF> d_ordered;
    auto all_min = hn::Set(d_ordered, typename E::Ordered{0});
    auto all_max = all_min;
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        const auto raw_min = hn::Load(d_ordered, extremes.page_min + c);
        const auto raw_max = hn::Load(d_ordered, extremes.page_max + c);
        all_min = hn::Min(all_min, raw_min);
        all_max = hn::Max(all_max, raw_max);
        const VF min = OrderedToFloat<E>(raw_min);
        const VF max = OrderedToFloat<E>(raw_max);
        const VF magnitude = hn::Max(hn::Abs(min), hn::Abs(max));
        const VI field = hn::ShiftRight<23>(hn::BitCast(di, magnitude));
        VI e = hn::Max(hn::Sub(field, hn::Set(di, 127 + 11)), hn::Set(di, kNestedExponentMin));
        // A comparison's lanes are -1 where it holds.
        const auto above = hn::Gt(hn::Mul(magnitude, PowerOfTwo(hn::Neg(e))), hn::Set(df, 4094.0F));
        e = hn::Sub(e, hn::VecFromMask(di, hn::RebindMask(di, above)));
        const VF inverse_unit = PowerOfTwo(hn::Neg(e));
        const VF scaled_max = hn::Mul(max, inverse_unit);
        const VF base = hn::Floor(hn::Mul(min, inverse_unit));
        VI range = TruncateToInt(hn::Ceil(hn::Mul(hn::Sub(scaled_max, base), hn::Set(df, 0.25F))));
        const VI base_int = TruncateToInt(base);
        const VF end = hn::ConvertTo(df, hn::Add(base_int, hn::ShiftLeft<2>(range)));
        range = hn::Sub(range, hn::VecFromMask(di, hn::RebindMask(di, hn::Lt(end, scaled_max))));
        hn::Store(PowerOfTwo(e), df, out.unit + c);
        hn::Store(inverse_unit, df, out.inverse_unit + c);
        hn::Store(hn::ConvertTo(df, base_int), df, out.base + c);
        hn::Store(range, di, out.range + c);
        const VI word =
            hn::Or(hn::Or(hn::And(base_int, hn::Set(di, 0x1FFF)), hn::ShiftLeft<13>(range)), hn::ShiftLeft<24>(e));
        hn::StoreU(hn::BitCast(DBytes(), word), DBytes(), words + std::size_t{c} * 4);
    }
    const auto largest = hn::Set(d_ordered, E::kLargestFinite);
    return hn::AllFalse(d_ordered, hn::Or(hn::Gt(all_max, largest), hn::Lt(all_min, hn::Not(largest))));
}

/// nested_cells and nested_quantiser of math/nested_math.h for a block, and the constants that turn an element into its index.
template <class E>
HWY_INLINE void MakeChunk(const Extremes<E>& extremes, std::uint32_t chunk, std::uint32_t width,
                          const NestedChannels& channels, std::uint8_t* lo_bytes, std::uint8_t* hi_bytes) {
    const DF df;
    const DI di;
    const hn::Rebind<typename E::Ordered, DF> d_ordered;
    const hn::Rebind<std::uint8_t, DF> d8;
    const VI zero = hn::Zero(di);
    const VI last = hn::Set(di, 255);
    const VI one = hn::Set(di, 1);
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        const VF inverse_unit = hn::Load(df, channels.inverse_unit + c);
        const VF base = hn::Load(df, channels.base + c);
        const VI range = hn::Load(di, channels.range + c);
        const VF min = hn::Mul(OrderedToFloat<E>(hn::Load(d_ordered, extremes.chunk_min(chunk) + c)), inverse_unit);
        const VF max = hn::Mul(OrderedToFloat<E>(hn::Load(d_ordered, extremes.chunk_max(chunk) + c)), inverse_unit);
        const VF cell = hn::Mul(hn::ConvertTo(df, range), hn::Set(df, 1.0F / 64.0F));
        VI lo = hn::Min(hn::Max(TruncateToInt(hn::Div(hn::Sub(min, base), cell)), zero), last);
        const VF lo_edge = hn::Add(base, hn::Mul(hn::ConvertTo(df, lo), cell));
        const auto lower = hn::And(hn::Gt(lo, zero), hn::RebindMask(di, hn::Gt(lo_edge, min)));
        lo = hn::Add(lo, hn::VecFromMask(di, lower));
        VI hi = hn::Min(hn::Max(TruncateToInt(hn::Div(hn::Sub(max, base), cell)), zero), last);
        const VF next_edge = hn::Add(base, hn::Mul(hn::ConvertTo(df, hn::Add(hi, one)), cell));
        const auto higher = hn::And(hn::Lt(hi, last), hn::RebindMask(di, hn::Lt(next_edge, max)));
        hi = hn::Sub(hi, hn::VecFromMask(di, higher));
        const VF hi_edge = hn::Add(base, hn::Mul(hn::ConvertTo(df, hi), cell));
        const auto too_high = hn::And(hn::Gt(hi, lo), hn::RebindMask(di, hn::Ge(hi_edge, max)));
        hi = hn::Max(lo, hn::Add(hi, hn::VecFromMask(di, too_high)));
        const auto has_range = hn::Gt(range, zero);
        lo = hn::IfThenElseZero(has_range, lo);
        hi = hn::IfThenElseZero(has_range, hi);
        hn::StoreU(hn::DemoteTo(d8, lo), d8, lo_bytes + c);
        hn::StoreU(hn::DemoteTo(d8, hi), d8, hi_bytes + c);

        const VI span = hn::Mul(hn::Add(hn::Sub(hi, lo), one), range);
        VF low = hn::Add(base, hn::Mul(hn::ConvertTo(df, hn::Mul(lo, range)), hn::Set(df, 1.0F / 64.0F)));
        VF scale = hn::IfThenElseZero(hn::RebindMask(df, has_range),
                                      hn::Div(hn::Set(df, 256.0F * 64.0F), hn::ConvertTo(df, span)));
        if constexpr (E::kDType == kv::DType::f16) {
            // (x / unit - low) * scale = (x - low * unit) * (scale / unit) to the bit: the unit is a power of two, and with
            // float16's few exponents neither side leaves float32's normal numbers where it matters.
            low = hn::Mul(low, hn::Load(df, channels.unit + c));
            scale = hn::Mul(scale, inverse_unit);
        }
        hn::Store(low, df, channels.low + c);
        hn::Store(scale, df, channels.scale + c);
    }
}

template <class E>
HWY_INLINE VI QuantiseLanes(const typename E::Raw* src, const NestedChannels& channels, std::uint32_t c) {
    const DF df;
    VF x = LoadFloat<E>(src + c);
    if constexpr (E::kDType != kv::DType::f16) {
        x = hn::Mul(x, hn::Load(df, channels.inverse_unit + c));
    }
    x = hn::Mul(hn::Sub(x, hn::Load(df, channels.low + c)), hn::Load(df, channels.scale + c));
    return TruncateToInt(x);  // packing limits it to 0..255
}

/// A block's second pass over the rows of one chunk.
template <class E>
HWY_INLINE void QuantiseRows(const Block<E>& block, std::uint32_t first, std::uint32_t end,
                             const NestedChannels& channels, const NestedParts& out) {
    const DHalfBytes half;
    const std::uint32_t n = hn::Lanes(DF());
    for (std::uint32_t t = first; t < end; ++t) {
        const typename E::Raw* src = block.row(t);
        std::uint8_t* anchor = out.anchor + t * out.row_stride;
        std::uint8_t* residual = out.residual + t * out.row_stride;
        FetchAhead<true>(anchor, block.width / 2, kPayloadAhead);
        FetchAhead<true>(residual, block.width / 2, kPayloadAhead);
        for (std::uint32_t c = 0; c < block.width; c += 4 * n) {
            const VBytes index =
                PackBytes(QuantiseLanes<E>(src, channels, c), QuantiseLanes<E>(src, channels, c + n),
                          QuantiseLanes<E>(src, channels, c + 2 * n), QuantiseLanes<E>(src, channels, c + 3 * n));
            hn::StoreU(PackHighNibbles(index), half, anchor + c / 2);
            hn::StoreU(PackLowNibbles(index), half, residual + c / 2);
        }
    }
}

template <class E>
HWY_NOINLINE bool EncodeNestedBlock(const Block<E>& block, std::uint32_t chunk_tokens, const Extremes<E>& extremes,
                                    const NestedChannels& channels, const NestedParts& out) {
    extremes.find(block, chunk_tokens);
    if (!MakeChannels<E>(extremes, block.width, channels, out.words)) {
        return false;
    }
    std::uint32_t first = 0;
    for (std::uint32_t k = 0; first < block.tokens; ++k) {
        const std::uint32_t end = HWY_MIN(block.tokens, first + chunk_tokens);
        MakeChunk<E>(extremes, k, block.width, channels, out.lo + k * out.chunk_stride, out.hi + k * out.chunk_stride);
        QuantiseRows<E>(block, first, end, channels, out);
        first = end;
    }
    return true;
}

/// The parts of a page for its channels from `first` on.
HWY_INLINE NestedParts PartsFrom(const NestedParts& p, std::uint32_t first) {
    return {p.words + std::size_t{first} * 4,
            p.lo + first,
            p.hi + first,
            p.anchor + first / 2,
            p.residual == nullptr ? nullptr : p.residual + first / 2,
            p.chunk_stride,
            p.row_stride};
}

/// Scratch parts for a last block of fewer than kGroupChannels channels.
HWY_INLINE NestedParts ScratchParts(ScratchLayout& layout, std::uint32_t tokens, std::uint32_t chunks) {
    NestedParts p{};
    p.chunk_stride = kGroupChannels;
    p.row_stride = kGroupChannels / 2;
    p.words = layout.array<std::uint8_t>(std::size_t{kGroupChannels} * 4);
    p.lo = layout.array<std::uint8_t>(chunks * p.chunk_stride);
    p.hi = layout.array<std::uint8_t>(chunks * p.chunk_stride);
    p.anchor = layout.array<std::uint8_t>(tokens * p.row_stride);
    p.residual = layout.array<std::uint8_t>(tokens * p.row_stride);
    return p;
}

HWY_INLINE void CopyRows(const std::uint8_t* from, std::size_t from_stride, std::uint8_t* to, std::size_t to_stride,
                         std::uint32_t rows, std::size_t bytes) {
    for (std::uint32_t r = 0; r < rows; ++r) {
        std::memcpy(to + r * to_stride, from + r * from_stride, bytes);
    }
}

HWY_INLINE void CopyParts(const NestedParts& from, const NestedParts& to, std::uint32_t tokens, std::uint32_t chunks,
                          std::uint32_t channels) {
    std::memcpy(to.words, from.words, std::size_t{channels} * 4);
    CopyRows(from.lo, from.chunk_stride, to.lo, to.chunk_stride, chunks, channels);
    CopyRows(from.hi, from.chunk_stride, to.hi, to.chunk_stride, chunks, channels);
    CopyRows(from.anchor, from.row_stride, to.anchor, to.row_stride, tokens, nibble_row_bytes(channels));
    if (from.residual != nullptr) {
        CopyRows(from.residual, from.row_stride, to.residual, to.row_stride, tokens, nibble_row_bytes(channels));
    }
}

template <class E>
bool EncodeNested(const kv::ConstView& core, const NestedPage& page) {
    const std::uint32_t chunks = chunk_count(core.tokens, page.chunk_tokens);
    std::byte* memory = nullptr;
    for (;;) {
        ScratchLayout layout(memory);
        const NestedChannels channels(layout);
        const Extremes<E> extremes(layout, chunks, BlockWidthMax(core));
        const Staging<E> staging(layout, core.tokens);
        const NestedParts tail = ScratchParts(layout, core.tokens, chunks);
        if (memory == nullptr) {
            memory = thread_scratch(layout.bytes());
            continue;
        }
        for (std::uint32_t first = 0; first < core.channels;) {
            const std::uint32_t count = BlockChannels(core, first);
            const Block<E> block = staging.load(core, first, count);
            const NestedParts parts = PartsFrom(page.parts, first);
            const bool whole = count == block.width;
            if (!EncodeNestedBlock<E>(block, page.chunk_tokens, extremes, channels, whole ? parts : tail)) {
                return false;
            }
            if (!whole) {
                CopyParts(tail, parts, core.tokens, chunks, count);
            }
            first += count;
        }
        return true;
    }
}

// ---- Decoding

/// Constants of one chunk of a block. Anchor: x = a * A + b. Full: x = f32((a * I + b) >> 5) * unit.
struct NestedScales {
    alignas(64) float unit[kBlockChannels];
    alignas(64) std::int32_t base[kBlockChannels];
    alignas(64) std::int32_t range[kBlockChannels];
    alignas(64) float anchor_a[kBlockChannels];
    alignas(64) float anchor_b[kBlockChannels];
    alignas(64) std::int32_t full_a[kBlockChannels];
    alignas(64) std::int32_t full_b[kBlockChannels];
};

/// Largest exponent of a channel for which no value can overflow or need saturation: |x| < 2^24 * 2^(e - 10).
template <class E>
inline constexpr std::int32_t kTameExponent = E::kDType == kv::DType::f16 ? 1 : 100;

enum class ChannelWords { bad, tame, wild };

template <class E>
HWY_INLINE ChannelWords ReadChannels(const std::uint8_t* words, std::uint32_t width, NestedScales& s) {
    const DF df;
    const DI di;
    VI smallest = hn::Set(di, kNestedExponentMax);
    VI largest = hn::Set(di, kNestedExponentMin);
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        const VI word = hn::BitCast(di, hn::LoadU(DBytes(), words + std::size_t{c} * 4));
        const VI e = hn::ShiftRight<24>(word);
        smallest = hn::Min(smallest, e);
        largest = hn::Max(largest, e);
        hn::Store(PowerOfTwo(hn::Sub(e, hn::Set(di, 10))), df, s.unit + c);
        hn::Store(hn::ShiftRight<19>(hn::ShiftLeft<19>(word)), di, s.base + c);
        hn::Store(hn::And(hn::ShiftRight<13>(word), hn::Set(di, 0x7FF)), di, s.range + c);
    }
    if (!hn::AllFalse(di, hn::Or(hn::Lt(smallest, hn::Set(di, kNestedExponentMin)),
                                 hn::Gt(largest, hn::Set(di, kNestedExponentMax))))) {
        return ChannelWords::bad;
    }
    return hn::AllFalse(di, hn::Gt(largest, hn::Set(di, kTameExponent<E>))) ? ChannelWords::tame : ChannelWords::wild;
}

/// False when a chunk's cells are reversed.
HWY_INLINE bool ReadChunk(const std::uint8_t* lo_bytes, const std::uint8_t* hi_bytes, std::uint32_t width, bool full,
                          bool tame, NestedScales& s) {
    const DF df;
    const DI di;
    const hn::Rebind<std::uint8_t, DF> d8;
    auto reversed = hn::Lt(hn::Zero(di), hn::Zero(di));
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        const VI lo = hn::PromoteTo(di, hn::LoadU(d8, lo_bytes + c));
        const VI hi = hn::PromoteTo(di, hn::LoadU(d8, hi_bytes + c));
        reversed = hn::Or(reversed, hn::Lt(hi, lo));
        const VI base = hn::Load(di, s.base + c);
        const VI range = hn::Load(di, s.range + c);
        const VI span = hn::Mul(range, hn::Add(hn::Sub(hi, lo), hn::Set(di, 1)));
        const VI low = hn::Mul(range, lo);
        if (full) {
            // base * 1024 + ((512 low + span (2I + 1)) >> 5): the base goes under the shift, times 32; below 2^29 in all.
            hn::Store(hn::Add(span, span), di, s.full_a + c);
            hn::Store(hn::Add(hn::Add(hn::ShiftLeft<15>(base), hn::ShiftLeft<9>(low)), span), di, s.full_b + c);
            continue;
        }
        // (512 low + span (32A + 16)) >> 5 = 16 low + span A + (span >> 1), all integers below 2^24: exact in float32, and
        // times a power of two too as long as nothing overflows.
        VF a = hn::ConvertTo(df, span);
        VF b = hn::ConvertTo(df,
                             hn::Add(hn::Add(hn::ShiftLeft<10>(base), hn::ShiftLeft<4>(low)), hn::ShiftRight<1>(span)));
        if (tame) {
            const VF unit = hn::Load(df, s.unit + c);
            a = hn::Mul(a, unit);
            b = hn::Mul(b, unit);
        }
        hn::Store(a, df, s.anchor_a + c);
        hn::Store(b, df, s.anchor_b + c);
    }
    return hn::AllFalse(di, reversed);
}

/// The constants of one vector of channels.
template <class E, bool kFull, bool kTame>
struct LaneScales {
    HWY_INLINE LaneScales(const NestedScales& s, std::uint32_t c) {
        if constexpr (kFull) {
            full_a = hn::Load(DI(), s.full_a + c);
            full_b = hn::Load(DI(), s.full_b + c);
        } else {
            anchor_a = hn::Load(DF(), s.anchor_a + c);
            anchor_b = hn::Load(DF(), s.anchor_b + c);
        }
        unit = hn::Load(DF(), s.unit + c);
    }

    HWY_INLINE RawVec<E> dequantise(const std::uint8_t* index) const {
        const DF df;
        const VI i = hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<std::uint8_t, DF>(), index));
        VF x;
        if constexpr (kFull) {
            x = hn::Mul(hn::ConvertTo(df, hn::ShiftRight<5>(hn::Add(hn::Mul(i, full_a), full_b))), unit);
        } else {
            x = hn::MulAdd(hn::ConvertTo(df, i), anchor_a, anchor_b);
            if constexpr (!kTame) {
                x = hn::Mul(x, unit);
            }
        }
        return FromFloat<E>(kTame ? x : Saturate<E>(x));
    }

    VI full_a;
    VI full_b;
    VF anchor_a;
    VF anchor_b;
    VF unit;
};

/// Indices of `width` channels of a row.
template <bool kFull>
HWY_INLINE void UnpackIndices(const std::uint8_t* anchor, const std::uint8_t* residual, std::uint32_t width,
                              std::uint8_t* index) {
    const DBytes d8;
    const DPairs d16;
    FetchAhead<false>(anchor, width / 2, kPayloadAhead);
    if constexpr (kFull) {
        FetchAhead<false>(residual, width / 2, kPayloadAhead);
    }
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(d8)) {
        VBytes symbols = UnpackNibbles(anchor + c / 2);
        if constexpr (kFull) {
            const VBytes high = hn::BitCast(d8, hn::ShiftLeft<4>(hn::BitCast(d16, symbols)));
            symbols = hn::Or(high, UnpackNibbles(residual + c / 2));
        }
        hn::Store(symbols, d8, index + c);
    }
}

/// kRows rows at a time: the constants are loaded once for all of them.
template <class E, bool kFull, bool kTame, bool kStream, std::uint32_t kRows>
HWY_INLINE void DequantiseRows(const NestedParts& in, const NestedScales& s, std::uint32_t first,
                               const Target<E>& target) {
    const std::uint32_t n = hn::Lanes(DF());
    HWY_ALIGN std::uint8_t index[kRows][kBlockChannels];
    for (std::uint32_t r = 0; r < kRows; ++r) {
        const std::size_t offset = (first + r) * in.row_stride;
        UnpackIndices<kFull>(in.anchor + offset, kFull ? in.residual + offset : nullptr, target.width, index[r]);
    }
    typename E::Raw* dst = target.row(first);
    for (std::uint32_t c = 0; c < target.width; c += 2 * n) {
        const LaneScales<E, kFull, kTame> lower(s, c);
        const LaneScales<E, kFull, kTame> upper(s, c + n);
        for (std::uint32_t r = 0; r < kRows; ++r) {
            StoreElements<E, kStream>(lower.dequantise(index[r] + c), upper.dequantise(index[r] + c + n),
                                      dst + static_cast<std::ptrdiff_t>(r) * target.stride + c);
        }
    }
}

template <class E, bool kFull, bool kTame, bool kStream>
HWY_INLINE void DequantiseChunk(const NestedParts& in, const NestedScales& s, std::uint32_t first, std::uint32_t end,
                                const Target<E>& target) {
    constexpr std::uint32_t kRows = 2;  // more open rows slow streaming stores down
    std::uint32_t t = first;
    for (; t + kRows <= end; t += kRows) {
        DequantiseRows<E, kFull, kTame, kStream, kRows>(in, s, t, target);
    }
    for (; t < end; ++t) {
        DequantiseRows<E, kFull, kTame, kStream, 1>(in, s, t, target);
    }
}

template <class E, bool kFull, bool kTame>
HWY_NOINLINE bool DecodeNestedChunks(const NestedParts& in, std::uint32_t tokens, std::uint32_t chunk_tokens,
                                     NestedScales& s, const Target<E>& target) {
    std::uint32_t first = 0;
    for (std::uint32_t k = 0; first < tokens; ++k) {
        const std::uint32_t end = HWY_MIN(tokens, first + chunk_tokens);
        if (!ReadChunk(in.lo + k * in.chunk_stride, in.hi + k * in.chunk_stride, target.width, kFull, kTame, s)) {
            return false;
        }
        if (target.stream) {
            DequantiseChunk<E, kFull, kTame, true>(in, s, first, end, target);
        } else {
            DequantiseChunk<E, kFull, kTame, false>(in, s, first, end, target);
        }
        first = end;
    }
    return true;
}

template <class E>
HWY_NOINLINE bool DecodeNestedBlock(const NestedParts& in, std::uint32_t tokens, std::uint32_t chunk_tokens,
                                    const Target<E>& target) {
    NestedScales s;
    const ChannelWords words = ReadChannels<E>(in.words, target.width, s);
    if (words == ChannelWords::bad) {
        return false;
    }
    if (in.residual != nullptr) {
        return words == ChannelWords::tame ? DecodeNestedChunks<E, true, true>(in, tokens, chunk_tokens, s, target)
                                           : DecodeNestedChunks<E, true, false>(in, tokens, chunk_tokens, s, target);
    }
    return words == ChannelWords::tame ? DecodeNestedChunks<E, false, true>(in, tokens, chunk_tokens, s, target)
                                       : DecodeNestedChunks<E, false, false>(in, tokens, chunk_tokens, s, target);
}

template <class E>
bool DecodeNested(const NestedPage& page, const kv::View& dst) {
    const std::uint32_t chunks = chunk_count(dst.tokens, page.chunk_tokens);
    std::byte* memory = nullptr;
    for (;;) {
        ScratchLayout layout(memory);
        const Staging<E> staging(layout, dst.tokens);
        NestedParts tail = ScratchParts(layout, dst.tokens, chunks);
        if (memory == nullptr) {
            memory = thread_scratch(layout.bytes());
            continue;
        }
        tail.residual = page.parts.residual == nullptr ? nullptr : tail.residual;
        bool streamed = false;
        for (std::uint32_t first = 0; first < dst.channels;) {
            const std::uint32_t count = BlockChannels(dst, first);
            const Target<E> target = staging.target(dst, first, count);
            NestedParts parts = PartsFrom(page.parts, first);
            if (count != target.width) {
                std::memset(tail.words, 0, std::size_t{kGroupChannels} * 4);
                std::memset(tail.lo, 0, chunks * tail.chunk_stride);
                std::memset(tail.hi, 0, chunks * tail.chunk_stride);
                CopyParts(parts, tail, dst.tokens, chunks, count);
                parts = tail;
            }
            if (!DecodeNestedBlock<E>(parts, dst.tokens, page.chunk_tokens, target)) {
                return false;
            }
            staging.store(target, dst, first, count);
            streamed = streamed || target.stream;
            first += count;
        }
        if (streamed) {
            hwy::FlushStream();
        }
        return true;
    }
}

bool EncodeNestedPage(const kv::ConstView& core, const NestedPage& page) {
    switch (core.dtype) {
        case kv::DType::f16: return EncodeNested<F16>(core, page);
        case kv::DType::bf16: return EncodeNested<BF16>(core, page);
        case kv::DType::f32: return EncodeNested<F32>(core, page);
    }
    return false;
}

bool DecodeNestedPage(const NestedPage& page, const kv::View& dst) {
    switch (dst.dtype) {
        case kv::DType::f16: return DecodeNested<F16>(page, dst);
        case kv::DType::bf16: return DecodeNested<BF16>(page, dst);
        case kv::DType::f32: return DecodeNested<F32>(page, dst);
    }
    return false;
}

const NestedKernels* kernels_of_target() {
    static constexpr NestedKernels kKernels{EncodeNestedPage, DecodeNestedPage};
    return &kKernels;
}

#endif

}  // namespace lynx::codec::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lynx::codec::simd {
namespace {

HWY_EXPORT(kernels_of_target);

class SimdNested44 final : public KernelCoder {
public:
    SimdNested44(std::unique_ptr<PageCoder> reference, const CodecParams& params, const NestedKernels& kernels)
        : KernelCoder(std::move(reference)), chunk_tokens_(params.chunk_tokens), kernels_(kernels) {}

    [[nodiscard]] bool encode_checked(kv::ConstView core, const PageContext& /*context*/,
                                      std::span<std::span<std::byte>> bodies) const override {
        return kernels_.encode(core, page({core.tokens, core.channels}, bodies[0].data(), bodies[1].data()));
    }

private:
    [[nodiscard]] bool decode_by_kernel(std::span<const base::ByteView> bodies, kv::View dst) const override {
        // The kernels' one struct of parts serves both directions; decoding only reads them.
        auto* anchor = const_cast<std::byte*>(bodies[0].data());
        auto* residual = bodies.size() > 1 ? const_cast<std::byte*>(bodies[1].data()) : nullptr;
        return kernels_.decode(page({dst.tokens, dst.channels}, anchor, residual), dst);
    }

    [[nodiscard]] NestedPage page(CoreShape s, std::byte* anchor, std::byte* residual) const noexcept {
        const std::size_t chunks = chunk_count(s.tokens, chunk_tokens_);
        auto* p = reinterpret_cast<std::uint8_t*>(anchor);
        const std::size_t lo = std::size_t{s.channels} * 4;
        const std::size_t hi = lo + chunks * s.channels;
        return {.chunk_tokens = chunk_tokens_,
                .parts = {.words = p,
                          .lo = p + lo,
                          .hi = p + hi,
                          .anchor = p + hi + chunks * s.channels,
                          .residual = reinterpret_cast<std::uint8_t*>(residual),
                          .chunk_stride = s.channels,
                          .row_stride = nibble_row_bytes(s.channels)}};
    }

    std::uint32_t chunk_tokens_;
    const NestedKernels& kernels_;
};

}  // namespace

std::unique_ptr<PageCoder> nested44_on_target(std::unique_ptr<PageCoder> reference, const CodecParams& params,
                                              std::int64_t target) {
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    const NestedKernels* kernels = HWY_DISPATCH_TABLE(kernels_of_target)[chosen.GetIndex()]();
    if (kernels == nullptr) {
        return reference;
    }
    return std::make_unique<SimdNested44>(std::move(reference), params, *kernels);
}

}  // namespace lynx::codec::simd

#endif  // HWY_ONCE
