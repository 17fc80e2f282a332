#include "codec/baseline/rotation.h"

#include <cmath>

#include "codec/math/scalar_math.h"

namespace lynx::codec {
namespace {

constexpr double kTwoPi = 0x1.921FB54442D18p2;
constexpr double kInverseTwoPi = 0x1.45F306DC9C883p-3;

/// root^count = value, by 100 bisection steps: the lower end of the last interval.
double root(double value, std::size_t count) noexcept {
    double lo = 1.0;
    double hi = value;
    for (int step = 0; step < 100; ++step) {
        const double middle = 0.5 * (lo + hi);
        double p = 1.0;
        for (std::size_t i = 0; i < count; ++i) {
            p *= middle;
        }
        (p > value ? hi : lo) = middle;
    }
    return lo;
}

/// To float32; only turning the very largest numbers could pass its range.
float narrow_rotated(double x) noexcept {
    return static_cast<float>(limited(x, -static_cast<double>(kF32Max), static_cast<double>(kF32Max)));
}

}  // namespace

SineCosine sine_cosine(std::uint64_t phase) noexcept {
    const std::uint64_t quadrant = (phase + (std::uint64_t{1} << 61U)) >> 62U;
    const auto rest = static_cast<std::int64_t>(phase - (quadrant << 62U));  // -1/8 .. 1/8 of a turn
    const double a = static_cast<double>(rest >> 9) * (kTwoPi * 0x1p-55);
    const double z = a * a;
    double s = -1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = s * z + 1.0;
    s = s * a;
    double c = 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = c * z - 0.5;
    c = c * z + 1.0;
    switch (quadrant & 3U) {
        case 0: return {s, c};
        case 1: return {c, -s};
        case 2: return {-s, -c};
        default: return {-c, s};
    }
}

Rotation::Rotation(const PageContext& context) : context_(context), step_(context.rope.dims / 2) {
    if (step_.empty()) {
        return;
    }
    const double growth = root(static_cast<double>(context.rope.base), step_.size());
    double p = 1.0;
    for (std::uint64_t& step : step_) {
        const double turns = static_cast<double>(context.rope.scale) / p * kInverseTwoPi;
        step = static_cast<std::uint64_t>((turns - std::floor(turns)) * 0x1p64);
        p *= growth;
    }
}

template <bool kBack>
void Rotation::turn(std::vector<float>& x, std::uint32_t tokens, std::uint32_t channels) const {
    const std::size_t pairs = step_.size();
    if (pairs == 0) {
        return;
    }
    const bool interleaved = context_.rope.interleaved;
    for (std::uint32_t t = 0; t < tokens; ++t) {
        const std::uint64_t position = std::uint64_t{context_.first_token} + t;
        for (std::size_t i = 0; i < pairs; ++i) {
            const SineCosine angle = sine_cosine(position * step_[i]);
            const double sine = kBack ? -angle.sine : angle.sine;
            for (std::size_t head = 0; head < channels; head += context_.head_channels) {
                float* row = x.data() + std::size_t{t} * channels + head;
                float& first = row[interleaved ? 2 * i : i];
                float& second = row[interleaved ? 2 * i + 1 : i + pairs];
                const auto a = static_cast<double>(first);
                const auto b = static_cast<double>(second);
                first = narrow_rotated(a * angle.cosine - b * sine);
                second = narrow_rotated(a * sine + b * angle.cosine);
            }
        }
    }
}

void Rotation::apply(std::vector<float>& x, std::uint32_t tokens, std::uint32_t channels) const {
    turn<false>(x, tokens, channels);
}
void Rotation::undo(std::vector<float>& x, std::uint32_t tokens, std::uint32_t channels) const {
    turn<true>(x, tokens, channels);
}

}  // namespace lynx::codec
