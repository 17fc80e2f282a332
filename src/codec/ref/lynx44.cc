#include "codec/ref/lynx44.h"

#include <cstring>

#include "codec/nibbles.h"
#include "codec/ref/alpha_coder.h"
#include "codec/tile.h"

namespace lynx::codec {
namespace {

class Lynx44 final : public AlphaCoder {
public:
    explicit Lynx44(const CodecParams& params) noexcept : AlphaCoder(params, kLynx44Levels) {}

    [[nodiscard]] CodecId id() const noexcept override { return CodecId::lynx44; }

protected:
    [[nodiscard]] std::size_t anchor_row_bytes(std::uint32_t channels) const noexcept override {
        return nibble_row_bytes(channels);
    }

    // The nibble is Q_anc in two's complement, the digit Q_anc + 8: they differ in the top bit.
    void pack_anchor_row(const std::uint8_t* digits, std::uint32_t channels, std::byte* row) const noexcept override {
        for (std::uint32_t k = 0; k < tile_count(channels); ++k) {
            const ChannelSpan span = tile_span(channels, k);
            std::uint8_t nibbles[kTileChannels] = {};
            for (std::uint32_t c = 0; c < span.count; ++c) {
                nibbles[c] = digits[span.first + c] ^ 8U;
            }
            pack_nibbles(nibbles, span, row);
        }
    }

    [[nodiscard]] bool unpack_anchor_row(const std::byte* row, std::uint32_t channels,
                                         std::uint8_t* digits) const noexcept override {
        for (std::uint32_t k = 0; k < tile_count(channels); ++k) {
            const ChannelSpan span = tile_span(channels, k);
            std::uint8_t nibbles[kTileChannels];
            unpack_nibbles(row, span, nibbles);
            for (std::uint32_t c = 0; c < span.count; ++c) {
                digits[span.first + c] = nibbles[c] ^ 8U;
            }
        }
        return true;
    }

    [[nodiscard]] std::size_t table_bytes() const noexcept override { return magnitudes() * sizeof(std::uint16_t); }

    void write_table(const AnchorBins& bins, std::byte* table) const noexcept override {
        for (std::uint32_t v = 0; v < magnitudes(); ++v) {
            const std::uint16_t centroid =
                alpha_centroid(bins.sum[v], bins.count[v], law().magnitude(static_cast<int>(16 * v)));
            std::memcpy(table + v * sizeof centroid, &centroid, sizeof centroid);
        }
    }

    [[nodiscard]] float anchor_magnitude(const std::byte* table, std::uint32_t v) const noexcept override {
        std::uint16_t centroid = 0;
        std::memcpy(&centroid, table + v * sizeof centroid, sizeof centroid);
        return centroid_magnitude(centroid);
    }
};

}  // namespace

std::unique_ptr<PageCoder> make_lynx44(const CodecParams& params) { return std::make_unique<Lynx44>(params); }

}  // namespace lynx::codec
