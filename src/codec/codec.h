// The codec contract: one page of K or V in, one self-delimiting payload per tier out, and back.
//
// Goals: decode is defined in integers plus one final rounding, so every backend returns the same bits; any bytes may be
// handed to decode. Non-goals: framing, page keys, files (container.h), talking to anything.
// Layout of every payload: docs/format/FORMAT.md.
//
// Tiers are cumulative: decode(payloads[0..t]) yields the page at tier t. A progressive codec has an anchor (0), a full tier (the last
// lossy one) and perhaps an exact one behind it, after which the page is bit for bit the source; a monolithic one has a single tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "kv/geometry.h"
#include "kv/view.h"
#include "lynx/status.h"

namespace lynx::codec {

/// How alg1 and lynx44 store page and chunk metadata (FORMAT, "Metadata").
enum class MetaFormat : std::uint8_t { f32 = 0, f16 = 1, q8 = 2 };

inline constexpr std::uint32_t kChunkTokensMax = 1024;
inline constexpr std::uint32_t kExactTokensMax = 1024;  ///< per end of a sequence
inline constexpr std::size_t kTiersMax = 8;
inline constexpr std::size_t kPayloadBytesMax = std::size_t{64} << 20;

/// Everything that two nodes must agree on besides the codec's name. Serialised into every payload header.
struct CodecParams {
    float alpha = 255.0F;             ///< alpha-law curvature, > 0; codecs without an alpha-law ignore it
    std::uint16_t chunk_tokens = 32;  ///< C, 1..kChunkTokensMax
    std::uint16_t page_tokens = 256;  ///< P, 1..kv::kPageTokensMax
    MetaFormat meta = MetaFormat::f32;
    std::uint16_t sinks = 4;    ///< first tokens of the sequence kept exact in the anchor (nested44, lynxt)
    std::uint16_t recent = 16;  ///< newest tokens of the prompt kept exact in the anchor (nested44, lynxt)
    std::uint64_t profile = 0;  ///< hash of the calibration profile (profile.h); 0: none (lynxt)
    float step = 0;             ///< finest step over the rms of the coefficients, 0: the codec's default (lynxt)
    std::uint8_t cuts = 0;      ///< bits that the anchor (0-3) and the second tier (4-7) lack; 0: the default (lynxt)
    bool operator==(const CodecParams&) const = default;
};

/// What a page is besides its elements. A codec that needs any of it to decode carries it in its payload (FORMAT, "Context"),
/// so decode() is told nothing. The default is a page of values at the start of a sequence of unknown length.
struct PageContext {
    std::uint32_t first_token = 0;      ///< position of the page's first token
    std::uint32_t sequence_tokens = 0;  ///< of the whole sequence (0 in a file without one: nothing is kept exact)
    std::uint16_t layer = 0;            ///< below kv::kLayersMax
    std::uint16_t layers = 0;           ///< of the model (0: unknown); only encoders look at it
    kv::Kind kind = kv::Kind::value;
    std::uint16_t head_channels = 0;  ///< channels per head, which divide the page's; 0: unknown
    kv::Rope rope = {};               ///< what the keys carry; `dims` even and at most head_channels; 0 for values
    bool operator==(const PageContext&) const = default;
};

/// The context of page `page` of one layer's K or V. Precondition: the layer and the page exist.
[[nodiscard]] PageContext page_context(const kv::Geometry& geometry, std::uint32_t layer, kv::Kind kind,
                                       kv::Paging paging, std::uint32_t page);

struct CodecInfo {
    std::string name;        ///< registry name, e.g. "nested44" or "nested44-mono"
    std::uint8_t tiers = 1;  ///< payloads per page
    std::string summary;     ///< one line for --help and inspect
    bool exact = false;      ///< the last tier is the exact one: it restores every bit
};

/// The last lossy tier; the only one of a codec that has no other.
[[nodiscard]] inline std::uint8_t full_tier(const CodecInfo& codec) noexcept {
    return static_cast<std::uint8_t>(codec.tiers - (codec.exact && codec.tiers > 1 ? 2 : 1));
}

/// Stateless and immutable after construction; all methods may be called from several threads at once.
class Codec {
public:
    virtual ~Codec() = default;
    [[nodiscard]] virtual const CodecInfo& info() const noexcept = 0;
    [[nodiscard]] virtual const CodecParams& params() const noexcept = 0;

    /// Upper bound in bytes of tier `tier` for any page of this shape, header included.
    [[nodiscard]] virtual std::size_t encoded_bytes_max(std::uint32_t tokens, std::uint32_t channels, kv::DType dtype,
                                                        std::uint8_t tier) const noexcept = 0;

    /// Encodes one page; out[t] is replaced by tier t's payload (its capacity is reused). `out.size() == info().tiers`.
    /// Never fails on finite input of a legal shape and context. invalid_argument: empty or oversized page, impossible context,
    /// or a non-finite element, unless the codec is an exact one.
    [[nodiscard]] virtual Status encode(kv::ConstView page, const PageContext& context,
                                        std::span<base::Bytes> out) const = 0;

    /// Decodes tier payloads.size() - 1 into dst (shape and dtype must match the payload's). Hostile bytes are safe:
    /// truncated, corrupt, unsupported_version or invalid_argument, and dst is then unspecified but in bounds.
    [[nodiscard]] virtual Status decode(std::span<const base::ByteView> payloads, kv::View dst) const = 0;

    /// All-in bits per element of `tier` alone for a page that encoded to `bytes` are simply 8 * bytes / elements;
    /// nothing here is estimated.
};

/// What a codec's kernels run on. All backends give the same bytes; a codec without kernels for one uses its scalar code there.
struct BackendInfo {
    std::string name;       ///< "scalar", or a SIMD target: "sse4", "avx2", "avx3", "avx3_dl"
    bool runnable = false;  ///< on this CPU
};

/// All backends of this build, best first; `scalar`, the last, always runs.
[[nodiscard]] std::vector<BackendInfo> list_backends();

/// Makes the codec of that registry name on a backend, by default the best runnable one. invalid_argument: unknown name or backend
/// (the message lists all), backend that this CPU does not run, parameters out of range.
[[nodiscard]] Result<std::unique_ptr<Codec>> make_codec(std::string_view name, const CodecParams& params,
                                                        std::string_view backend = {});

/// All registry names, default first. "<name>-mono" exists for every progressive codec and is listed too.
[[nodiscard]] std::vector<CodecInfo> list_codecs();

inline constexpr std::string_view kDefaultCodec = "nested44";

}  // namespace lynx::codec
