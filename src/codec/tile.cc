#include "codec/tile.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/half.h"
#include "codec/math/scalar_math.h"

namespace lynx::codec {
namespace {

/// Largest finite value a dtype holds; decoding saturates there.
constexpr float dtype_max(kv::DType t) noexcept {
    switch (t) {
        case kv::DType::f16: return base::kF16Max;
        case kv::DType::bf16: return base::kBf16Max;
        case kv::DType::f32: return kF32Max;
    }
    return 0;
}

// Rows always span kTileChannels elements, so that these loops have a constant length.
template <class Raw>
void to_float(kv::DType dtype, const Raw* __restrict raw, float* __restrict row) noexcept {
    if constexpr (sizeof(Raw) == 4) {
        std::memcpy(row, raw, kTileChannels * sizeof(float));
    } else if (dtype == kv::DType::f16) {
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            row[c] = base::f16_to_f32(raw[c]);
        }
    } else {
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            row[c] = base::bf16_to_f32(raw[c]);
        }
    }
}

template <class Raw>
void from_float(kv::DType dtype, const float* __restrict row, Raw* __restrict raw) noexcept {
    const float max = dtype_max(dtype);
    float clamped[kTileChannels];
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        clamped[c] = saturated(row[c], max);
    }
    if constexpr (sizeof(Raw) == 4) {
        std::memcpy(raw, clamped, sizeof clamped);
    } else if (dtype == kv::DType::f16) {
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            raw[c] = base::f32_to_f16(clamped[c]);
        }
    } else {
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            raw[c] = base::f32_to_bf16(clamped[c]);
        }
    }
}

template <class Raw>
void load_tile_as(kv::ConstView src, ChannelSpan span, float* tile) noexcept {
    Raw raw[kTileTokens][kTileChannels] = {};
    const std::ptrdiff_t token_step = src.token_stride * static_cast<std::ptrdiff_t>(sizeof(Raw));
    for (std::uint32_t first = 0; first < src.tokens; first += kTileTokens) {
        const std::uint32_t rows = std::min(kTileTokens, src.tokens - first);
        if (src.channel_stride == 1) {
            for (std::uint32_t t = 0; t < rows; ++t) {
                std::memcpy(raw[t], src.at(first + t, span.first), span.count * sizeof(Raw));
            }
        } else {
            for (std::uint32_t c = 0; c < span.count; ++c) {
                const std::byte* p = src.at(first, span.first + c);
                for (std::uint32_t t = 0; t < rows; ++t, p += token_step) {
                    std::memcpy(&raw[t][c], p, sizeof(Raw));
                }
            }
        }
        for (std::uint32_t t = 0; t < rows; ++t) {
            to_float(src.dtype, raw[t], tile + std::size_t{first + t} * kTileChannels);
        }
    }
}

template <class Raw>
void store_tile_as(const float* tile, std::uint32_t tokens, kv::View dst, std::uint32_t first_token,
                   ChannelSpan span) noexcept {
    Raw raw[kTileTokens][kTileChannels];
    const std::ptrdiff_t token_step = dst.token_stride * static_cast<std::ptrdiff_t>(sizeof(Raw));
    for (std::uint32_t first = 0; first < tokens; first += kTileTokens) {
        const std::uint32_t rows = std::min(kTileTokens, tokens - first);
        for (std::uint32_t t = 0; t < rows; ++t) {
            from_float(dst.dtype, tile + std::size_t{first + t} * kTileChannels, raw[t]);
        }
        if (dst.channel_stride == 1) {
            for (std::uint32_t t = 0; t < rows; ++t) {
                std::memcpy(dst.at(first_token + first + t, span.first), raw[t], span.count * sizeof(Raw));
            }
        } else {
            for (std::uint32_t c = 0; c < span.count; ++c) {
                std::byte* p = dst.at(first_token + first, span.first + c);
                for (std::uint32_t t = 0; t < rows; ++t, p += token_step) {
                    std::memcpy(p, &raw[t][c], sizeof(Raw));
                }
            }
        }
    }
}

bool element_is_finite(kv::DType dtype, const std::byte* p) noexcept {
    if (dtype == kv::DType::f32) {
        std::uint32_t v = 0;
        std::memcpy(&v, p, sizeof v);
        return (v & 0x7F800000U) != 0x7F800000U;
    }
    std::uint16_t v = 0;
    std::memcpy(&v, p, sizeof v);
    const unsigned exponent = dtype == kv::DType::f16 ? 0x7C00U : 0x7F80U;
    return (v & exponent) != exponent;
}

/// Whether `count` contiguous elements hold a NaN or an infinity: the largest magnitude pattern tells.
template <class Raw>
bool run_is_finite(const std::byte* p, std::uint32_t count, Raw infinity) noexcept {
    constexpr std::uint32_t kStep = 64;
    constexpr Raw kMagnitude = static_cast<Raw>(static_cast<Raw>(~Raw{0}) >> 1);
    Raw raw[kStep];
    Raw largest = 0;
    for (std::uint32_t first = 0; first < count; first += kStep) {
        const std::uint32_t n = std::min(kStep, count - first);
        std::memcpy(raw, p + std::size_t{first} * sizeof(Raw), n * sizeof(Raw));
        for (std::uint32_t i = 0; i < n; ++i) {
            largest = std::max(largest, static_cast<Raw>(raw[i] & kMagnitude));
        }
    }
    return largest < infinity;
}

bool run_is_finite(kv::DType dtype, const std::byte* p, std::uint32_t count) noexcept {
    switch (dtype) {
        case kv::DType::f16: return run_is_finite<std::uint16_t>(p, count, 0x7C00U);
        case kv::DType::bf16: return run_is_finite<std::uint16_t>(p, count, 0x7F80U);
        case kv::DType::f32: return run_is_finite<std::uint32_t>(p, count, 0x7F800000U);
    }
    return false;
}

bool page_is_finite(kv::ConstView page) noexcept {
    bool finite = true;
    if (page.channel_stride == 1) {
        for (std::uint32_t t = 0; t < page.tokens && finite; ++t) {
            finite = run_is_finite(page.dtype, page.at(t, 0), page.channels);
        }
        return finite;
    }
    if (page.token_stride == 1) {
        for (std::uint32_t c = 0; c < page.channels && finite; ++c) {
            finite = run_is_finite(page.dtype, page.at(0, c), page.tokens);
        }
        return finite;
    }
    return false;  // let the element-wise search decide
}

}  // namespace

void load_tile(kv::ConstView src, ChannelSpan span, float* tile) noexcept {
    if (src.dtype == kv::DType::f32) {
        load_tile_as<std::uint32_t>(src, span, tile);
    } else {
        load_tile_as<std::uint16_t>(src, span, tile);
    }
}

void store_tile(const float* tile, std::uint32_t tokens, kv::View dst, std::uint32_t first_token,
                ChannelSpan span) noexcept {
    if (dst.dtype == kv::DType::f32) {
        store_tile_as<std::uint32_t>(tile, tokens, dst, first_token, span);
    } else {
        store_tile_as<std::uint16_t>(tile, tokens, dst, first_token, span);
    }
}

void copy_rows_out(kv::ConstView src, std::byte* packed) noexcept {
    const std::size_t element = kv::dtype_bytes(src.dtype);
    for (std::uint32_t t = 0; t < src.tokens; ++t) {
        if (src.channel_stride == 1) {
            std::memcpy(packed, src.at(t, 0), src.channels * element);
            packed += src.channels * element;
            continue;
        }
        for (std::uint32_t c = 0; c < src.channels; ++c, packed += element) {
            std::memcpy(packed, src.at(t, c), element);
        }
    }
}

void copy_rows_in(const std::byte* packed, kv::View dst) noexcept {
    const std::size_t element = kv::dtype_bytes(dst.dtype);
    for (std::uint32_t t = 0; t < dst.tokens; ++t) {
        if (dst.channel_stride == 1) {
            std::memcpy(dst.at(t, 0), packed, dst.channels * element);
            packed += dst.channels * element;
            continue;
        }
        for (std::uint32_t c = 0; c < dst.channels; ++c, packed += element) {
            std::memcpy(dst.at(t, c), packed, element);
        }
    }
}

std::optional<ElementIndex> find_non_finite(kv::ConstView page) noexcept {
    if (page_is_finite(page)) {
        return std::nullopt;
    }
    for (std::uint32_t t = 0; t < page.tokens; ++t) {
        for (std::uint32_t c = 0; c < page.channels; ++c) {
            if (!element_is_finite(page.dtype, page.at(t, c))) {
                return ElementIndex{t, c};
            }
        }
    }
    return std::nullopt;
}

}  // namespace lynx::codec
