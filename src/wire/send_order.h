// The order in which a sender's frames leave: one comparator (DESIGN section 3, WIRE "Send order"). Pure functions.
//
//   1. control frames, first in first out;
//   2. anchors (tier 0), oldest request first, then page-major: they come to exist page by page, while prefill runs;
//   3. later tiers, oldest request first, then tier, then layer-major: the verification pass of a tier walks the layers
//      while they arrive, so all pages of layer 0 must be there before any of layer 1.
//
// Strict between classes, with one exception that bounds starvation: a later tier that has waited longer than
// promote_after takes turns with the anchors, frame by frame. Not "goes first": on a slow link the whole backlog is
// old, and a new anchor must still overtake it within one frame.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/clock.h"
#include "kv/geometry.h"

namespace lynx::wire {

enum class SendClass : std::uint8_t { control = 0, anchor = 1, later = 2 };

/// What the order depends on. `arrival` numbers requests in the order in which this side learned of them.
struct SendKey {
    SendClass cls = SendClass::control;
    std::uint64_t arrival = 0;  ///< of the request; 0 for control
    kv::PageKey key;
    std::uint64_t sequence = 0;  ///< of the frame: control keeps its order, pages are told apart
    base::Nanos queued_at{0};
};

/// True when a leaves before b. A strict weak order; time plays no part in it, so it may sort a container.
[[nodiscard]] inline bool sends_before(const SendKey& a, const SendKey& b) noexcept {
    if (a.cls != b.cls) {
        return a.cls < b.cls;
    }
    const auto order = [](const SendKey& s) {
        const kv::PageKey& k = s.key;
        const std::uint32_t kind = static_cast<std::uint32_t>(k.kind);
        return s.cls == SendClass::control ? std::make_tuple(std::uint64_t{0}, 0U, 0U, 0U, 0U, s.sequence)
               : s.cls == SendClass::anchor
                   ? std::make_tuple(s.arrival, k.page, std::uint32_t{k.layer}, kind, 0U, s.sequence)
                   : std::make_tuple(s.arrival, std::uint32_t{k.tier}, std::uint32_t{k.layer}, kind, k.page,
                                     s.sequence);
    };
    return order(a) < order(b);
}

/// Between the first frame of the high lane and the first of the low lane: true when the low one goes next.
/// `anchor_went_last`: the previous page frame to start was an anchor, so it is an aged tier's turn.
[[nodiscard]] inline bool low_goes_first(const SendKey& high, const SendKey& low, base::Nanos now,
                                         base::Nanos promote_after, bool anchor_went_last) noexcept {
    if (high.cls == SendClass::anchor && low.cls == SendClass::later && now - low.queued_at >= promote_after) {
        return anchor_went_last;
    }
    return sends_before(low, high);
}

}  // namespace lynx::wire
