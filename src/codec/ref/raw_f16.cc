#include "codec/ref/raw_f16.h"

#include "codec/tile.h"

namespace lynx::codec {
namespace {

class RawF16 final : public PageCoder {
public:
    [[nodiscard]] CodecId id() const noexcept override { return CodecId::f16; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return std::size_t{s.tokens} * s.channels * 2;
    }

    void encode(kv::ConstView core, const PageContext& /*context*/,
                std::span<std::span<std::byte>> bodies) const override {
        if (core.dtype == kv::DType::f16) {
            copy_rows_out(core, bodies[0].data());
            return;
        }
        const kv::View body = kv::token_major(bodies[0].data(), kv::DType::f16, core.tokens, core.channels);
        const auto tile = make_tile(core.tokens);
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            const ChannelSpan span = tile_span(core.channels, k);
            load_tile(core, span, tile.get());
            store_tile(tile.get(), core.tokens, body, 0, span);
        }
    }

    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& /*context*/,
                                kv::View dst) const override {
        const kv::ConstView body = kv::token_major(bodies[0].data(), kv::DType::f16, dst.tokens, dst.channels);
        if (find_non_finite(body)) {
            return {ErrorCode::corrupt, "f16: an element is NaN or infinite"};
        }
        if (dst.dtype == kv::DType::f16) {
            copy_rows_in(bodies[0].data(), dst);
            return {};
        }
        float tile[kTileTokens * kTileChannels];
        for (std::uint32_t k = 0; k < tile_count(dst.channels); ++k) {
            const ChannelSpan span = tile_span(dst.channels, k);
            for (std::uint32_t first = 0; first < dst.tokens; first += kTileTokens) {
                const std::uint32_t rows = std::min(kTileTokens, dst.tokens - first);
                load_tile(body.slice_tokens(first, rows), span, tile);
                store_tile(tile, rows, dst, first, span);
            }
        }
        return {};
    }

    [[nodiscard]] Status symbols(std::span<const base::ByteView> /*bodies*/, CoreShape /*shape*/,
                                 PageSymbols& /*out*/) const override {
        return {};
    }
};

}  // namespace

std::unique_ptr<PageCoder> make_raw_f16() { return std::make_unique<RawF16>(); }

}  // namespace lynx::codec
