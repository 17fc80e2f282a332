#include "codec/context.h"

#include <cstring>
#include <limits>

#include "base/try.h"

namespace lynx::codec {
namespace {

constexpr std::uint8_t kFlagInterleaved = 1;

Status corrupt(std::string_view what, std::uint64_t actual) {
    return {ErrorCode::corrupt, "page context: " + std::string(what) + ": actual " + std::to_string(actual)};
}

}  // namespace

PageContext page_context(const kv::Geometry& geometry, std::uint32_t layer, kv::Kind kind, kv::Paging paging,
                         std::uint32_t page) {
    const kv::LayerGeometry& g = geometry.layers[layer];
    PageContext context{.first_token = paging.first_token(page),
                        .sequence_tokens = paging.tokens,
                        .layer = static_cast<std::uint16_t>(layer),
                        .kind = kind};
    const std::uint32_t head = kind == kv::Kind::value ? g.value_dim : g.key_dim;
    context.head_channels = static_cast<std::uint16_t>(head <= std::numeric_limits<std::uint16_t>::max() ? head : 0);
    if (kind == kv::Kind::key && g.rope.dims <= context.head_channels) {
        context.rope = g.rope;
    }
    return context;
}

Status validate_context(const PageContext& c, std::uint32_t channels) {
    if (c.first_token > kv::kContextTokensMax) {
        return corrupt("first token", c.first_token);
    }
    if (c.layer >= kv::kLayersMax) {
        return corrupt("layer", c.layer);
    }
    if (c.kind > kv::Kind::latent) {
        return corrupt("kind", static_cast<std::uint64_t>(c.kind));
    }
    if (c.head_channels != 0 && channels % c.head_channels != 0) {
        return corrupt("channels per head", c.head_channels);
    }
    if (c.rope.dims == 0) {
        return c.rope == kv::Rope{} ? Status{} : corrupt("rotary parameters without rotated channels", 0);
    }
    if (c.kind == kv::Kind::value || c.rope.dims % 2 != 0 || c.rope.dims > c.head_channels) {
        return corrupt("rotated channels", c.rope.dims);
    }
    if (!(c.rope.base > 1.0F && c.rope.base <= kRopeBaseMax)) {
        return corrupt("rotary base", 0);
    }
    if (!(c.rope.scale >= kRopeScaleMin && c.rope.scale <= kRopeScaleMax)) {
        return corrupt("rotary scale", 0);
    }
    return {};
}

void write_context(const PageContext& c, std::span<std::byte, kContextBytes> out) noexcept {
    std::byte* at = out.data();
    const auto put = [&at](auto value) {
        std::memcpy(at, &value, sizeof value);
        at += sizeof value;
    };
    put(c.first_token);
    put(c.rope.base);
    put(c.rope.scale);
    put(static_cast<std::uint16_t>(c.rope.dims));
    put(c.head_channels);
    put(c.layer);
    put(c.kind);
    put(static_cast<std::uint8_t>(c.rope.interleaved ? kFlagInterleaved : 0));
}

Result<PageContext> read_context(std::span<const std::byte, kContextBytes> bytes, std::uint32_t channels) {
    base::Reader r(bytes);
    PageContext c;
    c.first_token = r.get<std::uint32_t>();
    c.rope.base = r.get<float>();
    c.rope.scale = r.get<float>();
    c.rope.dims = r.get<std::uint16_t>();
    c.head_channels = r.get<std::uint16_t>();
    c.layer = r.get<std::uint16_t>();
    c.kind = r.get<kv::Kind>();
    const auto flags = r.get<std::uint8_t>();
    if ((flags & ~kFlagInterleaved) != 0) {
        return corrupt("flags", flags);
    }
    c.rope.interleaved = flags != 0;
    LYNX_TRY(validate_context(c, channels));
    return c;
}

}  // namespace lynx::codec
