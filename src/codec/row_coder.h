// RowCoder: a codec that handles every row of a tile on its own. It owns the loops over tiles and rows.
#pragma once

#include "codec/coder.h"
#include "codec/tile.h"

namespace lynx::codec {

class RowCoder : public PageCoder {
public:
    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override;
    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const final;
    /// Shows nothing; a coder that has symbols overrides it.
    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape s, PageSymbols& out) const override;

protected:
    /// Which row of which page, and its channels.
    struct Place {
        CoreShape shape;
        std::uint32_t token = 0;
        ChannelSpan span;
    };
    /// Calls encode_row for every row of one tile [tokens][kTileChannels].
    void encode_rows(const float* tile, CoreShape shape, ChannelSpan span,
                     std::span<const std::span<std::byte>> bodies) const;
    /// `row` [kTileChannels], zeros beyond the span.
    virtual void encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const = 0;
    /// False: a stored number cannot have been written. Fills all of `row`.
    [[nodiscard]] virtual bool decode_row(std::span<const base::ByteView> bodies, const Place& at,
                                          float* row) const = 0;
};

}  // namespace lynx::codec
