// Mean and covariance of one layer's un-rotated K or V, gathered token by token.
#pragma once

#include <cstdint>
#include <vector>

#include "codec/codec.h"
#include "kv/view.h"

namespace lynx::calibrate {

class Statistics {
public:
    explicit Statistics(std::uint32_t channels)
        : channels_(channels), sums_(channels), products_(std::size_t{channels} * channels) {}

    /// Adds every token of `view`, whose first one is context.first_token; keys are un-rotated as the codec does it.
    void add(kv::ConstView view, const codec::PageContext& context);

    [[nodiscard]] std::uint32_t channels() const noexcept { return channels_; }
    [[nodiscard]] std::uint64_t tokens() const noexcept { return tokens_; }
    [[nodiscard]] double mean(std::uint32_t c) const noexcept { return sums_[c] / static_cast<double>(tokens_); }
    [[nodiscard]] double covariance(std::uint32_t a, std::uint32_t b) const noexcept {
        const std::uint32_t low = a < b ? a : b;
        const std::uint32_t high = a < b ? b : a;
        return products_[std::size_t{low} * channels_ + high] / static_cast<double>(tokens_) - mean(a) * mean(b);
    }

private:
    std::uint32_t channels_;
    std::uint64_t tokens_ = 0;
    std::vector<double> sums_;
    std::vector<double> products_;  // the upper triangle
};

}  // namespace lynx::calibrate
