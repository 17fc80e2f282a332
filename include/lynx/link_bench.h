// Benchmark of the link alone: opaque frames through the session and a transport, without model or codec. Goodput, how long the
// anchors of a new request take on an idle and on a saturated link, CPU, fairness between peers.
//
// A source answers requests as a prefill node does, with anchors on the high lane and residuals on the low one; a sink asks, measures
// and forgets what arrives.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lynx/node.h"
#include "lynx/security.h"
#include "lynx/status.h"

namespace lynx {

struct LinkSourceConfig {
    std::string listen = "127.0.0.1:0";  ///< HOST:PORT, port 0: any free one
    PeerSecurity security;
    LinkEmulation link;  ///< of what it sends
    std::function<void(std::uint16_t port)> on_listening;
};

/// Serves sinks until `stop`. invalid_argument: bad address or security; io: in use.
[[nodiscard]] Status run_link_source(const LinkSourceConfig& config, std::stop_token stop);

struct LinkBenchConfig {
    /// HOST:PORT of a source. Empty: sources of this process on loopback, one transport after the other, among them plain sockets.
    std::string connect;
    PeerSecurity security;    ///< with connect
    LinkEmulation link;       ///< of what sources of this process send
    std::uint32_t peers = 1;  ///< connected at once; 1 to kLinkPeersMax
    std::uint32_t requests =
        4;  ///< per peer whose residuals are under way at any moment of the load; 1 to kLinkRequestsMax
    std::uint32_t frame_kib = 128;  ///< payload of a frame: an 8B model's 4-bit page of 256 tokens, one layer, K or V
    std::uint32_t anchor_frames = 32;  ///< of the request whose anchors are timed; even
    std::uint32_t probes = 20;         ///< such requests, one after the other, per round: idle, then under load
    double seconds = 2;                ///< of load alone, per round
    std::uint32_t rounds = 3;          ///< of every transport, in turn; medians, and percentiles over all their probes
    std::function<void(const std::string&)> on_progress;
};

inline constexpr std::uint32_t kLinkPeersMax = 64;
inline constexpr std::uint32_t kLinkRequestsMax = 60;
inline constexpr std::uint32_t kLinkFrameKibMax = 1024;
inline constexpr std::uint32_t kLinkAnchorFramesMax = 4096;
inline constexpr std::uint32_t kLinkProbesMax = 100000;
inline constexpr std::uint32_t kLinkRoundsMax = 1000;
inline constexpr double kLinkSecondsMax = 3600;

/// From the sending of a request until its last anchor is here, milliseconds.
struct LinkLatency {
    double p50 = 0;
    double p99 = 0;
};

struct LinkBenchRow {
    std::string transport;    ///< "socket" (one plain TCP connection, no session), "tcp", "tls"
    double goodput_mbit = 0;  ///< payload of all peers under load alone, 1e6 bit/s
    double vs_socket = 0;     ///< its share of the plain socket's in this run; 0 where there was none
    std::optional<LinkLatency> anchors_idle_ms;
    std::optional<LinkLatency> anchors_loaded_ms;
    double frame_ms = 0;  ///< one frame at that goodput: what an anchor can't overtake
    double receiver_cpu_s_per_gb = 0;
    std::optional<double> sender_cpu_s_per_gb;  ///< where the source is in this process
    double fairness = 1;                        ///< Jain's index over the peers' goodput under load alone
};

struct LinkBenchReport {
    std::string machine;
    LinkBenchConfig config;
    std::vector<LinkBenchRow> rows;
};

/// invalid_argument: a figure out of range; what connecting returns; timeout: a source that sends nothing for 10 s.
[[nodiscard]] Result<LinkBenchReport> run_link_bench(const LinkBenchConfig& config, std::stop_token stop);

/// One JSON object; "rows": [one object per row with LinkBenchRow's fields].
[[nodiscard]] std::string to_json(const LinkBenchReport& report);
[[nodiscard]] std::string to_table(const LinkBenchReport& report);

}  // namespace lynx
