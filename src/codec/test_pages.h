// Pages for the codec tests: made from a seed, in any dtype, and decoded back to doubles.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/rng.h"
#include "codec/codec.h"

namespace lynx::codec::testing {

inline double read_element(kv::ConstView v, std::uint32_t t, std::uint32_t c) {
    const std::byte* p = v.at(t, c);
    if (v.dtype == kv::DType::f32) {
        float x = 0;
        std::memcpy(&x, p, sizeof x);
        return static_cast<double>(x);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, p, sizeof bits);
    return static_cast<double>(v.dtype == kv::DType::f16 ? base::f16_to_f32(bits) : base::bf16_to_f32(bits));
}

inline void write_element(kv::View v, std::uint32_t t, std::uint32_t c, float x) {
    std::byte* p = v.at(t, c);
    if (v.dtype == kv::DType::f32) {
        std::memcpy(p, &x, sizeof x);
        return;
    }
    const std::uint16_t bits = v.dtype == kv::DType::f16 ? base::f32_to_f16(x) : base::f32_to_bf16(x);
    std::memcpy(p, &bits, sizeof bits);
}

/// A page that owns its memory. `gap` extra elements lie between rows, so that nothing may rely on dense strides.
class Page {
public:
    Page(kv::DType dtype, std::uint32_t tokens, std::uint32_t channels, bool channel_major = false,
         std::uint32_t gap = 0)
        : memory_((std::size_t{channel_major ? tokens : channels} + gap) * (channel_major ? channels : tokens) *
                  kv::dtype_bytes(dtype)) {
        view_ = {memory_.data(), dtype, tokens, channels, std::ptrdiff_t{channels} + gap, 1};
        if (channel_major) {
            view_.token_stride = 1;
            view_.channel_stride = std::ptrdiff_t{tokens} + gap;
        }
    }
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    Page(Page&&) = default;
    Page& operator=(Page&&) = delete;
    ~Page() = default;

    /// Another page of the same shape and strides, zero.
    [[nodiscard]] Page same_layout() const {
        Page page;
        page.memory_.resize(memory_.size());
        page.view_ = view_;
        page.view_.data = page.memory_.data();
        return page;
    }

    [[nodiscard]] kv::View view() const { return view_; }
    [[nodiscard]] double at(std::uint32_t t, std::uint32_t c) const { return read_element(view_, t, c); }
    void set(std::uint32_t t, std::uint32_t c, float x) { write_element(view_, t, c, x); }
    void copy_from(const Page& other) {
        for (std::uint32_t t = 0; t < view_.tokens; ++t) {
            for (std::uint32_t c = 0; c < view_.channels; ++c) {
                std::memcpy(view_.at(t, c), other.view_.at(t, c), kv::dtype_bytes(view_.dtype));
            }
        }
    }
    /// Elements and the gaps between rows.
    [[nodiscard]] bool same_memory(const Page& other) const { return memory_ == other.memory_; }
    [[nodiscard]] bool same_elements(const Page& other) const {
        for (std::uint32_t t = 0; t < view_.tokens; ++t) {
            for (std::uint32_t c = 0; c < view_.channels; ++c) {
                if (std::memcmp(view_.at(t, c), other.view_.at(t, c), kv::dtype_bytes(view_.dtype)) != 0) {
                    return false;
                }
            }
        }
        return true;
    }

private:
    Page() = default;

    base::Bytes memory_;
    kv::View view_;
};

/// KV-like content: per channel another offset and spread, some constant, some tiny; a few zeros and -0.
inline Page random_page(kv::DType dtype, std::uint32_t tokens, std::uint32_t channels, std::uint64_t seed) {
    base::Rng rng(seed);
    Page page(dtype, tokens, channels);
    for (std::uint32_t c = 0; c < channels; ++c) {
        const double spread = c % 11 == 3 ? 0.0 : std::ldexp(1.0, static_cast<int>(rng.below(12)) - 8);
        const double offset = (rng.unit() - 0.5) * std::ldexp(1.0, static_cast<int>(rng.below(10)) - 4);
        for (std::uint32_t t = 0; t < tokens; ++t) {
            const double normal = rng.unit() + rng.unit() + rng.unit() + rng.unit() - 2.0;
            const std::uint64_t kind = rng.below(97);
            const double x = kind == 0 ? 0.0 : (kind == 1 ? -0.0 : offset + spread * normal);
            page.set(t, c, static_cast<float>(spread == 0.0 ? offset : x));
        }
    }
    return page;
}

inline std::vector<base::ByteView> views(const std::vector<base::Bytes>& payloads, std::size_t count) {
    return {payloads.begin(), payloads.begin() + static_cast<std::ptrdiff_t>(count)};
}

inline std::unique_ptr<Codec> codec_or_die(std::string_view name, const CodecParams& params = {},
                                           std::string_view backend = {}) {
    Result<std::unique_ptr<Codec>> made = make_codec(name, params, backend);
    if (!made.ok()) {
        throw std::runtime_error(made.status().to_string());
    }
    return std::move(made).value();
}

inline std::vector<base::Bytes> encode_or_die(const Codec& codec, kv::ConstView page, const PageContext& context = {}) {
    std::vector<base::Bytes> out(codec.info().tiers);
    if (const Status s = codec.encode(page, context, out); !s.ok()) {
        throw std::runtime_error(s.to_string());
    }
    return out;
}

inline Page decode_or_die(const Codec& codec, const std::vector<base::Bytes>& payloads, std::size_t tiers,
                          kv::ConstView like) {
    Page page(like.dtype, like.tokens, like.channels);
    if (const Status s = codec.decode(views(payloads, tiers), page.view()); !s.ok()) {
        throw std::runtime_error(s.to_string());
    }
    return page;
}

/// Half a unit in the last place of the dtype at |x|: the final rounding's share of an error.
inline double half_ulp(kv::DType dtype, double x) {
    const int digits = dtype == kv::DType::f16 ? 11 : (dtype == kv::DType::bf16 ? 8 : 24);
    const int lowest = dtype == kv::DType::f16 ? -24 : -149;
    const int exponent = x == 0 ? lowest : std::ilogb(x) - digits + 1;
    return std::ldexp(0.5, std::max(exponent, lowest)) * 1.0001;
}

}  // namespace lynx::codec::testing
