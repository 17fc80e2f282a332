// PageCoder: what one codec implements; PageCodec (page_codec.h) wraps it into the public Codec: headers, checksums, exact
// rows and single-payload ("mono") form are written once there. Implementations live in ref/.
//
// The *core* of a page is its tokens without the exact rows. Most coders have bodies of fixed size, a pure function of the
// core's shape; entropy coders say `fixed_size() == false` and check the sizes they are given.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/format.h"
#include "kv/view.h"

namespace lynx::codec {

struct CoreShape {
    std::uint32_t tokens = 0;  ///< of the core; may be 0
    std::uint32_t channels = 0;
};

/// Everything `inspect` shows of one page's core, token-major [tokens][channels] and [chunks][channels]; empty where the
/// codec has no such thing.
struct PageSymbols {
    std::uint32_t core_first = 0;  ///< the core's first token within the page; set by PageCodec
    std::vector<std::int16_t> level;
    std::vector<std::int8_t> sign;
    std::vector<std::int8_t> q_anc;
    std::vector<std::int8_t> q_res;
    std::vector<float> gamma_min;    ///< [channels]
    std::vector<float> gamma_scale;  ///< [channels]
    std::vector<float> mu;           ///< [chunks][channels]
    std::vector<float> sigma;        ///< [chunks][channels]
};

/// How many of a sequence's first and newest tokens an anchor keeps exact.
struct ExactTokens {
    std::uint16_t sinks = 0;
    std::uint16_t recent = 0;
};

/// Immutable; used from several threads at once.
class PageCoder {
public:
    virtual ~PageCoder() = default;

    [[nodiscard]] virtual CodecId id() const noexcept = 0;
    [[nodiscard]] virtual std::uint8_t tiers() const noexcept = 0;
    /// Whether the last tier restores every bit; then NaN and infinities are encoded as well.
    [[nodiscard]] virtual bool exact() const noexcept { return false; }
    /// Whether the sequence's first and newest tokens are kept exact in the anchor.
    [[nodiscard]] virtual bool keeps_exact_rows() const noexcept { return false; }
    /// Which ones, if it does; no context has more than the default one.
    [[nodiscard]] virtual ExactTokens exact_tokens(const CodecParams& params,
                                                   const PageContext& /*context*/) const noexcept {
        return {params.sinks, params.recent};
    }

    /// Whether decode needs the page's context; it then travels in the anchor (FORMAT, "Context").
    [[nodiscard]] virtual bool carries_context() const noexcept { return false; }
    /// Whether a body always has body_bytes_max bytes. PageCodec then checks that it does.
    [[nodiscard]] virtual bool fixed_size() const noexcept { return true; }

    /// Most bytes that tier `tier`'s body takes for a core of this shape; never shrinks as the core grows.
    [[nodiscard]] virtual std::size_t body_bytes_max(CoreShape shape, std::uint8_t tier) const noexcept = 0;

    /// Fills bodies[t] (body_bytes_max(shape, t) bytes each, uninitialised) from a finite core of at least one token; a coder
    /// without fixed size cuts each to the bytes it used. `context.first_token` is the core's.
    virtual void encode(kv::ConstView core, const PageContext& context,
                        std::span<std::span<std::byte>> bodies) const = 0;

    /// encode for a core that may hold a NaN or an infinity: false if it does, and the bodies are then unspecified. Coders that
    /// come by every pattern anyway override this; it searches the core first.
    [[nodiscard]] virtual bool encode_checked(kv::ConstView core, const PageContext& context,
                                              std::span<std::span<std::byte>> bodies) const;

    /// Decodes tier bodies.size() - 1 into `dst`. Fixed sizes are right; the content may be anything: corrupt. `context` is
    /// what the anchor carries, checked; the default one when it carries none.
    [[nodiscard]] virtual Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                        kv::View dst) const = 0;

    /// Unpacks the symbols of the tiers given. corrupt as in decode.
    [[nodiscard]] virtual Status symbols(std::span<const base::ByteView> bodies, CoreShape shape,
                                         PageSymbols& out) const = 0;
};

[[nodiscard]] constexpr std::size_t nibble_row_bytes(std::uint32_t channels) noexcept { return (channels + 1U) / 2U; }

[[nodiscard]] constexpr std::uint32_t chunk_count(std::uint32_t tokens, std::uint32_t chunk_tokens) noexcept {
    return (tokens + chunk_tokens - 1) / chunk_tokens;
}

}  // namespace lynx::codec
