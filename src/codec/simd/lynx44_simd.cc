// lynx44 in lanes. Decoding looks magnitudes up byte by byte: a float32 table of 16 entries is four shuffles of 16 bytes, and
// the one of 128 levels eight times that, which is still faster than gathering.
#include "codec/simd/lynx44_simd.h"

#include <cstring>

#include "base/check.h"
#include "codec/math/alpha_math.h"
#include "codec/ref/alpha_law.h"
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
inline constexpr std::uint32_t kLevelTables = 8;  // 16 levels each

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
    const std::uint8_t* level_bytes;  // [4][kLevelTables][16]: byte p of the magnitude of level 16 k + i
};

struct AlphaKernels {
    bool (*decode)(const AlphaPage& page, const kv::View& dst);  ///< false: not what an encoder writes
};

}  // namespace lynx::codec::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace lynx::codec::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

const AlphaKernels* AlphaKernelsOfTarget() { return nullptr; }  // the scalar backend is the fallback

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
    for (std::uint32_t c = 0; c < width; c += hn::Lanes(df)) {
        const std::size_t at = chunk * in.chunk_stride + c;
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
#elif HWY_TARGET == HWY_AVX3
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

/// Byte p of the magnitudes of levels 0..127.
HWY_INLINE VBytes LevelByte(const std::uint8_t* tables, const VBytes (&index)[kLevelTables]) {
    const DBytes d8;
    VBytes r = hn::TableLookupBytesOr0(hn::LoadDup128(d8, tables), index[0]);
    for (std::uint32_t k = 1; k < kLevelTables; ++k) {
        r = hn::Or(r, hn::TableLookupBytesOr0(hn::LoadDup128(d8, tables + 16 * k), index[k]));
    }
    return r;
}

/// Signed magnitudes of pairs of symbols. A pair that stands for no level sets a top bit in `bad`.
HWY_INLINE FourVectors FullValues(const std::uint8_t* anchor, const std::uint8_t* residual,
                                  const std::uint8_t* level_bytes, VBytes& bad) {
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

    const VBytes spread = SpreadOverBlocks(level);
    VBytes index[kLevelTables];
    for (std::uint32_t k = 0; k < kLevelTables; ++k) {
        // The table's own 16 levels become 0x70..0x7F, any other has its top bit set and looks up 0.
        index[k] =
            hn::Add(hn::Xor(spread, hn::Set(d8, static_cast<std::uint8_t>(16 * k))), hn::Set(d8, std::uint8_t{0x70}));
    }
    constexpr std::size_t kTable = std::size_t{kLevelTables} * 16;
    const VBytes sign = hn::And(SpreadOverBlocks(negative), hn::Set(d8, std::uint8_t{0x80}));
    return {LevelByte(level_bytes, index), LevelByte(level_bytes + kTable, index),
            LevelByte(level_bytes + 2 * kTable, index), hn::Or(sign, LevelByte(level_bytes + 3 * kTable, index))};
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
    VBytes bad = hn::Zero(d8);
    for (std::uint32_t t = first; t < end; ++t) {
        const std::uint8_t* anchor = in.anchor + t * in.row_stride;
        const std::uint8_t* residual = kFull ? in.residual + t * in.row_stride : nullptr;
        typename E::Raw* dst = target.row(t);
        for (std::uint32_t c = 0; c < target.width; c += 4 * n) {
            const FourVectors a = kFull ? FullValues(anchor + c / 2, residual + c / 2, page.level_bytes, bad)
                                        : tables.values(anchor + c / 2);
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

const AlphaKernels* AlphaKernelsOfTarget() {
    static constexpr AlphaKernels kKernels{DecodeAlphaPage};
    return &kKernels;
}

#endif

}  // namespace lynx::codec::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace lynx::codec::simd {
namespace {

HWY_EXPORT(AlphaKernelsOfTarget);

class SimdLynx44 final : public PageCoder {
public:
    SimdLynx44(std::unique_ptr<PageCoder> reference, const CodecParams& params, const AlphaKernels& kernels)
        : ref_(std::move(reference)),
          law_(params.alpha, kLynx44Levels),
          format_(params.meta),
          chunk_tokens_(params.chunk_tokens),
          kernels_(kernels) {
        for (std::uint32_t level = 0; level < kLevelTables * 16; ++level) {
            const float a = law_.magnitude(static_cast<int>(level));
            std::uint8_t bytes[4];
            std::memcpy(bytes, &a, sizeof a);
            for (std::uint32_t p = 0; p < 4; ++p) {
                level_bytes_[p * kLevelTables * 16 + level] = bytes[p];
            }
        }
    }

    [[nodiscard]] CodecId id() const noexcept override { return ref_->id(); }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return ref_->tiers(); }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape shape, std::uint8_t tier) const noexcept override {
        return ref_->body_bytes_max(shape, tier);
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        ref_->encode(core, context, bodies);
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const override {
        if (!kernels_.decode(page({dst.tokens, dst.channels}, bodies), dst)) {
            return ref_->decode(bodies, context, dst);  // it says what is wrong
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape shape,
                                 PageSymbols& out) const override {
        return ref_->symbols(bodies, shape, out);
    }

private:
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

    std::unique_ptr<PageCoder> ref_;
    AlphaLaw law_;
    MetaFormat format_;
    std::uint32_t chunk_tokens_;
    const AlphaKernels& kernels_;
    alignas(16) std::uint8_t level_bytes_[4 * kLevelTables * 16] = {};
};

}  // namespace

std::unique_ptr<PageCoder> lynx44_on_target(std::unique_ptr<PageCoder> reference, const CodecParams& params,
                                            std::int64_t target) {
    hwy::ChosenTarget chosen;
    chosen.Update(target);
    const AlphaKernels* kernels = HWY_DISPATCH_TABLE(AlphaKernelsOfTarget)[chosen.GetIndex()]();
    if (kernels == nullptr) {
        return reference;
    }
    return std::make_unique<SimdLynx44>(std::move(reference), params, *kernels);
}

}  // namespace lynx::codec::simd

#endif  // HWY_ONCE
