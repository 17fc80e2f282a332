#include "node/arrival_estimator.h"

#include <algorithm>

namespace lynx::node {

namespace {
// Pages whose arrivals the rate is taken from: at 250 mbit and 12 kB a page, about 50 ms.
constexpr std::size_t kWindow = 128;
}  // namespace

ArrivalEstimator::ArrivalEstimator(std::uint8_t tiers, std::uint32_t pages_per_tier, std::uint32_t pages_per_layer)
    : tiers_(tiers), pages_per_tier_(pages_per_tier), pages_per_layer_(pages_per_layer) {}

void ArrivalEstimator::on_page(std::uint8_t tier, std::size_t bytes, base::Nanos now) {
    recent_.push_back({now, bytes_total_});
    if (recent_.size() > kWindow) {
        recent_.pop_front();
    }
    bytes_total_ += bytes;
    last_at_ = now;
    ++tiers_[tier].pages;
    tiers_[tier].bytes += bytes;
}

std::optional<speculate::TransferEstimate> ArrivalEstimator::eta() const {
    if (recent_.size() < 2 || last_at_ <= recent_.front().at) {
        return std::nullopt;
    }
    // The first arrival of the window opens the interval, so its own bytes do not count.
    const double seconds = base::to_seconds(last_at_ - recent_.front().at);
    const std::uint64_t first_bytes = recent_[1].bytes_before;
    const double rate = static_cast<double>(bytes_total_ - first_bytes) / seconds;
    if (rate <= 0) {
        return std::nullopt;
    }
    double before_last_tier = 0;
    double last_tier = 0;
    double page_bytes =
        static_cast<double>(bytes_total_) / static_cast<double>(std::max<std::uint32_t>(1, tiers_[0].pages));
    for (std::size_t t = 0; t < tiers_.size(); ++t) {
        if (tiers_[t].pages > 0) {
            page_bytes = static_cast<double>(tiers_[t].bytes) / tiers_[t].pages;
        }
        const double left = page_bytes * (pages_per_tier_ - tiers_[t].pages);
        (t + 1 == tiers_.size() ? last_tier : before_last_tier) += left;
    }
    const Tier& last = tiers_.back();
    const double last_page_bytes = last.pages > 0 ? static_cast<double>(last.bytes) / last.pages : page_bytes;
    const double first_layer = last.pages >= pages_per_layer_ ? 0 : last_page_bytes * (pages_per_layer_ - last.pages);
    // Time counts from the last arrival, not from now: bytes have been flowing since. An estimate that has passed stays in the past, which
    // tells the speculation that the link stalled.
    const auto at = [&](double bytes) { return last_at_ + base::from_seconds(bytes / rate); };
    return speculate::TransferEstimate{.last_page = at(before_last_tier + last_tier),
                                       .first_layer = at(before_last_tier + first_layer)};
}

}  // namespace lynx::node
