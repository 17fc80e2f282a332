#include "bench/link_sink.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/try.h"
#include "bench/cpu_time.h"
#include "transport/pump.h"
#include "transport/tcp/tcp.h"

namespace lynx::bench {
namespace {

using base::Nanos;

constexpr std::uint64_t kLoadRequestBytes = std::uint64_t{256} << 20;
constexpr Nanos kProbeGap = std::chrono::milliseconds(10);

}  // namespace

LinkSink::LinkSink(std::unique_ptr<transport::Link> link)
    : link_(std::move(link)),
      session_(opaque_session(wire::Role::decode, transport::make_connection_id()), clock_.now()) {}

Result<std::unique_ptr<LinkSink>> LinkSink::open(std::unique_ptr<transport::Link> link) {
    std::unique_ptr<LinkSink> sink(new LinkSink(std::move(link)));
    while (!sink->ready_) {  // bounded by the session's handshake timeout
        LYNX_TRY(sink->pump(Nanos::max()));
    }
    return sink;
}

LinkSink::~LinkSink() {
    session_.close({}, clock_.now());
    transport::finish(session_, *link_, clock_, clock_.now() + transport::kLinger);
}

Result<LinkMeasured> LinkSink::run(const LinkPhase& phase, const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] { link_->wake(); });
    const Nanos counts_from = clock_.now() + phase.warm_up;
    Nanos next_probe = counts_from;
    std::optional<Nanos> begun;
    double cpu = 0;
    double process_cpu = 0;
    last_page_ = clock_.now();
    measured_ = {};
    while (!stop.stop_requested()) {
        const Nanos now = clock_.now();
        if (!begun && now >= counts_from) {
            begun = now;
            measured_ = {};
            cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
            process_cpu = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
        }
        const bool probes_done = measured_.probe_s.size() >= phase.probes;
        if (begun && probes_done && now >= *begun + phase.duration) {
            break;
        }
        if (!live_.empty() && now - last_page_ > kSilence) {
            return Status{ErrorCode::timeout,
                          "the source sent nothing for " + std::to_string(base::to_seconds(kSilence)) + " s"};
        }
        while (live_.size() - (probe_ != 0 ? 1 : 0) < phase.requests) {
            LYNX_TRY(ask(phase, false));
        }
        Nanos deadline = begun ? *begun + phase.duration : counts_from;
        if (begun && probe_ == 0 && !probes_done) {
            if (now >= next_probe) {
                LYNX_TRY(ask(phase, true));
            } else {
                deadline = next_probe;
            }
        } else if (now >= deadline) {
            deadline = now + kSilence;  // for the probe
        }
        const std::size_t probes = measured_.probe_s.size();
        LYNX_TRY(pump(deadline));
        if (measured_.probe_s.size() > probes) {
            next_probe = clock_.now() + kProbeGap;
        }
    }
    if (begun) {
        measured_.seconds = base::to_seconds(clock_.now() - *begun);
        measured_.cpu_s = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
        measured_.process_cpu_s = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - process_cpu;
    }
    const LinkMeasured measured = std::exchange(measured_, {});
    LYNX_TRY(drain());
    return measured;
}

Status LinkSink::ask(const LinkPhase& phase, bool probe) {
    const std::uint64_t id = next_id_++;
    const std::uint64_t frames =
        probe ? phase.anchor_frames : std::max<std::uint64_t>(kLoadRequestBytes / phase.frame_bytes, kFramesPerPage);
    const auto pages = static_cast<std::uint32_t>(frames / kFramesPerPage);
    const Opaque opaque{probe ? std::array{phase.frame_bytes, 0U} : std::array{0U, phase.frame_bytes}};
    const Nanos now = clock_.now();
    if (live_.empty()) {
        last_page_ = now;
    }
    LYNX_TRY(session_.request(opaque_request(id, pages, opaque), now));
    live_[id] = {std::uint64_t{pages} * kFramesPerPage, now};
    if (probe) {
        probe_ = id;
    }
    return {};
}

Status LinkSink::pump(Nanos deadline) {
    LYNX_TRY(transport::pump_once(session_, *link_, clock_, std::min(deadline, session_.timeout())).status());
    return take_events();
}

Status LinkSink::take_events() {
    while (std::optional<wire::Event> event = session_.poll_event()) {
        if (const auto* page = std::get_if<wire::PageReceived>(&*event)) {
            take(*page);
        } else if (std::holds_alternative<wire::PeerReady>(*event)) {
            ready_ = true;
        } else if (std::holds_alternative<wire::AbortDone>(*event)) {
            --ending_;
        } else if (const auto* aborted = std::get_if<wire::Abort>(&*event)) {
            return {aborted->code, "the source gave up: " + aborted->message};
        }
    }
    return session_.status();
}

void LinkSink::take(const wire::PageReceived& page) {
    const Nanos now = clock_.now();
    session_.release(page, now);
    last_page_ = now;
    measured_.bytes += page.payload.size();
    const auto expected = live_.find(page.key.request);
    if (--expected->second.frames > 0) {
        return;
    }
    if (page.key.request == probe_) {
        measured_.probe_s.push_back(base::to_seconds(now - expected->second.asked));
        probe_ = 0;
    }
    session_.done({page.key.request, page.key.generation}, now);
    live_.erase(expected);
}

/// Ends what is under way.
Status LinkSink::drain() {
    const Nanos deadline = clock_.now() + kSilence;
    for (const auto& [id, _] : live_) {
        session_.abort({id, 1, ErrorCode::cancelled, "measured"}, clock_.now());
        ++ending_;
    }
    live_.clear();
    probe_ = 0;
    while (ending_ > 0) {
        if (clock_.now() >= deadline) {
            return {ErrorCode::timeout, "the source does not end its requests"};
        }
        LYNX_TRY(pump(deadline));
    }
    return {};
}

}  // namespace lynx::bench
