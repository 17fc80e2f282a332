#include "codec/baseline/turboquant.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "base/rng.h"
#include "codec/row_coder.h"
#include "codec/symbol_rows.h"

namespace lynx::codec {
namespace {

// A block is a tile's row.
constexpr std::uint32_t kBlock = kTileChannels;
constexpr float kUnit = 0x1p-15F;  // levels count 2^-12, and two Hadamard transforms multiply by 64 = 8 * 8

/// The positive Lloyd-Max levels of the standard normal distribution in 2^-12 (Max, "Quantizing for Minimum Distortion", 1960).
constexpr std::array<std::int32_t, 4> kLevels3{1004, 3097, 5505, 8814};
constexpr std::array<std::int32_t, 8> kLevels4{526, 1590, 2690, 3860, 5145, 6628, 8475, 11193};

/// Unnormalised: twice is 64-fold.
template <class T>
void hadamard(T* __restrict x) noexcept {
    for (std::uint32_t half = 1; half < kBlock; half *= 2) {
        for (std::uint32_t first = 0; first < kBlock; first += 2 * half) {
            for (std::uint32_t i = first; i < first + half; ++i) {
                const T a = x[i];
                const T b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
}

/// Bit i: whether channel i of the block changes its sign.
std::uint64_t signs(std::uint32_t first_channel) noexcept { return base::mix64(first_channel / kBlock + 1U); }

class TurboQuant final : public RowCoder {
public:
    TurboQuant(CodecId id, unsigned bits) noexcept
        : id_(id),
          bits_(bits),
          levels_(bits == 3 ? std::span<const std::int32_t>(kLevels3) : std::span<const std::int32_t>(kLevels4)) {}

    [[nodiscard]] CodecId id() const noexcept override { return id_; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return std::size_t{s.tokens} * tile_count(s.channels) * block_bytes();
    }

protected:
    void encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const override {
        double y[kBlock];
        double energy = 0;
        const std::uint64_t flip = signs(at.span.first);
        for (std::uint32_t c = 0; c < kBlock; ++c) {
            const double x = row[c];
            energy += x * x;
            y[c] = (flip >> c & 1U) != 0 ? -x : x;
        }
        hadamard(y);
        const double root_mean_square = std::sqrt(energy) / 8.0;
        const std::uint16_t stored = base::f32_to_f16(static_cast<float>(std::min(root_mean_square, 65504.0)));
        const auto g = static_cast<double>(base::f16_to_f32(stored));
        std::uint8_t symbols[kBlock];
        for (std::uint32_t c = 0; c < kBlock; ++c) {
            symbols[c] = quantise(g > 0 ? y[c] / (8.0 * g) * 0x1p12 : 0.0);
        }
        std::byte* out = bodies[0].data() + block_offset(at);
        std::memcpy(out, &stored, sizeof stored);
        pack_symbols(bits_, symbols, {0, kBlock}, out + sizeof stored);
    }

    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, const Place& at, float* row) const override {
        const std::byte* in = bodies[0].data() + block_offset(at);
        std::uint16_t stored = 0;
        std::memcpy(&stored, in, sizeof stored);
        std::uint8_t symbols[kBlock];
        unpack_symbols(bits_, in + sizeof stored, {0, kBlock}, symbols);
        std::int32_t y[kBlock];
        const auto half = static_cast<std::uint8_t>(levels_.size());
        for (std::uint32_t c = 0; c < kBlock; ++c) {
            y[c] = symbols[c] < half ? -levels_[half - 1U - symbols[c]] : levels_[symbols[c] - half];
        }
        hadamard(y);
        const float unit = base::f16_to_f32(stored) * kUnit;
        const std::uint64_t flip = signs(at.span.first);
        for (std::uint32_t c = 0; c < kBlock; ++c) {
            row[c] = static_cast<float>((flip >> c & 1U) != 0 ? -y[c] : y[c]) * unit;
        }
        return stored < 0x7C00U;
    }

private:
    /// Nearest level of u in 2^-12, in order: 0 is the lowest one.
    [[nodiscard]] std::uint8_t quantise(double u) const noexcept {
        std::size_t i = 0;
        while (i + 1 < levels_.size() && 2.0 * std::fabs(u) >= levels_[i] + levels_[i + 1]) {
            ++i;
        }
        const std::size_t half = levels_.size();
        return static_cast<std::uint8_t>(u < 0 ? half - 1 - i : half + i);
    }
    [[nodiscard]] std::size_t block_bytes() const noexcept {
        return sizeof(std::uint16_t) + symbol_row_bytes(kBlock, bits_);
    }
    [[nodiscard]] std::size_t block_offset(const Place& at) const noexcept {
        return (std::size_t{at.token} * tile_count(at.shape.channels) + at.span.first / kBlock) * block_bytes();
    }

    CodecId id_;
    unsigned bits_;
    std::span<const std::int32_t> levels_;
};

}  // namespace

std::unique_ptr<PageCoder> make_turboquant(CodecId id, unsigned bits) {
    LYNX_CHECK(bits == 3 || bits == 4);
    return std::make_unique<TurboQuant>(id, bits);
}

}  // namespace lynx::codec
