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

constexpr double kMetricFloor =
    1e-4;  // of a metric's largest eigenvalue: what the model hardly sees is not thrown away

struct Block {
    Eigen::MatrixXd basis;  // [channel][coefficient], falling variance
    Eigen::VectorXd sigma;
};

/// The square root of a block's metric and its inverse, head by head.
struct Root {
    Eigen::MatrixXd root;
    Eigen::MatrixXd inverse;
};

Root root_of(const FitOptions& options, std::uint32_t first) {
    const Eigen::Index n = options.block;
    Root r{Eigen::MatrixXd::Identity(n, n), Eigen::MatrixXd::Identity(n, n)};
    const Eigen::Index head = options.head;
    for (Eigen::Index at = 0; !options.metric.empty() && at < n; at += head) {
        const double* values = options.metric.data() + (static_cast<Eigen::Index>(first) + at) * head;
        const Eigen::Map<const Eigen::MatrixXd> metric(values, head, head);
        const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(metric);
        const double floor = std::max(solver.eigenvalues().maxCoeff() * kMetricFloor, 0x1p-60);
        const Eigen::VectorXd scale = solver.eigenvalues().cwiseMax(floor).cwiseSqrt();
        const Eigen::MatrixXd& vectors = solver.eigenvectors();
        r.root.block(at, at, head, head) = vectors * scale.asDiagonal() * vectors.transpose();
        r.inverse.block(at, at, head, head) = vectors * scale.cwiseInverse().asDiagonal() * vectors.transpose();
    }
    return r;
}

Block decompose(const Statistics& s, const FitOptions& options, std::uint32_t first) {
    const Eigen::Index n = options.block;
    Eigen::MatrixXd covariance(n, n);
    for (std::uint32_t a = 0; a < options.block; ++a) {
        for (std::uint32_t b = 0; b < options.block; ++b) {
            covariance(a, b) = s.covariance(first + a, first + b);
        }
    }
    const Root r = root_of(options, first);
    const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(r.root * covariance * r.root);
    return {r.inverse * solver.eigenvectors().rowwise().reverse(),
            solver.eigenvalues().cwiseMax(0).cwiseSqrt().reverse()};
}

/// The rows of a basis as integers with a scale each.
void set_basis(const std::vector<Block>& blocks, const FitOptions& options, codec::ProfileMatrix& m) {
    const std::int32_t entry_max = (1 << (options.basis_bits - 1)) - 1;
    std::vector<double> unit(m.channels);
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        const auto row = blocks[c / m.block].basis.row(c % m.block);
        const double spread = kEntrySpread * row.norm() / std::sqrt(static_cast<double>(m.block));
        unit[c] = std::max(std::min(row.cwiseAbs().maxCoeff(), spread) / entry_max, 0x1p-40);
    }
    const double largest = *std::max_element(unit.begin(), unit.end());
    m.scale_exponent = static_cast<std::int8_t>(std::clamp(std::ilogb(largest) - kScaleBits, -50, -13));
    m.basis.resize(std::size_t{m.channels} * m.block);
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        const double scale = std::clamp(std::round(std::ldexp(unit[c], -m.scale_exponent)), 1.0, 65535.0);
        m.row_scale.push_back(static_cast<std::uint16_t>(scale));
        for (std::uint32_t j = 0; j < m.block; ++j) {
            const double entry = blocks[c / m.block].basis(c % m.block, j) / std::ldexp(scale, m.scale_exponent);
            m.basis[std::size_t{c} * m.block + j] = static_cast<std::int8_t>(
                std::clamp(std::round(entry), -static_cast<double>(entry_max), static_cast<double>(entry_max)));
        }
    }
}

}  // namespace

codec::ProfileMatrix fit_matrix(const Statistics& s, const FitOptions& options) {
    codec::ProfileMatrix m;
    m.channels = s.channels();
    m.block = options.block;
    double largest_mean = 0;
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        largest_mean = std::max(largest_mean, std::abs(s.mean(c)));
    }
    m.mean_exponent = static_cast<std::int8_t>(std::ilogb(std::max(largest_mean, 0x1p-60)) + 1 - kMeanBits);
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        m.mean.push_back(static_cast<std::int32_t>(std::lround(std::ldexp(s.mean(c), -m.mean_exponent))));
    }
    std::vector<Block> blocks;
    double variance = 0;
    for (std::uint32_t first = 0; first < m.channels; first += m.block) {
        blocks.push_back(decompose(s, options, first));
        variance += blocks.back().sigma.squaredNorm();
    }
    const double rms = std::max(std::sqrt(variance / m.channels), 0x1p-60);
    m.unit = static_cast<float>(rms);
    set_basis(blocks, options, m);
    for (std::uint32_t c = 0; c < m.channels; ++c) {
        const double sigma = std::max(blocks[c / m.block].sigma[c % m.block] / rms, kSigmaFloor);
        m.sigma_class.push_back(static_cast<std::uint8_t>(128 + std::lround(4 * std::log2(sigma))));
    }
    return m;
}

}  // namespace lynx::calibrate
