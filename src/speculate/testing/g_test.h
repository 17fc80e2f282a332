// Test support: the G-test (log-likelihood ratio) of counts against a distribution, and its power against an alternative. Not part of
// the library.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>

namespace lynx::speculate::testing {

/// P(a, x), the regularised lower incomplete gamma function: series below the mean, Lentz's continued fraction above (DLMF 8.11.4, 8.9.2).
inline double gamma_p(double a, double x) {
    if (x <= 0) {
        return 0;
    }
    const double front = std::exp(a * std::log(x) - x - std::lgamma(a));
    if (x < a + 1) {
        double term = 1 / a;
        double sum = term;
        for (double n = a + 1; term > sum * 1e-17; ++n) {
            term *= x / n;
            sum += term;
        }
        return sum * front;
    }
    double b = x + 1 - a;
    double c = 1e300;
    double d = 1 / b;
    double h = d;
    for (int i = 1; i < 10000; ++i) {
        const double an = -i * (i - a);
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        h *= c * d;
        if (std::abs(c * d - 1) < 1e-16) {
            break;
        }
    }
    return 1 - front * h;
}

inline double chi_square_cdf(double x, double degrees) { return gamma_p(degrees / 2, x / 2); }

/// The value that a chi-square variable exceeds with probability `alpha`.
inline double chi_square_critical(double alpha, double degrees) {
    double low = 0;
    double high = 100 + 20 * degrees;
    for (int i = 0; i < 200; ++i) {
        const double middle = (low + high) / 2;
        (1 - chi_square_cdf(middle, degrees) > alpha ? low : high) = middle;
    }
    return high;
}

/// P(noncentral chi-square > x): the Poisson(noncentrality / 2) mixture of central ones with 2 more degrees per event.
inline double noncentral_chi_square_tail(double x, double degrees, double noncentrality) {
    const double mean = noncentrality / 2;
    const double spread = 12 * std::sqrt(mean) + 20;
    double tail = 0;
    for (double n = std::max(0.0, std::floor(mean - spread)); n <= mean + spread; ++n) {
        const double weight = std::exp(n * std::log(mean) - mean - std::lgamma(n + 1));
        tail += weight * (1 - chi_square_cdf(x, degrees + 2 * n));
    }
    return tail;
}

template <class Key>
using Counts = std::map<Key, std::uint64_t>;

/// 2 sum O ln(O / E); infinite when something impossible was observed. Degrees of freedom: cells - 1.
template <class Key>
double g_statistic(const Counts<Key>& counts, const std::map<Key, double>& expected) {
    std::uint64_t draws = 0;
    for (const auto& [key, count] : counts) {
        draws += count;
    }
    double g = 0;
    for (const auto& [key, count] : counts) {
        const auto it = expected.find(key);
        if (it == expected.end()) {
            return INFINITY;
        }
        const auto observed = static_cast<double>(count);
        g += 2 * observed * std::log(observed / (static_cast<double>(draws) * it->second));
    }
    return g;
}

/// Noncentrality of G when `actual` is the truth and `expected` is tested: 2 draws KL(actual || expected).
template <class Key>
double g_noncentrality(const std::map<Key, double>& actual, const std::map<Key, double>& expected, double draws) {
    double kl = 0;
    for (const auto& [key, p] : actual) {
        kl += p > 0 ? p * std::log(p / expected.at(key)) : 0;
    }
    return 2 * draws * kl;
}

}  // namespace lynx::speculate::testing
