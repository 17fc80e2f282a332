// The shape of a model's KV cache and the cut of a sequence into pages. Pure values, no memory.
//
// Letters: L layers, H KV heads, D head size, T tokens, P tokens per page. Channels of a layer's K or V = H * D.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lynx/status.h"

namespace lynx::kv {

enum class DType : std::uint8_t { f16 = 0, bf16 = 1, f32 = 2 };
enum class Kind : std::uint8_t { key = 0, value = 1, latent = 2 };

inline constexpr std::uint32_t kLayersMax = 1024;
inline constexpr std::uint32_t kChannelsMax = 1U << 16;  // per layer and kind
inline constexpr std::uint32_t kPageTokensMax = 4096;
inline constexpr std::uint32_t kContextTokensMax = 1U << 22;

[[nodiscard]] constexpr std::size_t dtype_bytes(DType t) noexcept { return t == DType::f32 ? 4 : 2; }

/// How a layer's keys were rotated; what un-rotating codecs need. Zero `dims` means no rotary positions.
struct Rope {
    std::uint32_t dims = 0;    ///< rotated channels per head, the first ones
    float base = 0;            ///< frequency base
    float scale = 1;           ///< linear position scale
    bool interleaved = false;  ///< pairs (2i, 2i+1); otherwise (i, i + dims/2)
    bool operator==(const Rope&) const = default;
};

struct LayerGeometry {
    std::uint32_t kv_heads = 0;
    std::uint32_t key_dim = 0;    ///< per head
    std::uint32_t value_dim = 0;  ///< per head
    DType dtype = DType::f16;
    std::uint32_t window = 0;  ///< sliding window in tokens; 0: full attention
    Rope rope;
    bool operator==(const LayerGeometry&) const = default;

    [[nodiscard]] std::uint32_t channels(Kind kind) const noexcept {
        return kv_heads * (kind == Kind::value ? value_dim : key_dim);
    }
};

struct Geometry {
    std::vector<LayerGeometry> layers;
    bool operator==(const Geometry&) const = default;

    /// Bytes that one token occupies over all layers, K and V.
    [[nodiscard]] std::size_t token_bytes() const noexcept;
    /// Elements that one token occupies over all layers, K and V.
    [[nodiscard]] std::size_t token_elements() const noexcept;
    /// invalid_argument / limit_exceeded when a field is zero or passes its named maximum.
    [[nodiscard]] Status validate() const;
};

/// Pages of P tokens over T tokens: the last one may be partial.
struct Paging {
    std::uint32_t tokens = 0;         ///< T
    std::uint32_t page_tokens = 256;  ///< P, 1..kPageTokensMax

    [[nodiscard]] std::uint32_t pages() const noexcept { return (tokens + page_tokens - 1) / page_tokens; }
    [[nodiscard]] std::uint32_t first_token(std::uint32_t page) const noexcept { return page * page_tokens; }
    [[nodiscard]] std::uint32_t tokens_in(std::uint32_t page) const noexcept {
        return std::min(page_tokens, tokens - first_token(page));
    }
};

/// Names one payload of one request. `generation` fences a restarted request from its predecessor's late frames.
struct PageKey {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::uint16_t layer = 0;
    Kind kind = Kind::key;
    std::uint8_t tier = 0;
    std::uint32_t page = 0;
    std::uint32_t first_token = 0;
    bool operator==(const PageKey&) const = default;
};

}  // namespace lynx::kv
