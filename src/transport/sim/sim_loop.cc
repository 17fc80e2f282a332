#include "transport/sim/sim_loop.h"

#include <algorithm>
#include <utility>

#include "transport/pump.h"

namespace lynx::transport {

SimLoop::SimLoop(base::VirtualClock& clock, SimNetwork& network) : clock_(clock), network_(network) {}

void SimLoop::add(std::size_t which, wire::SessionOptions options, SimApp app, std::unique_ptr<Link> link) {
    End& end = ends_[which];
    end.session = std::make_unique<wire::Session>(std::move(options), clock_.now());
    end.link = link == nullptr ? network_.end(which) : std::move(link);
    end.app = std::move(app);
    end.app_at = clock_.now();
}

/// Pumps one end, runs its application, and pumps what that queued. True when bytes moved.
bool SimLoop::turn(End& end) {
    if (end.finished) {
        return false;
    }
    const Nanos now = clock_.now();
    Result<std::size_t> moved = pump_once(*end.session, *end.link, clock_, now);
    bool progress = moved.ok() && moved.value() > 0;
    if (progress || !moved.ok() || now >= end.app_at) {
        end.app_at = end.app(*end.session, now);
        moved = pump_once(*end.session, *end.link, clock_, now);
        progress = progress || (moved.ok() && moved.value() > 0);
    }
    if (!end.session->status().ok()) {
        // finish() in steps: to wait here would be to stop the other end.
        end.linger_until = std::min(end.linger_until, now + kLinger);
        if (say_goodbye(*end.session, *end.link, clock_) || now >= end.linger_until) {
            end.link->close();
            end.finished = true;
            return true;
        }
    }
    return progress;
}

bool SimLoop::run(const std::function<bool()>& over, Nanos limit) {
    const Nanos end = clock_.now() + limit;
    for (std::size_t turns = 0; turns < kTurnsMax; ++turns) {
        const bool first = turn(ends_[0]);
        const bool second = turn(ends_[1]);
        if (over() || (ends_[0].finished && ends_[1].finished)) {
            return true;
        }
        const Nanos now = clock_.now();
        if (now >= end) {
            return false;
        }
        if (first || second) {
            continue;
        }
        Nanos next = std::min(end, network_.next_arrival());
        for (const End& e : ends_) {
            if (!e.finished) {
                next = std::min({next, e.session->timeout(), e.session->status().ok() ? e.app_at : e.linger_until});
            }
        }
        next = std::max(next, now + Nanos{1});
        clock_.advance_to(step_max_ == Nanos::max() ? next : std::min(next, now + step_max_));
    }
    return false;
}

}  // namespace lynx::transport
