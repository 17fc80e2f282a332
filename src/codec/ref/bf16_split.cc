#include "codec/ref/bf16_split.h"

#include <cstring>

#include "base/half.h"
#include "codec/math/scalar_math.h"
#include "codec/row_coder.h"

namespace lynx::codec {
namespace {

constexpr std::uint8_t kMiddle = 0x80;  // of the lower byte: what the anchor leaves open is a factor of four

class Bf16Split final : public RowCoder {
public:
    [[nodiscard]] CodecId id() const noexcept override { return CodecId::bf16_split; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 2; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return std::size_t{s.tokens} * s.channels;
    }

protected:
    void encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const override {
        std::uint8_t upper[kTileChannels];
        std::uint8_t lower[kTileChannels];
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            const std::uint16_t bits = base::f32_to_bf16(limited(row[c], -base::kBf16Max, base::kBf16Max));
            upper[c] = static_cast<std::uint8_t>(bits >> 8U);
            lower[c] = static_cast<std::uint8_t>(bits);
        }
        const std::size_t offset = std::size_t{at.token} * at.shape.channels + at.span.first;
        std::memcpy(bodies[0].data() + offset, upper, at.span.count);
        std::memcpy(bodies[1].data() + offset, lower, at.span.count);
    }

    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, const Place& at, float* row) const override {
        const std::size_t offset = std::size_t{at.token} * at.shape.channels + at.span.first;
        const bool full = bodies.size() > 1;
        std::uint8_t upper[kTileChannels] = {};
        std::uint8_t lower[kTileChannels] = {};
        std::memcpy(upper, bodies[0].data() + offset, at.span.count);
        if (full) {
            std::memcpy(lower, bodies[1].data() + offset, at.span.count);
        } else {
            std::memset(lower, kMiddle, sizeof lower);
        }
        bool finite = true;
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            row[c] = base::bf16_to_f32(static_cast<std::uint16_t>(unsigned{upper[c]} << 8U | lower[c]));
            finite = finite && is_finite(row[c]);
        }
        return finite || !full;
    }
};

}  // namespace

std::unique_ptr<PageCoder> make_bf16_split() { return std::make_unique<Bf16Split>(); }

}  // namespace lynx::codec
