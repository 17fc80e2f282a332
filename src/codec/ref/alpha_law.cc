#include "codec/ref/alpha_law.h"

#include <cmath>
#include <limits>

namespace lynx::codec {
namespace {

/// base^n by n multiplications from 1, left to right.
double power(double base, int n) noexcept {
    double p = 1.0;
    for (int i = 0; i < n; ++i) {
        p *= base;
    }
    return p;
}

/// (1 + alpha)^(1 / levels) by 100 bisection steps: the lower end of the last interval.
double growth_per_level(double one_plus_alpha, int levels) noexcept {
    double lo = 1.0;
    double hi = one_plus_alpha;
    for (int step = 0; step < 100; ++step) {
        const double middle = 0.5 * (lo + hi);
        (power(middle, levels) > one_plus_alpha ? hi : lo) = middle;
    }
    return lo;
}

}  // namespace

AlphaLaw::AlphaLaw(float alpha, int levels, AlphaCurve curve) noexcept : levels_(levels) {
    const double a = alpha;
    const double growth = curve == AlphaCurve::linear ? 1.0 : growth_per_level(1.0 + a, levels);
    const double half_level = std::sqrt(growth);
    threshold_.fill(std::numeric_limits<float>::infinity());
    double p = 1.0;
    for (int i = 0; i < kAlphaMagnitudes; ++i) {
        double magnitude = 0;
        double threshold = 0;
        switch (curve) {
            case AlphaCurve::alpha:
                magnitude = (p - 1.0) / a;
                threshold = (p / half_level - 1.0) / a;
                break;
            case AlphaCurve::linear:
                magnitude = static_cast<double>(i) / levels;
                threshold = (i - 0.5) / levels;
                break;
            case AlphaCurve::log:
                magnitude = i == 0 ? 0.0 : p / (1.0 + a);
                threshold = p / half_level / (1.0 + a);
                break;
        }
        const auto k = static_cast<std::size_t>(i);
        magnitude_[k] = static_cast<float>(magnitude);
        if (i <= levels) {
            threshold_[k] = static_cast<float>(threshold);
        }
        p *= growth;
    }
}

void AlphaLaw::quantise(const float* __restrict a, std::uint32_t count, std::uint8_t* __restrict level) const noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
        level[i] = static_cast<std::uint8_t>(alpha_level(threshold_.data(), a[i]));
    }
}

}  // namespace lynx::codec
