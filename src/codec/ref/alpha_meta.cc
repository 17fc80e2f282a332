#include "codec/ref/alpha_meta.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace lynx::codec {
namespace {

constexpr double kEpsilon = 1e-12;  // Algorithm 1's guard against division by zero
constexpr float kF32Max = 0x1.FFFFFEp127F;

template <class T>
void put(std::byte* array, std::size_t index, T value) noexcept {
    std::memcpy(array + index * sizeof(T), &value, sizeof(T));
}

template <class T>
T get(const std::byte* array, std::size_t index) noexcept {
    T value{};
    std::memcpy(&value, array + index * sizeof(T), sizeof(T));
    return value;
}

float narrow(double x) noexcept { return static_cast<float>(std::clamp<double>(x, -kF32Max, kF32Max)); }

/// What the encoder divides by: the stored value, or for float32 the exact one plus epsilon, as in the paper.
double inverse(double x) noexcept { return x > 0 ? 1.0 / x : 0.0; }

}  // namespace

/// Byte offsets of the four arrays and the sizes of their elements.
struct AlphaMeta::Layout {
    std::size_t gamma_bytes = 0;
    std::size_t chunk_bytes = 0;
    std::size_t gamma_scale = 0;
    std::size_t mu = 0;
    std::size_t sigma = 0;
    std::size_t end = 0;
};

AlphaMeta::Layout AlphaMeta::layout(CoreShape s) const noexcept {
    Layout l;
    l.gamma_bytes = format_ == MetaFormat::f32 ? 4 : 2;
    l.chunk_bytes = format_ == MetaFormat::f32 ? 4 : (format_ == MetaFormat::f16 ? 2 : 1);
    const std::size_t per_chunk = std::size_t{chunks(s)} * s.channels * l.chunk_bytes;
    l.gamma_scale = s.channels * l.gamma_bytes;
    l.mu = 2 * l.gamma_scale;
    l.sigma = l.mu + per_chunk;
    l.end = l.sigma + per_chunk;
    return l;
}

std::size_t AlphaMeta::bytes(CoreShape s) const noexcept { return layout(s).end; }

/// One channel's gamma: the stored numbers, and what the encoder normalises with.
struct AlphaMeta::Page {
    double min = 0;
    double scale = 0;
};

namespace {

void chunk_columns(const float* tile, std::uint32_t rows, float* __restrict min, float* __restrict max,
                   double* __restrict sum) noexcept {
    for (std::uint32_t c = 0; c < kTileChannels; ++c) {
        min[c] = max[c] = tile[c];
        sum[c] = tile[c];
    }
    for (std::uint32_t t = 1; t < rows; ++t) {
        const float* row = tile + std::size_t{t} * kTileChannels;
        for (std::uint32_t c = 0; c < kTileChannels; ++c) {
            min[c] = row[c] < min[c] ? row[c] : min[c];
            max[c] = row[c] > max[c] ? row[c] : max[c];
            sum[c] += static_cast<double>(row[c]);
        }
    }
}

}  // namespace

void AlphaMeta::encode(const float* tile, CoreShape s, ChannelSpan span, std::byte* meta,
                       std::span<AlphaNormaliser> normaliser) const noexcept {
    const Layout l = layout(s);
    float min[kTileChannels];
    float max[kTileChannels];
    double sum[kTileChannels];
    Page page[kTileChannels];
    chunk_columns(tile, s.tokens, min, max, sum);
    for (std::uint32_t c = 0; c < span.count; ++c) {
        const double range = static_cast<double>(max[c]) - static_cast<double>(min[c]);
        const std::size_t at = span.first + c;
        if (format_ == MetaFormat::f32) {
            put(meta, at, min[c]);
            put(meta + l.gamma_scale, at, narrow(range));
            page[c] = {static_cast<double>(min[c]), range + kEpsilon};
            continue;
        }
        // Half the range is stored: max - min of float16 data can pass float16's largest value, half of it cannot.
        const std::uint16_t low = base::f32_to_f16_down(min[c]);
        const double covered = std::max(0.0, static_cast<double>(max[c]) - static_cast<double>(base::f16_to_f32(low)));
        const float half_range = narrow(covered * 0.5);
        const std::uint16_t half = base::f32_to_f16_up(
            static_cast<double>(half_range) < covered * 0.5 ? std::nextafter(half_range, kF32Max) : half_range);
        put(meta, at, low);
        put(meta + l.gamma_scale, at, half);
        page[c] = {static_cast<double>(base::f16_to_f32(low)), 2.0 * static_cast<double>(base::f16_to_f32(half))};
    }

    for (std::uint32_t k = 0; k < chunks(s); ++k) {
        const std::uint32_t first = k * chunk_tokens_;
        const std::uint32_t rows = std::min(chunk_tokens_, s.tokens - first);
        chunk_columns(tile + std::size_t{first} * kTileChannels, rows, min, max, sum);
        for (std::uint32_t c = 0; c < span.count; ++c) {
            const std::size_t at = std::size_t{k} * s.channels + span.first + c;
            const double scale = page[c].scale;
            const double per_scale = inverse(scale);
            const auto normalised = [&](double x) { return (x - page[c].min) * per_scale; };
            double mu = normalised(sum[c] / rows);
            const auto spread = [&] {
                return std::max(
                    {normalised(static_cast<double>(max[c])) - mu, mu - normalised(static_cast<double>(min[c])), 0.0});
            };
            double sigma = 0;
            switch (format_) {
                case MetaFormat::f32:
                    sigma = spread();
                    put(meta + l.mu, at, narrow(mu));
                    put(meta + l.sigma, at, narrow(sigma));
                    sigma += kEpsilon;
                    break;
                case MetaFormat::f16: {
                    const std::uint16_t m = base::f32_to_f16(std::clamp(narrow(mu), -base::kF16Max, base::kF16Max));
                    mu = static_cast<double>(base::f16_to_f32(m));
                    const std::uint16_t d = base::f32_to_f16_up(std::nextafter(narrow(spread()), kF32Max));
                    sigma = static_cast<double>(base::f16_to_f32(d));
                    put(meta + l.mu, at, m);
                    put(meta + l.sigma, at, d);
                    break;
                }
                case MetaFormat::q8: {
                    const double m = std::clamp(std::floor(mu * 255.0 + 0.5), 0.0, 255.0);
                    mu = static_cast<double>(static_cast<float>(m) / 255.0F);
                    const double d = std::clamp(std::ceil(spread() * 255.0), 0.0, 255.0);
                    sigma = static_cast<double>(static_cast<float>(d) / 255.0F);
                    put(meta + l.mu, at, static_cast<std::uint8_t>(m));
                    put(meta + l.sigma, at, static_cast<std::uint8_t>(d));
                    break;
                }
            }
            normaliser[k].center[c] = page[c].min + mu * scale;
            normaliser[k].inverse_spread[c] = inverse(scale * sigma);
        }
    }
}

bool AlphaMeta::decode(const std::byte* meta, CoreShape s, ChannelSpan span, std::uint32_t k,
                       AlphaTileMeta& out) const noexcept {
    const Layout l = layout(s);
    bool valid = true;
    for (std::uint32_t c = 0; c < span.count; ++c) {
        const std::size_t page = span.first + c;
        const std::size_t chunk = std::size_t{k} * s.channels + page;
        if (format_ == MetaFormat::f32) {
            out.gamma_min[c] = get<float>(meta, page);
            out.gamma_scale[c] = get<float>(meta + l.gamma_scale, page);
        } else {
            out.gamma_min[c] = base::f16_to_f32(get<std::uint16_t>(meta, page));
            out.gamma_scale[c] = 2.0F * base::f16_to_f32(get<std::uint16_t>(meta + l.gamma_scale, page));
        }
        switch (format_) {
            case MetaFormat::f32:
                out.mu[c] = get<float>(meta + l.mu, chunk);
                out.sigma[c] = get<float>(meta + l.sigma, chunk);
                break;
            case MetaFormat::f16:
                out.mu[c] = base::f16_to_f32(get<std::uint16_t>(meta + l.mu, chunk));
                out.sigma[c] = base::f16_to_f32(get<std::uint16_t>(meta + l.sigma, chunk));
                break;
            case MetaFormat::q8:
                out.mu[c] = static_cast<float>(get<std::uint8_t>(meta + l.mu, chunk)) / 255.0F;
                out.sigma[c] = static_cast<float>(get<std::uint8_t>(meta + l.sigma, chunk)) / 255.0F;
                break;
        }
        valid = valid && std::isfinite(out.gamma_min[c]) && std::isfinite(out.mu[c]) && out.gamma_scale[c] >= 0 &&
                out.gamma_scale[c] <= kF32Max && out.sigma[c] >= 0 && out.sigma[c] <= kF32Max;
    }
    return valid;
}

}  // namespace lynx::codec
