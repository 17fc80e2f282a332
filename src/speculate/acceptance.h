// How likely a draft holds whose predecessors held: a sliding estimate over requests, per codec and model.
//
// A pass judges its drafts up to the first that fails, so the maximum-likelihood estimate is accepted / (accepted + passes with a failure).
// Evidence fades with every request, judged or not, towards the prior. That is the probe: a codec whose drafts failed so often that none are
// made any more gets them again after some requests, a few at a time.
#pragma once

#include <cstdint>

namespace lynx::speculate {

/// Not thread-safe.
class AcceptanceModel {
public:
    /// `prior`, in [0, 1]: before anything was judged, and in the end when nothing is. The default lies among the 0.86 to 0.95 that DESIGN
    /// section 4 measured for anchors.
    explicit AcceptanceModel(double prior = 0.9) noexcept : prior_(prior) {}

    /// A pass judged `drafted` drafts and the first `accepted` of them held.
    void on_pass(std::uint32_t drafted, std::uint32_t accepted) noexcept;
    /// A request ended without a pass.
    void on_request_without_pass() noexcept { fade(); }
    /// In [0, 1].
    [[nodiscard]] double acceptance() const noexcept;

private:
    void fade() noexcept;

    double prior_;
    double held_ = 0;
    double failed_ = 0;
};

}  // namespace lynx::speculate
