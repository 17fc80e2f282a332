#include "codec/baseline/fp8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/math/e4m3.h"
#include "codec/row_coder.h"

namespace lynx::codec {
namespace {

/// The least float32 whose 448-fold reaches `largest`.
float scale_for(float largest) noexcept {
    const float scale = largest / kE4m3Max;
    return static_cast<double>(scale) * static_cast<double>(kE4m3Max) < static_cast<double>(largest) ? next_above(scale)
                                                                                                     : scale;
}

class Fp8 final : public RowCoder {
public:
    Fp8(CodecId id, bool scale_per_token) noexcept : id_(id), per_token_(scale_per_token) {}

    [[nodiscard]] CodecId id() const noexcept override { return id_; }
    [[nodiscard]] std::uint8_t tiers() const noexcept override { return 1; }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape s, std::uint8_t /*tier*/) const noexcept override {
        return scale_bytes(s) + std::size_t{s.tokens} * s.channels;
    }

    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const override {
        const auto tile = make_tile(core.tokens);
        std::vector<float> largest(per_token_ ? core.tokens : 1U);
        for (std::uint32_t k = 0; k < tile_count(core.channels); ++k) {
            load_tile(core, tile_span(core.channels, k), tile.get());
            for (std::uint32_t i = 0; i < core.tokens * kTileChannels; ++i) {
                float& m = largest[per_token_ ? i / kTileChannels : 0];
                m = std::max(m, std::fabs(tile[i]));
            }
        }
        for (float& m : largest) {
            m = scale_for(m);
        }
        std::memcpy(bodies[0].data(), largest.data(), largest.size() * sizeof(float));
        RowCoder::encode(core, context, bodies);
    }

protected:
    void encode_row(const float* row, const Place& at, std::span<const std::span<std::byte>> bodies) const override {
        const float scale = scale_at(bodies[0].data(), at.token);
        std::uint8_t q[kTileChannels];
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            q[c] = f32_to_e4m3(scale > 0 ? row[c] / scale : 0.0F);
        }
        std::memcpy(bodies[0].data() + row_offset(at), q, at.span.count);
    }

    [[nodiscard]] bool decode_row(std::span<const base::ByteView> bodies, const Place& at, float* row) const override {
        const float scale = scale_at(bodies[0].data(), at.token);
        std::uint8_t q[kTileChannels] = {};
        std::memcpy(q, bodies[0].data() + row_offset(at), at.span.count);
        bool nan = false;
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            nan = nan || e4m3_is_nan(q[c]);
            row[c] = e4m3_to_f32(q[c]) * scale;
        }
        return !nan && scale >= 0 && scale <= kF32Max;
    }

private:
    [[nodiscard]] std::size_t scale_bytes(CoreShape s) const noexcept {
        return (per_token_ ? s.tokens : std::size_t{1}) * sizeof(float);
    }
    [[nodiscard]] std::size_t row_offset(const Place& at) const noexcept {
        return scale_bytes(at.shape) + std::size_t{at.token} * at.shape.channels + at.span.first;
    }
    [[nodiscard]] float scale_at(const std::byte* body, std::uint32_t token) const noexcept {
        float scale = 0;
        std::memcpy(&scale, body + (per_token_ ? std::size_t{token} : 0) * sizeof scale, sizeof scale);
        return scale;
    }

    CodecId id_;
    bool per_token_;
};

}  // namespace

std::unique_ptr<PageCoder> make_fp8(CodecId id, bool scale_per_token) {
    return std::make_unique<Fp8>(id, scale_per_token);
}

}  // namespace lynx::codec
