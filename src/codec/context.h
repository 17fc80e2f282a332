// A page's context as bytes: what codecs whose decoder depends on position, kind or rotation put in front of their anchor
// (FORMAT, "Context"). The sequence's length is not part of it.
#pragma once

#include "codec/codec.h"

namespace lynx::codec {

inline constexpr std::size_t kContextBytes = 20;
inline constexpr float kRopeBaseMax = 0x1p40F;
inline constexpr float kRopeScaleMin = 0x1p-20F;
inline constexpr float kRopeScaleMax = 0x1p20F;

/// corrupt, naming the field, when a page of this many channels cannot have that context.
[[nodiscard]] Status validate_context(const PageContext& context, std::uint32_t channels);

/// Precondition: validate_context.
void write_context(const PageContext& context, std::span<std::byte, kContextBytes> out) noexcept;

/// corrupt as validate_context, and for reserved bits.
[[nodiscard]] Result<PageContext> read_context(std::span<const std::byte, kContextBytes> bytes, std::uint32_t channels);

}  // namespace lynx::codec
