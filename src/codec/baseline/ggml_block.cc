#include "codec/baseline/ggml_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"
#include "codec/math/scalar_math.h"
#include "codec/row_coder.h"

namespace lynx::codec {
namespace {

constexpr std::uint32_t kHalfBlock = kBlockChannels / 2;

/// d as stored, and 1 / d of the exact one; 0 where it has no finite inverse.
struct BlockScale {
    std::uint16_t stored = 0;
    float inverse = 0;
};

BlockScale block_scale(float d) noexcept {
    const float inverse = d != 0 ? 1.0F / d : 0.0F;
    return {base::f32_to_f16(limited(d, -base::kF16Max, base::kF16Max)), is_finite(inverse) ? inverse : 0.0F};
}

/// The block with the largest magnitude at its first place (ggml keeps the first of equals).
float signed_extreme(const float* block) noexcept {
    float extreme = 0;
    for (std::uint32_t c = 0; c < kBlockChannels; ++c) {
        extreme = std::fabs(block[c]) > std::fabs(extreme) ? block[c] : extreme;
    }
    return extreme;
}

class Blocks : public RowCoder {
public:
    [[nodiscard]] std::uint8_t tiers() const noexcept final { return 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept final {
        return s.tokens * row_bytes(s.channels);
    }

protected:
    explicit Blocks(std::size_t symbol_bytes) noexcept : block_bytes_(sizeof(std::uint16_t) + symbol_bytes) {}

    virtual BlockScale quantise(const float* block, std::uint8_t* symbols) const noexcept = 0;
    virtual void dequantise(const std::uint8_t* symbols, float d, float* block) const noexcept = 0;

    void encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const final {
        std::byte* out = bodies[0].data() + row_offset(at);
        for (std::uint32_t c = 0; c < at.span.count; c += kBlockChannels, out += block_bytes_) {
            std::uint8_t symbols[kBlockChannels];
            const BlockScale scale = quantise(row + c, symbols);
            std::memcpy(out, &scale.stored, sizeof scale.stored);
            std::memcpy(out + sizeof scale.stored, symbols, block_bytes_ - sizeof scale.stored);
        }
    }

    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, const Place& at, float* row) const final {
        const std::byte* in = bodies[0].data() + row_offset(at);
        std::fill_n(row, kTileChannels, 0.0F);
        for (std::uint32_t c = 0; c < at.span.count; c += kBlockChannels, in += block_bytes_) {
            std::uint16_t stored = 0;
            std::uint8_t symbols[kBlockChannels];
            std::memcpy(&stored, in, sizeof stored);
            std::memcpy(symbols, in + sizeof stored, block_bytes_ - sizeof stored);
            if ((stored & 0x7C00U) == 0x7C00U) {
                return false;
            }
            dequantise(symbols, base::f16_to_f32(stored), row + c);
        }
        return true;
    }

private:
    [[nodiscard]] std::size_t row_bytes(std::uint32_t channels) const noexcept {
        return (channels + kBlockChannels - 1) / kBlockChannels * block_bytes_;
    }
    [[nodiscard]] std::size_t row_offset(const Place& at) const noexcept {
        return at.token * row_bytes(at.shape.channels) + at.span.first / kBlockChannels * block_bytes_;
    }

    std::size_t block_bytes_;
};

class Q8 final : public Blocks {
public:
    Q8() noexcept : Blocks(kBlockChannels) {}
    [[nodiscard]] CodecId id() const noexcept override { return CodecId::q8_0; }

protected:
    BlockScale quantise(const float* block, std::uint8_t* symbols) const noexcept override {
        const BlockScale scale = block_scale(std::fabs(signed_extreme(block)) / 127.0F);
        for (std::uint32_t c = 0; c < kBlockChannels; ++c) {
            // Half away from zero; the sum with a half is exact below 2^22.
            const float y = block[c] * scale.inverse;
            const auto q = static_cast<std::int32_t>(y < 0 ? y - 0.5F : y + 0.5F);
            symbols[c] = static_cast<std::uint8_t>(q);
        }
        return scale;
    }
    void dequantise(const std::uint8_t* symbols, float d, float* block) const noexcept override {
        for (std::uint32_t c = 0; c < kBlockChannels; ++c) {
            block[c] = static_cast<float>(static_cast<std::int8_t>(symbols[c])) * d;
        }
    }
};

class Q4 final : public Blocks {
public:
    Q4() noexcept : Blocks(kHalfBlock) {}
    [[nodiscard]] CodecId id() const noexcept override { return CodecId::q4_0; }

protected:
    BlockScale quantise(const float* block, std::uint8_t* symbols) const noexcept override {
        const BlockScale scale = block_scale(signed_extreme(block) / -8.0F);
        std::uint8_t q[kBlockChannels];
        for (std::uint32_t c = 0; c < kBlockChannels; ++c) {
            q[c] = static_cast<std::uint8_t>(std::min(15, static_cast<std::int32_t>(block[c] * scale.inverse + 8.5F)));
        }
        for (std::uint32_t c = 0; c < kHalfBlock; ++c) {
            symbols[c] = static_cast<std::uint8_t>(q[c] | unsigned{q[c + kHalfBlock]} << 4U);
        }
        return scale;
    }
    void dequantise(const std::uint8_t* symbols, float d, float* block) const noexcept override {
        for (std::uint32_t c = 0; c < kHalfBlock; ++c) {
            block[c] = static_cast<float>((symbols[c] & 15) - 8) * d;
            block[c + kHalfBlock] = static_cast<float>((symbols[c] >> 4) - 8) * d;
        }
    }
};

}  // namespace

std::unique_ptr<PageCoder> make_q8_0() { return std::make_unique<Q8>(); }
std::unique_ptr<PageCoder> make_q4_0() { return std::make_unique<Q4>(); }

}  // namespace lynx::codec
