// Strided views of [tokens, channels] matrices: how codecs see KV memory whatever an engine's layout is.
// Strides are in elements, not bytes. A view owns nothing; the memory must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kv/geometry.h"

namespace lynx::kv {

template <class Byte>
struct BasicView {
    Byte* data = nullptr;
    DType dtype = DType::f16;
    std::uint32_t tokens = 0;
    std::uint32_t channels = 0;
    std::ptrdiff_t token_stride = 0;
    std::ptrdiff_t channel_stride = 1;

    [[nodiscard]] Byte* at(std::uint32_t token, std::uint32_t channel) const noexcept {
        return data + (static_cast<std::ptrdiff_t>(token) * token_stride +
                       static_cast<std::ptrdiff_t>(channel) * channel_stride) *
                          static_cast<std::ptrdiff_t>(dtype_bytes(dtype));
    }
    /// Tokens [first, first + count) of this view. Precondition: they exist.
    [[nodiscard]] BasicView slice_tokens(std::uint32_t first, std::uint32_t count) const noexcept {
        BasicView v = *this;
        v.data = at(first, 0);
        v.tokens = count;
        return v;
    }
    operator BasicView<const std::byte>() const noexcept  // NOLINT(google-explicit-constructor)
        requires(!std::is_const_v<Byte>) {
        return {data, dtype, tokens, channels, token_stride, channel_stride};
    }
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

/// A token-major (row = token) view of densely packed memory.
template <class Byte>
[[nodiscard]] BasicView<Byte> token_major(Byte* data, DType dtype, std::uint32_t tokens,
                                          std::uint32_t channels) noexcept {
    return {data, dtype, tokens, channels, static_cast<std::ptrdiff_t>(channels), 1};
}

}  // namespace lynx::kv
