#include "calibrate/fit.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

namespace lynx::calibrate {
namespace {

constexpr int kMeanBits = 23;
constexpr int kScaleBits = 15;  // of the row scale's leading bit
constexpr double kEntrySpread =
    4.5;  // entries beyond this many standard deviations are cut: rare, and worth less than the rest's digits
constexpr double kSigmaFloor = 0x1p-20;  // of a coefficient over the rms: a channel that never changes

struct Block {
    Eigen::MatrixXd basis;  // [channel][coefficient], falling variance
    Eigen::VectorXd sigma;
};

Block decompose(const Statistics& s, std::uint32_t first, std::uint32_t n) {
    Eigen::MatrixXd covariance(n, n);
    for (std::uint32_t a = 0; a < n; ++a) {
        for (std::uint32_t b = 0; b < n; ++b) {
            covariance(a, b) = s.covariance(first + a, first + b);
        }
    }
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);
    return {solver.eigenvectors().rowwise().reverse(), solver.eigenvalues().cwiseMax(0).cwiseSqrt().reverse()};
}

}  // namespace

codec::ProfileMatrix fit_matrix(const Statistics& s, FitOptions options) {
    codec::ProfileMatrix m;
    m.channels = s.channels();
    m.block = options.block;
    double largest_mean = 0;
    double variance = 0;
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        largest_mean = std::max(largest_mean, std::abs(s.mean(c)));
        variance += std::max(0.0, s.covariance(c, c));
    }
    m.rms = static_cast<float>(std::max(std::sqrt(variance / m.channels), 0x1p-60));
    m.mean_exponent = static_cast<std::int8_t>(std::ilogb(std::max(largest_mean, 0x1p-60)) + 1 - kMeanBits);
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        m.mean.push_back(static_cast<std::int32_t>(std::lround(std::ldexp(s.mean(c), -m.mean_exponent))));
    }

    const std::int32_t entry_max = (1 << (options.basis_bits - 1)) - 1;
    // Entries of an orthonormal basis have a mean square of 1 / block.
    const double unit = std::min(1.0, kEntrySpread / std::sqrt(static_cast<double>(m.block))) / entry_max;
    m.scale_exponent = static_cast<std::int8_t>(std::ilogb(unit) - kScaleBits);
    m.row_scale.assign(m.channels, static_cast<std::uint16_t>(std::ldexp(unit, -m.scale_exponent)));
    m.basis.resize(std::size_t{m.channels} * m.block);
    for (std::uint32_t first = 0; first < m.channels; first += m.block) {
        const Block block = decompose(s, first, m.block);
        for (std::uint32_t c = 0; c < m.block; ++c) {
            for (std::uint32_t j = 0; j < m.block; ++j) {
                const double entry =
                    std::clamp(std::round(block.basis(c, j) / unit), -double(entry_max), double(entry_max));
                m.basis[std::size_t{first + c} * m.block + j] = static_cast<std::int8_t>(entry);
            }
        }
        for (std::uint32_t j = 0; j < m.block; ++j) {
            const double sigma = std::max(block.sigma[j] / static_cast<double>(m.rms), kSigmaFloor);
            m.sigma_class.push_back(static_cast<std::uint8_t>(128 + std::lround(4 * std::log2(sigma))));
        }
    }
    return m;
}

}  // namespace lynx::calibrate
