// One peer of the link benchmark: asks a source for frames, measures, forgets what arrives.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "bench/opaque.h"
#include "lynx/status.h"
#include "transport/link.h"
#include "wire/session.h"

namespace lynx::bench {

/// What a sink does for a while.
struct LinkPhase {
    std::uint32_t requests = 0;       ///< whose residuals are under way at any moment
    std::uint32_t probes = 0;         ///< requests for anchors alone, one after the other
    std::uint32_t anchor_frames = 0;  ///< of a probe, even
    std::uint32_t frame_bytes = 0;
    base::Nanos warm_up{0};   ///< before anything counts
    base::Nanos duration{0};  ///< then, at least; probes may take longer
};

struct LinkMeasured {
    std::uint64_t bytes = 0;  ///< payload that arrived while it counted
    double seconds = 0;
    double cpu_s = 0;          ///< of the calling thread in that time
    double process_cpu_s = 0;  ///< of all of this process's threads
    std::vector<double> probe_s;
};

class LinkSink {
public:
    /// Takes a connected link and completes the handshake.
    [[nodiscard]] static Result<std::unique_ptr<LinkSink>> open(std::unique_ptr<transport::Link> link);
    ~LinkSink();
    LinkSink(const LinkSink&) = delete;
    LinkSink& operator=(const LinkSink&) = delete;

    /// Runs the phase, then ends its requests and returns once nothing of them can arrive any more. Stopping ends it early, with
    /// what was measured. timeout: nothing came for kSilence although something was due.
    [[nodiscard]] Result<LinkMeasured> run(const LinkPhase& phase, const std::stop_token& stop);

    static constexpr base::Nanos kSilence = std::chrono::seconds(10);

private:
    struct Expected {
        std::uint64_t frames = 0;
        base::Nanos asked{0};
    };

    explicit LinkSink(std::unique_ptr<transport::Link> link);
    [[nodiscard]] Status ask(const LinkPhase& phase, bool probe);
    [[nodiscard]] Status pump(base::Nanos deadline);
    [[nodiscard]] Status take_events();
    void take(const wire::PageReceived& page);
    [[nodiscard]] Status drain();

    const base::SteadyClock clock_;
    std::unique_ptr<transport::Link> link_;
    wire::Session session_;
    bool ready_ = false;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, Expected> live_;  ///< by request
    std::size_t ending_ = 0;                  ///< aborted requests whose end the source hasn't confirmed
    std::uint64_t probe_ = 0;                 ///< the request whose anchors are timed; 0: none
    base::Nanos last_page_{0};
    LinkMeasured measured_;
};

}  // namespace lynx::bench
