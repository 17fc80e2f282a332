// Counter-based random numbers: a draw is a pure function of (seed, counter), so a run replays from its seed and two
// nodes that share a seed draw the same noise without talking to each other. Not for secrets.
#pragma once

#include <cstdint>

namespace lynx::base {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits with full avalanche.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

/// 64 bits keyed by (seed, a, b): the same on every machine.
[[nodiscard]] constexpr std::uint64_t keyed_bits(std::uint64_t seed, std::uint64_t a, std::uint64_t b) noexcept {
    return mix64(mix64(mix64(seed) ^ a) ^ b);
}

/// Uniform in the open interval (0, 1), 53 bits, never 0 and never 1.
[[nodiscard]] constexpr double to_unit(std::uint64_t bits) noexcept {
    return (static_cast<double>(bits >> 11) + 0.5) * 0x1.0p-53;
}

/// A stream of draws for tests and the simulator; satisfies UniformRandomBitGenerator.
class Rng {
public:
    using result_type = std::uint64_t;
    explicit constexpr Rng(std::uint64_t seed) noexcept : seed_(seed) {}
    constexpr std::uint64_t operator()() noexcept { return keyed_bits(seed_, counter_++, 0); }
    constexpr double unit() noexcept { return to_unit((*this)()); }
    /// Uniform in [0, n) up to a bias below n / 2^53. Precondition: n > 0.
    constexpr std::uint64_t below(std::uint64_t n) noexcept {
        return static_cast<std::uint64_t>(unit() * static_cast<double>(n));
    }
    static constexpr std::uint64_t min() noexcept { return 0; }
    static constexpr std::uint64_t max() noexcept { return ~std::uint64_t{0}; }

private:
    std::uint64_t seed_;
    std::uint64_t counter_ = 0;
};

}  // namespace lynx::base
