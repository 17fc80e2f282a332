// Two sessions over a simulated network in one thread: pumps both ends, runs both applications, and when nothing moves
// advances the virtual clock to the next time at which something can.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "base/clock.h"
#include "transport/link.h"
#include "transport/sim/sim_network.h"
#include "wire/session.h"

namespace lynx::transport {

/// What runs on top of one session. step() is called after every pump of it and returns when it wants to be called next
/// at the latest (Nanos::max(): only when bytes moved).
using SimApp = std::function<Nanos(wire::Session& session, Nanos now)>;

class SimLoop {
public:
    /// `clock` and `network` must outlive the loop.
    SimLoop(base::VirtualClock& clock, SimNetwork& network);

    /// Sets up end 0 or 1. `link` empty: the network's own.
    void add(std::size_t which, wire::SessionOptions options, SimApp app, std::unique_ptr<Link> link = nullptr);

    /// Until `over()` holds or both sessions are dead; false when `limit` of virtual time, or kTurnsMax turns, passed
    /// first.
    [[nodiscard]] bool run(const std::function<bool()>& over, Nanos limit);

    [[nodiscard]] wire::Session& session(std::size_t which) { return *ends_[which].session; }
    [[nodiscard]] bool alive(std::size_t which) const { return ends_[which].session->status().ok(); }
    /// The clock moves at most so far at a time: for links that keep times of their own, like EmulatedLink.
    void set_step_max(Nanos step) noexcept { step_max_ = step; }

    static constexpr std::size_t kTurnsMax = 5'000'000;

private:
    struct End {
        std::unique_ptr<wire::Session> session;
        std::unique_ptr<Link> link;
        SimApp app;
        Nanos app_at{0};
        Nanos linger_until = Nanos::max();
        bool finished = false;
    };
    [[nodiscard]] bool turn(End& end);

    base::VirtualClock& clock_;
    SimNetwork& network_;
    std::array<End, 2> ends_;
    Nanos step_max_ = Nanos::max();
};

}  // namespace lynx::transport
