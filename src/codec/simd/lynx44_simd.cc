// lynx44 in lanes. Decoding looks magnitudes up byte by byte: a float32 table of 16 entries is four shuffles of 16 bytes, and
// the one of 128 levels eight times that, which is still faster than gathering; AVX3_DL permutes all 128 at once.
#include "codec/simd/lynx44_simd.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "codec/math/alpha_math.h"
#include "codec/ref/alpha_law.h"
#include "codec/simd/kernel_coder.h"
#include "codec/simd/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/simd/lynx44_simd.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "codec/simd/blocks-inl.h"
#include "codec/simd/lanes-inl.h"

#ifndef LYNX_CODEC_SIMD_LYNX44_ONCE
#define LYNX_CODEC_SIMD_LYNX44_ONCE
namespace lynx::codec::simd {

inline constexpr std::uint32_t kCentroids = 8;
inline constexpr std::uint32_t kLevels = 128;  // 120, rounded up for tables

/// Where a page's lynx44 bodies have their parts (FORMAT, "Alpha metadata"), for a block of its channels.
struct AlphaParts {
    const std::uint8_t* gamma_min;    // [width]
    const std::uint8_t* gamma_scale;  // [width]
    const std::uint8_t* mu;           // [chunks][chunk_stride]
    const std::uint8_t* sigma;        // the same
    const std::uint8_t* anchor;       // nibbles [tokens][row_stride bytes]
    const std::uint8_t* residual;     // the same; null when decoding an anchor
    std::size_t chunk_stride;         // in elements
    std::size_t row_stride;
};

struct AlphaPage {
    MetaFormat format;
    std::uint32_t chunk_tokens;
    AlphaMetaLayout layout;
    AlphaParts parts;
    const std::uint8_t* table;        // u16 [kCentroids]
    const std::uint8_t* level_bytes;  // [4][kLevels]: byte p of the magnitude of each level
};

/// The level of a magnitude a, estimated: level + 1/2 = (e + p(m)) * scale + 1/2, with 1 + alpha a = 2^e m. In units of 2^-13;
/// within `doubt` of a whole number the decision thresholds are asked.
struct LevelEstimate {
    float alpha;
    float scale;
    std::int32_t doubt;
    const float* thresholds;  // [kAlphaLevelsMax + 1]
};

struct AlphaEncoding {
    MetaFormat format;
    std::uint32_t chunk_tokens;
    AlphaMetaLayout layout;
    LevelEstimate levels;
    std::byte* meta;
    std::uint8_t* anchor;    // nibbles [tokens][row_stride bytes]
    std::uint8_t* residual;  // the same
    std::size_t row_stride;
    std::uint64_t* sums;    // [kCentroids]: of the magnitudes whose V is at least v, in 2^-24
    std::uint64_t* counts;  // [kCentroids]: how many those are
};

struct AlphaKernels {
    bool (*encode)(const kv::ConstView& core, const AlphaEncoding& page);  ///< false: a NaN or an infinity
    bool (*decode)(const AlphaPage& page, const kv::View& dst);            ///< false: not what an encoder writes
};

}  // namespace lynx::codec::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace lynx::codec::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

const AlphaKernels* alpha_kernels_of_target() { return nullptr; }  // the scalar backend is the fallback

#else

/// Per channel of a block, for one chunk: x = center + spread * t.
struct AlphaScales {
    alignas(64) float gamma_min[kBlockChannels];
    alignas(64) float gamma_scale[kBlockChannels];
    alignas(64) float center[kBlockChannels];
    alignas(64) float spread[kBlockChannels];
};

/// A vector of stored numbers; whether any of them was an infinity or NaN goes into `bad`.
HWY_INLINE VF LoadStored(MetaFormat format, const std::uint8_t* array, std::size_t index, bool gamma,
                         hn::Vec<DU>& bad) {
    const DF df;
    const DU du;
    if (format == MetaFormat::f32) {
        const VU bits = hn::BitCast(du, hn::LoadU(DBytes(), array + index * 4));
        const VU exponent = hn::Set(du, 0x7F800000U);
        bad = hn::Or(bad, hn::VecFromMask(du, hn::Eq(hn::And(bits, exponent), exponent)));
        return hn::BitCast(df, bits);
    }
    if (gamma || format == MetaFormat::f16) {
        const hn::Repartition<std::uint8_t, RawTag<F16>> bytes;
        const auto raw = hn::BitCast(RawTag<F16>(), hn::LoadU(bytes, array + index * 2));
        const VU exponent = hn::Set(du, 0x7C00U);
        bad = hn::Or(bad, hn::VecFromMask(du, hn::Eq(hn::And(hn::PromoteTo(du, raw), exponent), exponent)));
        return ToFloat<F16>(raw);
    }
    const hn::Rebind<std::uint8_t, DF> d8;
    return hn::Div(hn::ConvertTo(df, hn::PromoteTo(DI(), hn::LoadU(d8, array + index))), hn::Set(df, 255.0F));
}

/// False when a gamma is not finite or a scale is negative.
HWY_INLINE bool ReadGammas(const AlphaPage& page, const AlphaParts& in, std::uint32_t width, AlphaScales& s) {
    const DF df;
    const DU du;
    VU bad = hn::Zero(du);
    auto negative = hn::Lt(hn::Zero(df), hn::Zero(df));
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        VF scale = LoadStored(page.format, in.gamma_scale, c, true, bad);
        scale = page.format == MetaFormat::f32 ? scale : hn::Add(scale, scale);
        negative = hn::Or(negative, hn::Lt(scale, hn::Zero(df)));
        hn::Store(LoadStored(page.format, in.gamma_min, c, true, bad), df, s.gamma_min + c);
        hn::Store(scale, df, s.gamma_scale + c);
    }
    return hn::AllTrue(du, hn::Eq(bad, hn::Zero(du))) && hn::AllFalse(df, negative);
}

enum class AlphaChunkKind { bad, tame, wild };

/// The constants of one chunk. Tame: no value can pass the dtype's largest.
template <class E>
HWY_INLINE AlphaChunkKind ReadAlphaChunk(const AlphaPage& page, const AlphaParts& in, std::uint32_t chunk,
                                         std::uint32_t width, AlphaScales& s) {
    const DF df;
    const DU du;
    const VF limit = hn::Set(df, E::kMax * 0.5F);
    VU bad = hn::Zero(du);
    auto negative = hn::Lt(hn::Zero(df), hn::Zero(df));
    auto tame = hn::Eq(hn::Zero(df), hn::Zero(df));
    const std::size_t row = chunk * in.chunk_stride;
    FetchAhead<false>(in.mu + row * page.layout.chunk_bytes, width * page.layout.chunk_bytes, kPayloadAhead);
    FetchAhead<false>(in.sigma + row * page.layout.chunk_bytes, width * page.layout.chunk_bytes, kPayloadAhead);
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        const std::size_t at = row + c;
        const VF mu = LoadStored(page.format, in.mu, at, false, bad);
        const VF sigma = LoadStored(page.format, in.sigma, at, false, bad);
        negative = hn::Or(negative, hn::Lt(sigma, hn::Zero(df)));
        const VF scale = hn::Load(df, s.gamma_scale + c);
        const VF center = hn::Add(hn::Load(df, s.gamma_min + c), hn::Mul(scale, mu));
        const VF spread = hn::Mul(scale, sigma);
        tame = hn::And(tame, hn::Lt(hn::Add(hn::Abs(center), spread), limit));  // |t| <= 1; never for a NaN
        hn::Store(center, df, s.center + c);
        hn::Store(spread, df, s.spread + c);
    }
    if (!hn::AllTrue(du, hn::Eq(bad, hn::Zero(du))) || !hn::AllFalse(df, negative)) {
        return AlphaChunkKind::bad;
    }
    return hn::AllTrue(df, tame) ? AlphaChunkKind::tame : AlphaChunkKind::wild;
}

/// Bytes so ordered that interleaving them within 128-bit blocks, twice, gives float32 vectors in order: dword s * blocks + k
/// goes to place s of block k.
HWY_INLINE VBytes SpreadOverBlocks(VBytes x) {
#if HWY_TARGET == HWY_AVX2
    return VBytes{_mm256_permutevar8x32_epi32(x.raw, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7))};
#elif HWY_TARGET <= HWY_AVX3
    return VBytes{
        _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), x.raw)};
#else

    return x;
#endif
}

/// Float32 vectors from their bytes, lowest first, spread over blocks.
struct FourVectors {
    HWY_INLINE FourVectors(VBytes b0, VBytes b1, VBytes b2, VBytes b3) {
        const DBytes d8;
        const DPairs d16;
        const DF df;
        const auto low_01 = hn::BitCast(d16, hn::InterleaveLower(d8, b0, b1));
        const auto high_01 = hn::BitCast(d16, hn::InterleaveUpper(d8, b0, b1));
        const auto low_23 = hn::BitCast(d16, hn::InterleaveLower(d8, b2, b3));
        const auto high_23 = hn::BitCast(d16, hn::InterleaveUpper(d8, b2, b3));
        v[0] = hn::BitCast(df, hn::InterleaveLower(d16, low_01, low_23));
        v[1] = hn::BitCast(df, hn::InterleaveUpper(d16, low_01, low_23));
        v[2] = hn::BitCast(df, hn::InterleaveLower(d16, high_01, high_23));
        v[3] = hn::BitCast(df, hn::InterleaveUpper(d16, high_01, high_23));
    }
    VF v[4];
};

/// The anchor value of each of the 16 symbols, as tables of bytes. A centroid has 16 significant bits, so the lowest byte of
/// its float32 is 0.
struct AnchorTables {
    explicit AnchorTables(const std::uint8_t* centroids) {
        for (std::uint32_t symbol = 0; symbol < 16; ++symbol) {
            std::uint16_t centroid = 0;
            std::memcpy(&centroid, centroids + (symbol < 8 ? symbol : 15 - symbol) * sizeof centroid, sizeof centroid);
            const float a = centroid_magnitude(centroid);
            std::uint32_t bits = 0;
            std::memcpy(&bits, &a, sizeof bits);
            bits |= symbol < 8 ? 0U : 0x80000000U;
            for (std::uint32_t p = 1; p < 4; ++p) {
                byte[p][symbol] = static_cast<std::uint8_t>(bits >> (8 * p));
            }
        }
    }

    HWY_INLINE FourVectors values(const std::uint8_t* anchor) const {
        const DBytes d8;
        const VBytes symbols = SpreadOverBlocks(UnpackNibbles(anchor));
        return {hn::Zero(d8), hn::TableLookupBytes(hn::LoadDup128(d8, byte[1]), symbols),
                hn::TableLookupBytes(hn::LoadDup128(d8, byte[2]), symbols),
                hn::TableLookupBytes(hn::LoadDup128(d8, byte[3]), symbols)};
    }

    alignas(16) std::uint8_t byte[4][16] = {};
};

/// Looks up the magnitudes of levels 0..127, byte by byte.
#if HWY_TARGET <= HWY_AVX3_DL
class LevelTables {
public:
    HWY_INLINE explicit LevelTables(const std::uint8_t* bytes) {
        for (std::uint32_t p = 0; p < 4; ++p) {
            low_[p] = hn::LoadU(DBytes(), bytes + p * kLevels);
            high_[p] = hn::LoadU(DBytes(), bytes + p * kLevels + kLevels / 2);
        }
    }
    HWY_INLINE FourVectors magnitudes(VBytes level, VBytes sign) const {
        return {byte(0, level), byte(1, level), byte(2, level), hn::Or(sign, byte(3, level))};
    }

private:
    HWY_INLINE VBytes byte(std::uint32_t p, VBytes level) const {
        return VBytes{_mm512_permutex2var_epi8(low_[p].raw, level.raw, high_[p].raw)};
    }
    VBytes low_[4];
    VBytes high_[4];
};
#else
class LevelTables {
public:
    HWY_INLINE explicit LevelTables(const std::uint8_t* bytes) : bytes_(bytes) {}
    HWY_INLINE FourVectors magnitudes(VBytes level, VBytes sign) const {
        const DBytes d8;
        VBytes index[kTables];
        for (std::uint32_t k = 0; k < kTables; ++k) {
            // The table's own 16 levels become 0x70..0x7F, any other has its top bit set and looks up 0.
            index[k] = hn::Add(hn::Xor(level, hn::Set(d8, static_cast<std::uint8_t>(16 * k))),
                               hn::Set(d8, std::uint8_t{0x70}));
        }
        return {byte(0, index), byte(1, index), byte(2, index), hn::Or(sign, byte(3, index))};
    }

private:
    static constexpr std::uint32_t kTables = kLevels / 16;

    HWY_INLINE VBytes byte(std::uint32_t p, const VBytes (&index)[kTables]) const {
        const DBytes d8;
        const std::uint8_t* tables = bytes_ + p * kLevels;
        VBytes r = hn::TableLookupBytesOr0(hn::LoadDup128(d8, tables), index[0]);
        for (std::uint32_t k = 1; k < kTables; ++k) {
            r = hn::Or(r, hn::TableLookupBytesOr0(hn::LoadDup128(d8, tables + 16 * k), index[k]));
        }
        return r;
    }
    const std::uint8_t* bytes_;
};
#endif

/// Signed magnitudes of pairs of symbols. A pair that stands for no level sets a top bit in `bad`.
HWY_INLINE FourVectors FullValues(const std::uint8_t* anchor, const std::uint8_t* residual, const LevelTables& tables,
                                  VBytes& bad) {
    const DBytes d8;
    const DPairs d16;
    const hn::RebindToSigned<DBytes> ds8;
    const VBytes eight = hn::Set(d8, std::uint8_t{8});
    const VBytes q_anc = UnpackNibbles(anchor);
    const VBytes q_res = UnpackNibbles(residual);
    const VBytes negative =
        hn::BitCast(d8, hn::VecFromMask(ds8, hn::Gt(hn::BitCast(ds8, q_anc), hn::Set(ds8, std::int8_t{7}))));
    const VBytes v = hn::Xor(q_anc, hn::And(negative, hn::Set(d8, std::uint8_t{15})));
    const VBytes v16 = hn::BitCast(d8, hn::ShiftLeft<4>(hn::BitCast(d16, v)));
    // 16 V - Q_res is -7..120: negative, so with the top bit set, is no level.
    const VBytes level = hn::Sub(hn::Add(v16, eight), hn::Xor(q_res, eight));
    bad = hn::Or(bad, level);

    const VBytes sign = hn::And(SpreadOverBlocks(negative), hn::Set(d8, std::uint8_t{0x80}));
    return tables.magnitudes(SpreadOverBlocks(level), sign);
}

template <class E, bool kTame>
HWY_INLINE RawVec<E> FromMagnitudes(VF t, const AlphaScales& s, std::uint32_t c) {
    const DF df;
    const VF x = hn::Add(hn::Load(df, s.center + c), hn::Mul(hn::Load(df, s.spread + c), t));
    return FromFloat<E>(kTame ? x : Saturate<E>(x));
}

/// False when a pair of symbols stands for no level.
template <class E, bool kFull, bool kTame, bool kStream>
HWY_INLINE bool AlphaRows(const AlphaPage& page, const AlphaParts& in, const AnchorTables& tables, const AlphaScales& s,
                          std::uint32_t first, std::uint32_t end, const Target<E>& target) {
    const DBytes d8;
    const std::uint32_t n = hn::Lanes(DF());
    const LevelTables levels(page.level_bytes);
    VBytes bad = hn::Zero(d8);
    for (std::uint32_t t = first; t < end; ++t) {
        const std::uint8_t* anchor = in.anchor + t * in.row_stride;
        const std::uint8_t* residual = kFull ? in.residual + t * in.row_stride : nullptr;
        FetchAhead<false>(anchor, target.width / 2, kPayloadAhead);
        if constexpr (kFull) {
            FetchAhead<false>(residual, target.width / 2, kPayloadAhead);
        }
        typename E::Raw* dst = target.row(t);
        for (std::uint32_t c = 0; c < target.width; c += 4 * n) {
            const FourVectors a =
                kFull ? FullValues(anchor + c / 2, residual + c / 2, levels, bad) : tables.values(anchor + c / 2);
            StoreElements<E, kStream>(FromMagnitudes<E, kTame>(a.v[0], s, c),
                                      FromMagnitudes<E, kTame>(a.v[1], s, c + n), dst + c);
            StoreElements<E, kStream>(FromMagnitudes<E, kTame>(a.v[2], s, c + 2 * n),
                                      FromMagnitudes<E, kTame>(a.v[3], s, c + 3 * n), dst + c + 2 * n);
        }
    }
    const hn::RebindToSigned<DBytes> ds8;
    return hn::AllFalse(ds8, hn::Lt(hn::BitCast(ds8, bad), hn::Zero(ds8)));
}

template <class E, bool kFull, bool kTame>
HWY_NOINLINE bool AlphaChunkRows(const AlphaPage& page, const AlphaParts& in, const AnchorTables& tables,
                                 const AlphaScales& s, std::uint32_t first, std::uint32_t end,
                                 const Target<E>& target) {
    return target.stream ? AlphaRows<E, kFull, kTame, true>(page, in, tables, s, first, end, target)
                         : AlphaRows<E, kFull, kTame, false>(page, in, tables, s, first, end, target);
}

template <class E>
HWY_NOINLINE bool DecodeAlphaBlock(const AlphaPage& page, const AlphaParts& in, std::uint32_t tokens,
                                   const AnchorTables& tables, const Target<E>& target) {
    AlphaScales s;
    if (!ReadGammas(page, in, target.width, s)) {
        return false;
    }
    std::uint32_t first = 0;
    for (std::uint32_t k = 0; first < tokens; ++k) {
        const std::uint32_t end = HWY_MIN(tokens, first + page.chunk_tokens);
        const AlphaChunkKind kind = ReadAlphaChunk<E>(page, in, k, target.width, s);
        if (kind == AlphaChunkKind::bad) {
            return false;
        }
        bool good = false;
        if (in.residual != nullptr) {
            good = kind == AlphaChunkKind::tame
                       ? AlphaChunkRows<E, true, true>(page, in, tables, s, first, end, target)
                       : AlphaChunkRows<E, true, false>(page, in, tables, s, first, end, target);
        } else {
            good = kind == AlphaChunkKind::tame
                       ? AlphaChunkRows<E, false, true>(page, in, tables, s, first, end, target)
                       : AlphaChunkRows<E, false, false>(page, in, tables, s, first, end, target);
        }
        if (!good) {
            return false;
        }
        first = end;
    }
    return true;
}

/// The parts of a page for its channels from `first` on.
HWY_INLINE AlphaParts AlphaPartsFrom(const AlphaPage& page, std::uint32_t first) {
    AlphaParts p = page.parts;
    p.gamma_min += first * page.layout.gamma_bytes;
    p.gamma_scale += first * page.layout.gamma_bytes;
    p.mu += first * page.layout.chunk_bytes;
    p.sigma += first * page.layout.chunk_bytes;
    p.anchor += first / 2;
    p.residual = p.residual == nullptr ? nullptr : p.residual + first / 2;
    return p;
}

/// Scratch copies of the parts of a last block of fewer than kGroupChannels channels, padded with zeros.
class AlphaTail {
public:
    AlphaTail(ScratchLayout& layout, std::uint32_t tokens, std::uint32_t chunks) : tokens_(tokens), chunks_(chunks) {
        for (std::uint8_t*& array : gamma_) {
            array = layout.array<std::uint8_t>(std::size_t{kGroupChannels} * sizeof(float));
        }
        for (std::uint8_t*& array : chunk_) {
            array = layout.array<std::uint8_t>(std::size_t{chunks} * kGroupChannels * sizeof(float));
        }
        for (std::uint8_t*& array : rows_) {
            array = layout.array<std::uint8_t>(std::size_t{tokens} * kRowBytes);
        }
    }

    [[nodiscard]] AlphaParts copy(const AlphaPage& page, const AlphaParts& from, std::uint32_t channels) const {
        const std::size_t gamma_bytes = page.layout.gamma_bytes;
        const std::size_t chunk_bytes = page.layout.chunk_bytes;
        Copy(from.gamma_min, 0, gamma_[0], 0, 1, channels * gamma_bytes, kGroupChannels * gamma_bytes);
        Copy(from.gamma_scale, 0, gamma_[1], 0, 1, channels * gamma_bytes, kGroupChannels * gamma_bytes);
        const std::size_t stride = from.chunk_stride * chunk_bytes;
        const std::size_t padded = kGroupChannels * chunk_bytes;
        Copy(from.mu, stride, chunk_[0], padded, chunks_, channels * chunk_bytes, padded);
        Copy(from.sigma, stride, chunk_[1], padded, chunks_, channels * chunk_bytes, padded);
        Copy(from.anchor, from.row_stride, rows_[0], kRowBytes, tokens_, nibble_row_bytes(channels), kRowBytes);
        if (from.residual != nullptr) {
            Copy(from.residual, from.row_stride, rows_[1], kRowBytes, tokens_, nibble_row_bytes(channels), kRowBytes);
        }
        return {gamma_[0],      gamma_[1], chunk_[0],
                chunk_[1],      rows_[0],  from.residual == nullptr ? nullptr : rows_[1],
                kGroupChannels, kRowBytes};
    }

private:
    static constexpr std::size_t kRowBytes = kGroupChannels / 2;

    HWY_INLINE static void Copy(const std::uint8_t* from, std::size_t from_stride, std::uint8_t* to,
                                std::size_t to_stride, std::uint32_t rows, std::size_t bytes, std::size_t padded) {
        for (std::uint32_t r = 0; r < rows; ++r) {
            std::memcpy(to + r * to_stride, from + r * from_stride, bytes);
            std::memset(to + r * to_stride + bytes, 0, padded - bytes);
        }
    }

    std::uint32_t tokens_;
    std::uint32_t chunks_;
    std::uint8_t* gamma_[2];
    std::uint8_t* chunk_[2];
    std::uint8_t* rows_[2];
};

template <class E>
bool DecodeAlpha(const AlphaPage& page, const kv::View& dst) {
    const AnchorTables tables(page.table);
    std::byte* memory = nullptr;
    for (;;) {
        ScratchLayout layout(memory);
        const Staging<E> staging(layout, dst.tokens);
        const AlphaTail tail(layout, dst.tokens, chunk_count(dst.tokens, page.chunk_tokens));
        if (memory == nullptr) {
            memory = thread_scratch(layout.bytes());
            continue;
        }
        bool streamed = false;
        for (std::uint32_t first = 0; first < dst.channels;) {
            const std::uint32_t count = BlockChannels(dst, first);
            const Target<E> target = staging.target(dst, first, count);
            AlphaParts parts = AlphaPartsFrom(page, first);
            if (count != target.width) {
                parts = tail.copy(page, parts, count);
            }
            if (!DecodeAlphaBlock<E>(page, parts, dst.tokens, tables, target)) {
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

bool DecodeAlphaPage(const AlphaPage& page, const kv::View& dst) {
    switch (dst.dtype) {
        case kv::DType::f16: return DecodeAlpha<F16>(page, dst);
        case kv::DType::bf16: return DecodeAlpha<BF16>(page, dst);
        case kv::DType::f32: return DecodeAlpha<F32>(page, dst);
    }
    return false;
}

// ---- Encoding

using DD = hn::Repartition<double, DF>;
using VD = hn::Vec<DD>;

/// The center of a channel in which nothing is spread: the difference is positive, so that the zero that t becomes is, too.
inline constexpr double kBelowEverything = -0x1p1000;

/// What the first pass leaves for the second, per channel of a block.
struct AlphaChannels {
    AlphaChannels(ScratchLayout& layout, std::uint32_t chunks, std::uint32_t width)
        : stride(width),
          sums(layout.array<double>(std::size_t{chunks} * width)),
          gamma_min(layout.array<double>(width)),
          gamma_scale(layout.array<double>(width)),
          min(layout.array<float>(width)),
          max(layout.array<float>(width)),
          center(layout.array<double>(width)),
          inverse_spread(layout.array<double>(width)) {}
    std::size_t stride;
    double* sums;  // [chunks][stride], of a chunk's elements in token order
    double* gamma_min;
    double* gamma_scale;
    float* min;              // of the chunk at hand
    float* max;              // of the chunk at hand
    double* center;          // of the chunk at hand
    double* inverse_spread;  // of the chunk at hand
};

/// Sums of a block's chunks. Every channel is added up in token order.
template <class E>
HWY_NOINLINE void SumChunks(const Block<E>& block, std::uint32_t chunk_tokens, const AlphaChannels& out) {
    const DF df;
    const DD dd;
    const hn::Half<DF> half;
    const std::uint32_t n = hn::Lanes(df);
    for (std::uint32_t t = 0; t < block.tokens; ++t) {
        const std::uint32_t k = t / chunk_tokens;
        const bool start = t % chunk_tokens == 0;
        double* sums = out.sums + k * out.stride;
        const typename E::Raw* src = block.row(t);
        for (std::uint32_t c = 0; c < block.width; c += n) {
            const VF x = LoadFloat<E>(src + c);
            VD lower = hn::PromoteTo(dd, hn::LowerHalf(half, x));
            VD upper = hn::PromoteTo(dd, hn::UpperHalf(half, x));
            if (!start) {
                lower = hn::Add(hn::Load(dd, sums + c), lower);
                upper = hn::Add(hn::Load(dd, sums + c + n / 2), upper);
            }
            hn::Store(lower, dd, sums + c);
            hn::Store(upper, dd, sums + c + n / 2);
        }
    }
}

template <class E>
HWY_INLINE float OrderedValue(typename E::Ordered ordered) {
    const hn::CappedTag<typename E::Ordered, 1> d;
    const auto raw = static_cast<typename E::Raw>(hn::GetLane(FlipOrder(d, hn::Set(d, ordered))));
    if constexpr (E::kDType == kv::DType::f32) {
        float x = 0;
        std::memcpy(&x, &raw, sizeof x);
        return x;
    } else {
        return E::kDType == kv::DType::f16 ? base::f16_to_f32(raw) : base::bf16_to_f32(raw);
    }
}

/// An extreme of rows first..end-1. The reference's is the first of equal ones, and +0 equals -0.
template <class E>
HWY_INLINE float FirstExtreme(const Block<E>& block, std::uint32_t first, std::uint32_t end, std::uint32_t c,
                              typename E::Ordered ordered) {
    const float x = OrderedValue<E>(ordered);
    if (HWY_LIKELY(x != 0.0F)) {
        return x;
    }
    constexpr auto kSign = static_cast<typename E::Raw>(typename E::Raw{1} << (sizeof(typename E::Raw) * 8 - 1));
    for (std::uint32_t t = first; t < end; ++t) {
        typename E::Raw raw = 0;
        std::memcpy(&raw, block.row(t) + c, sizeof raw);
        if (raw == 0 || raw == kSign) {
            return raw == 0 ? 0.0F : -0.0F;
        }
    }
    return x;
}

/// The extremes of rows first..end-1 as floats, for `count` channels; zero beyond.
template <class E>
HWY_INLINE void ChunkExtremes(const Block<E>& block, std::uint32_t first, std::uint32_t end, std::uint32_t count,
                              const typename E::Ordered* min, const typename E::Ordered* max,
                              const AlphaChannels& out) {
    const DF df;
    const OrderedTag<E> d;
    for (std::uint32_t c = 0; c < block.width; c += hn::Lanes(df)) {
        const VF low = OrderedToFloat<E>(hn::Load(d, min + c));
        const VF high = OrderedToFloat<E>(hn::Load(d, max + c));
        hn::Store(low, df, out.min + c);
        hn::Store(high, df, out.max + c);
        if (HWY_UNLIKELY(!hn::AllFalse(df, hn::Or(hn::Eq(low, hn::Zero(df)), hn::Eq(high, hn::Zero(df)))))) {
            for (std::uint32_t i = c; i < HWY_MIN(count, c + static_cast<std::uint32_t>(hn::Lanes(df))); ++i) {
                out.min[i] = FirstExtreme(block, first, end, i, min[i]);
                out.max[i] = FirstExtreme(block, first, end, i, max[i]);
            }
        }
    }
}

HWY_INLINE VD Larger(VD a, VD b) { return hn::IfThenElse(hn::Lt(a, b), b, a); }

/// put_alpha_chunk with float32 metadata, of math/alpha_math.h, for whole vectors of channels.
HWY_INLINE void PutChunkF32(std::byte* mu_row, std::byte* sigma_row, const double* sums, std::uint32_t rows,
                            std::uint32_t channels, const AlphaChannels& out) {
    const DD dd;
    const hn::Half<DF> half;
    const hn::Repartition<std::uint8_t, decltype(half)> bytes;
    const VD zero = hn::Zero(dd);
    const VD one = hn::Set(dd, 1.0);
    const VD largest = hn::Set(dd, static_cast<double>(kF32Max));
    for (std::uint32_t c = 0; c < channels; c += hn::Lanes(dd)) {
        const VD gamma_min = hn::Load(dd, out.gamma_min + c);
        const VD gamma_scale = hn::Load(dd, out.gamma_scale + c);
        const VD max = hn::PromoteTo(dd, hn::Load(half, out.max + c));
        const VD min = hn::PromoteTo(dd, hn::Load(half, out.min + c));
        const VD per_scale = hn::IfThenElseZero(hn::Gt(gamma_scale, zero), hn::Div(one, gamma_scale));
        const VD mean = hn::Div(hn::Load(dd, sums + c), hn::Set(dd, static_cast<double>(rows)));
        const VD mu = hn::Mul(hn::Sub(mean, gamma_min), per_scale);
        const VD top = hn::Mul(hn::Sub(max, gamma_min), per_scale);
        const VD bottom = hn::Mul(hn::Sub(min, gamma_min), per_scale);
        const VD sigma = Larger(Larger(hn::Sub(top, mu), hn::Sub(mu, bottom)), zero);
        // limited() of scalar_math.h; neither is a NaN.
        const VD mu_low = hn::IfThenElse(hn::Lt(mu, hn::Neg(largest)), hn::Neg(largest), mu);
        const VD mu_limited = hn::IfThenElse(hn::Lt(largest, mu_low), largest, mu_low);
        const VD sigma_limited = hn::IfThenElse(hn::Lt(largest, sigma), largest, sigma);
        hn::StoreU(hn::BitCast(bytes, hn::DemoteTo(half, mu_limited)), bytes,
                   reinterpret_cast<std::uint8_t*>(mu_row) + std::size_t{c} * sizeof(float));
        hn::StoreU(hn::BitCast(bytes, hn::DemoteTo(half, sigma_limited)), bytes,
                   reinterpret_cast<std::uint8_t*>(sigma_row) + std::size_t{c} * sizeof(float));
        const VD spread = hn::Mul(gamma_scale, hn::Add(sigma, hn::Set(dd, kAlphaEpsilon)));
        const auto spread_out = hn::Gt(spread, zero);
        const VD center = hn::Add(gamma_min, hn::Mul(mu, gamma_scale));
        hn::Store(hn::IfThenElse(spread_out, center, hn::Set(dd, kBelowEverything)), dd, out.center + c);
        hn::Store(hn::IfThenElseZero(spread_out, hn::Div(one, spread)), dd, out.inverse_spread + c);
    }
}

/// Stores a chunk's metadata and leaves the normalisation of its elements in `out`.
HWY_NOINLINE void PutAlphaChunk(const AlphaEncoding& page, std::uint32_t chunk, std::uint32_t first_channel,
                                std::uint32_t count, std::uint32_t rows, const AlphaChannels& out) {
    const std::size_t channels_of_page = page.layout.gamma_scale / page.layout.gamma_bytes;
    const std::size_t at = chunk * channels_of_page + first_channel;
    const double* sums = out.sums + chunk * out.stride;
    std::uint32_t c = 0;
    if (page.format == MetaFormat::f32) {
        c = count / kGroupChannels * kGroupChannels;
        PutChunkF32(page.meta + page.layout.mu + at * sizeof(float), page.meta + page.layout.sigma + at * sizeof(float),
                    sums, rows, c, out);
    }
    for (; c < count; ++c) {
        const AlphaNormaliser n =
            put_alpha_chunk(page.format, page.layout, page.meta, at + c, {out.gamma_min[c], out.gamma_scale[c]},
                            {out.min[c], out.max[c], sums[c], rows});
        out.center[c] = n.inverse_spread > 0 ? n.center : kBelowEverything;
        out.inverse_spread[c] = n.inverse_spread;
    }
}

struct ElementBatch {
    static constexpr std::uint32_t kElements = 512;
    alignas(64) std::uint32_t fixed[kElements];  // magnitudes in 2^-24
    alignas(64) std::uint8_t levels[kElements];  // level, and 0x80 for a negative element
};

/// Levels of magnitudes 0..1 as a vector of integers.
HWY_INLINE VI LevelsOf(VF a, const LevelEstimate& e) {
    const DF df;
    const DI di;
    constexpr int kFractionBits = 13;
    const VI one = hn::Set(di, 0x3F800000);
    const VI bits = hn::BitCast(di, hn::MulAdd(a, hn::Set(df, e.alpha), hn::Set(df, 1.0F)));
    const VF exponent = hn::ConvertTo(df, hn::ShiftRight<23>(hn::Sub(bits, one)));
    const VI mantissa = hn::Or(hn::And(bits, hn::Set(di, 0x7FFFFF)), one);
    const VF u = hn::Sub(hn::BitCast(df, mantissa), hn::Set(df, 1.0F));
    // log2(1 + u) - u's polynomial through the Chebyshev nodes of 0..1; error below 2.5e-6.
    VF p = hn::Set(df, -0.0245685347F);
    p = hn::MulAdd(p, u, hn::Set(df, 0.117613084F));
    p = hn::MulAdd(p, u, hn::Set(df, -0.272697565F));
    p = hn::MulAdd(p, u, hn::Set(df, 0.454508492F));
    p = hn::MulAdd(p, u, hn::Set(df, -0.71731278F));
    p = hn::MulAdd(p, u, hn::Set(df, 1.44245353F));
    p = hn::MulAdd(p, u, hn::Set(df, 2.44343872e-06F));
    const VF y = hn::MulAdd(hn::Add(exponent, p), hn::Set(df, e.scale), hn::Set(df, 4096.0F));
    const VI fixed = TruncateToInt(y);
    VI level = hn::ShiftRight<kFractionBits>(fixed);
    const VI doubt = hn::Set(di, e.doubt);
    const VI place = hn::And(hn::Add(fixed, doubt), hn::Set(di, (1 << kFractionBits) - 1));
    if (HWY_UNLIKELY(!hn::AllFalse(di, hn::Lt(place, hn::Add(doubt, doubt))))) {
        alignas(64) float magnitudes[hn::MaxLanes(df)];
        alignas(64) std::int32_t exact[hn::MaxLanes(df)];
        hn::Store(a, df, magnitudes);
        for (std::size_t i = 0; i < hn::Lanes(df); ++i) {
            exact[i] = static_cast<std::int32_t>(alpha_level(e.thresholds, magnitudes[i]));
        }
        level = hn::Load(di, exact);
    }
    return level;
}

/// Level and sign of one vector of elements as level | 0x80 if negative; their magnitudes go to `fixed`.
template <class E>
HWY_INLINE VI AlphaLanes(const typename E::Raw* src, const AlphaChannels& channels, const LevelEstimate& e,
                         std::uint32_t c, std::uint32_t* fixed) {
    const DF df;
    const DI di;
    const DD dd;
    const hn::Half<DF> half;
    const std::uint32_t n = hn::Lanes(df);
    // Adding 0 turns -0 into +0, so that an element at the center has a positive sign as in the reference.
    const VF x = hn::Add(LoadFloat<E>(src + c), hn::Zero(df));
    const VD lower = hn::Mul(hn::Sub(hn::PromoteTo(dd, hn::LowerHalf(half, x)), hn::Load(dd, channels.center + c)),
                             hn::Load(dd, channels.inverse_spread + c));
    const VD upper =
        hn::Mul(hn::Sub(hn::PromoteTo(dd, hn::UpperHalf(half, x)), hn::Load(dd, channels.center + c + n / 2)),
                hn::Load(dd, channels.inverse_spread + c + n / 2));
    const VF t = hn::Combine(df, hn::DemoteTo(half, upper), hn::DemoteTo(half, lower));
    const VF a = hn::Min(hn::Abs(t), hn::Set(df, 1.0F));  // rounded, then limited: the same as the other way round
    hn::Store(hn::BitCast(DU(), TruncateToInt(hn::Mul(a, hn::Set(df, 0x1p24F)))), DU(), fixed);
    const VI sign = hn::And(hn::ShiftRight<24>(hn::BitCast(di, t)), hn::Set(di, 0x80));
    return hn::Or(LevelsOf(a, e), sign);
}

/// Adds a batch to the bins. The sum of max(a, T) over all elements is that of the a above T, and T for every other one.
HWY_NOINLINE void AddToBins(const ElementBatch& batch, std::uint32_t elements, const std::uint32_t* first_fixed,
                            const AlphaEncoding& page) {
    const DU du;
    const DBytes d8;
    VU sum[kCentroids];
    VU least[kCentroids];
    for (std::uint32_t v = 0; v < kCentroids; ++v) {
        sum[v] = hn::Zero(du);
        least[v] = hn::Set(du, first_fixed[v]);
    }
    for (std::uint32_t i = 0; i < elements; i += hn::Lanes(du)) {
        const VU a = hn::Load(du, batch.fixed + i);
        for (std::uint32_t v = 0; v < kCentroids; ++v) {
            sum[v] = hn::Add(sum[v], hn::Max(a, least[v]));
        }
    }
    VBytes count[kCentroids];
    for (VBytes& c : count) {
        c = hn::Zero(d8);
    }
    const hn::RebindToSigned<DBytes> ds8;
    for (std::uint32_t i = 0; i < elements; i += hn::Lanes(d8)) {
        const auto level = hn::BitCast(ds8, hn::And(hn::Load(d8, batch.levels + i), hn::Set(d8, std::uint8_t{0x7F})));
        for (std::uint32_t v = 1; v < kCentroids; ++v) {
            const auto reached = hn::Gt(level, hn::Set(ds8, static_cast<std::int8_t>(16 * v - 8)));
            count[v] = hn::Sub(count[v], hn::BitCast(d8, hn::VecFromMask(ds8, reached)));
        }
    }
    const hn::Repartition<std::uint64_t, DF> d64;
    for (std::uint32_t v = 0; v < kCentroids; ++v) {
        const std::uint64_t reached = v == 0 ? elements : hn::GetLane(hn::SumOfLanes(d64, hn::SumsOf8(count[v])));
        const hn::Half<DU> half;
        const auto wide =
            hn::Add(hn::PromoteTo(d64, hn::LowerHalf(half, sum[v])), hn::PromoteTo(d64, hn::UpperHalf(half, sum[v])));
        page.counts[v] += reached;
        page.sums[v] += hn::GetLane(hn::SumOfLanes(d64, wide)) - (elements - reached) * first_fixed[v];
    }
}

/// The nibbles of a row of levels: V or its complement, and 16 V - level.
HWY_INLINE void PackAlphaRow(const std::uint8_t* levels, std::uint32_t width, std::uint8_t* anchor,
                             std::uint8_t* residual) {
    const DBytes d8;
    const DHalfBytes half;
    const DPairs d16;
    const hn::RebindToSigned<DBytes> ds8;
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(d8)) {
        const VBytes x = hn::Load(d8, levels + c);
        const VBytes negative = hn::BitCast(d8, hn::VecFromMask(ds8, hn::Lt(hn::BitCast(ds8, x), hn::Zero(ds8))));
        const VBytes level = hn::And(x, hn::Set(d8, std::uint8_t{0x7F}));
        const VBytes rounded = hn::Add(level, hn::Set(d8, std::uint8_t{7}));
        const VBytes v = hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(d16, rounded)));
        hn::StoreU(PackLowNibbles(hn::Xor(v, negative)), half, anchor + c / 2);
        hn::StoreU(PackLowNibbles(hn::Sub(hn::Zero(d8), level)), half, residual + c / 2);
    }
}

/// A block: `count` of its channels are the page's from `first_channel` on, the others padding.
template <class E>
HWY_NOINLINE bool EncodeAlphaBlock(const Block<E>& block, std::uint32_t first_channel, std::uint32_t count,
                                   const Extremes<E>& extremes, const AlphaChannels& channels,
                                   const AlphaEncoding& page, std::uint8_t* anchor, std::uint8_t* residual,
                                   std::size_t row_stride) {
    extremes.find(block, page.chunk_tokens);
    for (std::uint32_t c = 0; c < count; ++c) {
        if (extremes.page_max[c] > E::kLargestFinite || extremes.page_min[c] < ~E::kLargestFinite) {
            return false;
        }
    }
    SumChunks(block, page.chunk_tokens, channels);
    ChunkExtremes(block, 0, block.tokens, count, extremes.page_min, extremes.page_max, channels);
    for (std::uint32_t c = 0; c < count; ++c) {
        const AlphaGamma gamma =
            put_alpha_gamma(page.format, page.layout, page.meta, first_channel + c, channels.min[c], channels.max[c]);
        channels.gamma_min[c] = gamma.min;
        channels.gamma_scale[c] = gamma.scale;
    }
    for (std::uint32_t c = count; c < block.width; ++c) {
        channels.center[c] = 0;
        channels.inverse_spread[c] = 0;
    }
    std::uint32_t first_fixed[kCentroids] = {};
    for (std::uint32_t v = 1; v < kCentroids; ++v) {
        first_fixed[v] = alpha_fixed(page.levels.thresholds[16 * v - 7]);
    }
    const std::uint32_t n = hn::Lanes(DF());
    const std::uint32_t batch_width = HWY_MIN(block.width, ElementBatch::kElements);
    const std::uint32_t batch_rows = ElementBatch::kElements / batch_width;
    ElementBatch batch;
    std::uint32_t first = 0;
    for (std::uint32_t k = 0; first < block.tokens; ++k) {
        const std::uint32_t end = HWY_MIN(block.tokens, first + page.chunk_tokens);
        ChunkExtremes(block, first, end, count, extremes.chunk_min(k), extremes.chunk_max(k), channels);
        PutAlphaChunk(page, k, first_channel, count, end - first, channels);
        for (std::uint32_t row = first; row < end; row += batch_rows) {
            const std::uint32_t rows = HWY_MIN(batch_rows, end - row);
            for (std::uint32_t c0 = 0; c0 < block.width; c0 += batch_width) {
                const std::uint32_t width = HWY_MIN(batch_width, block.width - c0);
                std::uint32_t at = 0;
                for (std::uint32_t r = row; r < row + rows; ++r) {
                    const typename E::Raw* src = block.row(r);
                    for (std::uint32_t c = c0; c < c0 + width; c += 4 * n, at += 4 * n) {
                        const VI l0 = AlphaLanes<E>(src, channels, page.levels, c, batch.fixed + at);
                        const VI l1 = AlphaLanes<E>(src, channels, page.levels, c + n, batch.fixed + at + n);
                        const VI l2 = AlphaLanes<E>(src, channels, page.levels, c + 2 * n, batch.fixed + at + 2 * n);
                        const VI l3 = AlphaLanes<E>(src, channels, page.levels, c + 3 * n, batch.fixed + at + 3 * n);
                        hn::Store(PackBytes(l0, l1, l2, l3), DBytes(), batch.levels + at);
                    }
                    PackAlphaRow(batch.levels + at - width, width, anchor + r * row_stride + c0 / 2,
                                 residual + r * row_stride + c0 / 2);
                }
                AddToBins(batch, at, first_fixed, page);
            }
        }
        first = end;
    }
    // Padding has magnitude and level 0: it counts at v = 0 only, where it adds nothing to the sum.
    page.counts[0] -= std::uint64_t{block.width - count} * block.tokens;
    return true;
}

template <class E>
bool EncodeAlpha(const kv::ConstView& core, const AlphaEncoding& page) {
    constexpr std::size_t kRowBytes = kGroupChannels / 2;
    const std::uint32_t chunks = chunk_count(core.tokens, page.chunk_tokens);
    std::byte* memory = nullptr;
    for (;;) {
        ScratchLayout layout(memory);
        const AlphaChannels channels(layout, chunks, BlockWidthMax(core));
        const Extremes<E> extremes(layout, chunks, BlockWidthMax(core));
        const Staging<E> staging(layout, core.tokens);
        auto* const anchor_tail = layout.array<std::uint8_t>(core.tokens * kRowBytes);
        auto* const residual_tail = layout.array<std::uint8_t>(core.tokens * kRowBytes);
        if (memory == nullptr) {
            memory = thread_scratch(layout.bytes());
            continue;
        }
        for (std::uint32_t first = 0; first < core.channels;) {
            const std::uint32_t count = BlockChannels(core, first);
            const Block<E> block = staging.load(core, first, count);
            const bool whole = count == block.width;
            std::uint8_t* anchor = page.anchor + first / 2;
            std::uint8_t* residual = page.residual + first / 2;
            if (!EncodeAlphaBlock<E>(block, first, count, extremes, channels, page, whole ? anchor : anchor_tail,
                                     whole ? residual : residual_tail, whole ? page.row_stride : kRowBytes)) {
                return false;
            }
            if (!whole) {
                const std::size_t bytes = nibble_row_bytes(count);
                for (std::uint32_t t = 0; t < core.tokens; ++t) {
                    std::memcpy(anchor + t * page.row_stride, anchor_tail + t * kRowBytes, bytes);
                    std::memcpy(residual + t * page.row_stride, residual_tail + t * kRowBytes, bytes);
                }
            }
            first += count;
        }
        return true;
    }
}

bool EncodeAlphaPage(const kv::ConstView& core, const AlphaEncoding& page) {
    switch (core.dtype) {
        case kv::DType::f16: return EncodeAlpha<F16>(core, page);
        case kv::DType::bf16: return EncodeAlpha<BF16>(core, page);
        case kv::DType::f32: return EncodeAlpha<F32>(core, page);
    }
    return false;
}

const AlphaKernels* alpha_kernels_of_target() {
    static constexpr AlphaKernels kKernels{EncodeAlphaPage, DecodeAlphaPage};
    return &kKernels;
}

#endif

}  // namespace lynx::codec::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lynx::codec::simd {
namespace {

HWY_EXPORT(alpha_kernels_of_target);

class SimdLynx44 final : public KernelCoder {
public:
    SimdLynx44(std::unique_ptr<PageCoder> reference, const CodecParams& params, const AlphaKernels& kernels)
        : KernelCoder(std::move(reference)),
          law_(params.alpha, kLynx44Levels),
          format_(params.meta),
          chunk_tokens_(params.chunk_tokens),
          kernels_(kernels) {
        // Only an estimate, whose last word the thresholds have; beyond these alphas float32 is too coarse for it.
        estimable_ = params.alpha >= 1.0F && params.alpha <= 4096.0F;
        const double scale = 8192.0 * kLynx44Levels / std::log2(1.0 + static_cast<double>(params.alpha));
        levels_.alpha = params.alpha;
        levels_.scale = static_cast<float>(scale);
        levels_.doubt = 3 + static_cast<std::int32_t>(scale * 6e-6);
        for (std::uint32_t level = 0; level < kLevels; ++level) {
            const float a = law_.magnitude(static_cast<int>(level));
            std::uint8_t bytes[4];
            std::memcpy(bytes, &a, sizeof a);
            for (std::uint32_t p = 0; p < 4; ++p) {
                level_bytes_[p * kLevels + level] = bytes[p];
            }
        }
    }

    [[nodiscard]] bool encode_checked(kv::ConstView core, const PageContext& context,
                                      std::span<std::span<std::byte>> bodies) const override {
        if (!estimable_) {
            return reference().encode_checked(core, context, bodies);
        }
        std::uint64_t sums[kCentroids + 1] = {};
        std::uint64_t counts[kCentroids + 1] = {};
        std::byte* table = bodies[0].data();
        AlphaEncoding page{};
        page.format = format_;
        page.chunk_tokens = chunk_tokens_;
        page.layout = alpha_meta_layout(format_, chunk_count(core.tokens, chunk_tokens_), core.channels);
        page.levels = levels_;
        page.levels.thresholds = law_.thresholds().data();
        page.meta = table + kCentroids * sizeof(std::uint16_t);
        page.anchor = reinterpret_cast<std::uint8_t*>(page.meta + page.layout.end);
        page.residual = reinterpret_cast<std::uint8_t*>(bodies[1].data());
        page.row_stride = nibble_row_bytes(core.channels);
        page.sums = sums;
        page.counts = counts;
        if (!kernels_.encode(core, page)) {
            return false;
        }
        for (std::size_t v = 0; v < kCentroids; ++v) {
            put_element(table, v,
                        alpha_centroid(sums[v] - sums[v + 1], counts[v] - counts[v + 1],
                                       law_.magnitude(static_cast<int>(16 * v))));
        }
        return true;
    }

private:
    [[nodiscard]] bool decode_by_kernel(std::span<const base::ByteView> bodies, kv::View dst) const override {
        return kernels_.decode(page({dst.tokens, dst.channels}, bodies), dst);
    }

    [[nodiscard]] AlphaPage page(CoreShape s, std::span<const base::ByteView> bodies) const noexcept {
        AlphaPage p{};
        p.format = format_;
        p.chunk_tokens = chunk_tokens_;
        p.layout = alpha_meta_layout(format_, chunk_count(s.tokens, chunk_tokens_), s.channels);
        p.table = reinterpret_cast<const std::uint8_t*>(bodies[0].data());
        p.level_bytes = level_bytes_;
        const std::uint8_t* meta = p.table + kCentroids * sizeof(std::uint16_t);
        p.parts = {.gamma_min = meta,
                   .gamma_scale = meta + p.layout.gamma_scale,
                   .mu = meta + p.layout.mu,
                   .sigma = meta + p.layout.sigma,
                   .anchor = meta + p.layout.end,
                   .residual = bodies.size() > 1 ? reinterpret_cast<const std::uint8_t*>(bodies[1].data()) : nullptr,
                   .chunk_stride = s.channels,
                   .row_stride = nibble_row_bytes(s.channels)};
        return p;
    }

    AlphaLaw law_;
    MetaFormat format_;
    std::uint32_t chunk_tokens_;
    const AlphaKernels& kernels_;
    LevelEstimate levels_{};
    bool estimable_ = false;
    alignas(16) std::uint8_t level_bytes_[4 * kLevels] = {};
};

}  // namespace

std::unique_ptr<PageCoder> lynx44_on_target(std::unique_ptr<PageCoder> reference, const CodecParams& params,
                                            std::int64_t target) {
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    const AlphaKernels* kernels = HWY_DISPATCH_TABLE(alpha_kernels_of_target)[chosen.GetIndex()]();
    if (kernels == nullptr) {
        return reference;
    }
    return std::make_unique<SimdLynx44>(std::move(reference), params, *kernels);
}

}  // namespace lynx::codec::simd

#endif  // HWY_ONCE
