#include "speculate/acceptance.h"

namespace lynx::speculate {
namespace {

/// Judged drafts that the prior is worth: little, since a pass that fails at once is but one.
constexpr double kPriorWeight = 2;
/// What a request leaves of the evidence before it: about ten requests are remembered.
constexpr double kKept = 0.9;

}  // namespace

void AcceptanceModel::fade() noexcept {
    held_ *= kKept;
    failed_ *= kKept;
}

void AcceptanceModel::on_pass(std::uint32_t drafted, std::uint32_t accepted) noexcept {
    fade();
    held_ += accepted;
    failed_ += accepted < drafted ? 1 : 0;
}

double AcceptanceModel::acceptance() const noexcept {
    return (kPriorWeight * prior_ + held_) / (kPriorWeight + held_ + failed_);
}

}  // namespace lynx::speculate
