// lynxkv bench link: the transports side by side, in turn, round after round.
#include "lynx/link_bench.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "base/try.h"
#include "bench/link_sink.h"
#include "bench/link_source.h"
#include "bench/machine.h"
#include "bench/plain_socket.h"
#include "bench/statistics.h"
#include "node/endpoint.h"
#include "transport/tcp/key_file.h"
#include "transport/tcp/socket.h"

namespace lynx {

namespace bench {
namespace {

constexpr base::Nanos kConnectTimeout = std::chrono::seconds(10);
constexpr base::Nanos kWarmUp = std::chrono::milliseconds(300);
constexpr double kGiga = 1e9;
constexpr double kBitsPerMbit = 1e6;
constexpr double kP99 = 0.99;

Status check(const LinkBenchConfig& config) {
    const auto range = [](const char* name, std::uint32_t value, std::uint32_t low, std::uint32_t high) {
        return value >= low && value <= high ? Status{}
                                             : Status{ErrorCode::invalid_argument,
                                                      std::string(name) + ": expected " + std::to_string(low) + " to " +
                                                          std::to_string(high) + ", actual " + std::to_string(value)};
    };
    LYNX_TRY(range("peers", config.peers, 1, kLinkPeersMax));
    LYNX_TRY(range("requests", config.requests, 1, kLinkRequestsMax));
    LYNX_TRY(range("frame KiB", config.frame_kib, 1, kLinkFrameKibMax));
    LYNX_TRY(range("anchor frames", config.anchor_frames, 2, kLinkAnchorFramesMax));
    LYNX_TRY(range("probes", config.probes, 1, kLinkProbesMax));
    LYNX_TRY(range("rounds", config.rounds, 1, kLinkRoundsMax));
    if (!(config.seconds > 0 && config.seconds <= kLinkSecondsMax)) {
        return {ErrorCode::invalid_argument, "seconds: expected more than 0, at most an hour"};
    }
    return {};
}

/// A key file of this process alone, which goes away with the object.
class TemporaryKeyFile {
public:
    [[nodiscard]] static Result<TemporaryKeyFile> make() {
        std::error_code error;
        std::string path = (std::filesystem::temp_directory_path(error) / "lynx-key-XXXXXX").string();
        const int fd = ::mkstemp(path.data());  // mode 0600
        if (fd < 0) {
            return transport::os_error("temporary key file '" + path + "'", errno);
        }
        TemporaryKeyFile file(path);
        std::string text = "bench:";
        std::random_device random;
        for (std::size_t byte = 0; byte < transport::kKeyBytes; ++byte) {
            std::array<char, 3> digits{};
            std::snprintf(digits.data(), digits.size(), "%02x", random() & 0xFFU);
            text += digits.data();
        }
        text += '\n';
        const ssize_t written = ::write(fd, text.data(), text.size());
        ::close(fd);
        if (written != static_cast<ssize_t>(text.size())) {
            return Status{ErrorCode::io, "temporary key file '" + path + "': not written"};
        }
        return file;
    }
    ~TemporaryKeyFile() {
        std::error_code ignored;
        std::filesystem::remove(path_, ignored);
    }
    TemporaryKeyFile(TemporaryKeyFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TemporaryKeyFile& operator=(TemporaryKeyFile&&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    explicit TemporaryKeyFile(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

/// What a transport is measured through.
struct Subject {
    std::string name;
    node::Endpoint endpoint;
    transport::TcpOptions tcp;
    bool local = false;  ///< the source is in this process
};

/// One transport's figures, an entry per round; probes of all rounds together.
struct Samples {
    std::vector<double> goodput_bits_per_s;
    std::vector<double> receiver_cpu_s_per_gb;
    std::vector<double> sender_cpu_s_per_gb;
    std::vector<double> fairness;
    std::vector<double> idle_s;
    std::vector<double> loaded_s;
};

using Sinks = std::vector<std::unique_ptr<LinkSink>>;

/// Every sink in the phase until the first, the only one to probe, is through with it. One result per sink.
Result<std::vector<LinkMeasured>> run_all(Sinks& sinks, const LinkPhase& phase, const std::stop_token& stop) {
    std::vector<Result<LinkMeasured>> results(sinks.size(), LinkMeasured{});
    {
        std::stop_source first_done;
        const std::stop_callback stop_all(stop, [&] { first_done.request_stop(); });
        LinkPhase others = phase;
        others.probes = 0;
        others.duration = std::chrono::hours(1);
        std::vector<std::jthread> threads;
        for (std::size_t i = 1; i < sinks.size(); ++i) {
            threads.emplace_back([&, i] { results[i] = sinks[i]->run(others, first_done.get_token()); });
        }
        results[0] = sinks[0]->run(phase, stop);
        first_done.request_stop();
    }
    std::vector<LinkMeasured> measured;
    for (Result<LinkMeasured>& result : results) {
        LYNX_ASSIGN(LinkMeasured one, std::move(result));
        measured.push_back(std::move(one));
    }
    return measured;
}

/// Jain's index: 1 when all get the same, 1/n when one gets everything.
double jain(const std::vector<double>& shares) {
    double sum = 0;
    double squares = 0;
    for (const double x : shares) {
        sum += x;
        squares += x * x;
    }
    return squares > 0 ? sum * sum / (static_cast<double>(shares.size()) * squares) : 1;
}

void add_load(Samples& samples, const std::vector<LinkMeasured>& sinks, bool local) {
    std::vector<double> rates;
    double bytes = 0;
    double cpu = 0;
    for (const LinkMeasured& sink : sinks) {
        rates.push_back(sink.seconds > 0 ? static_cast<double>(sink.bytes) / sink.seconds : 0);
        bytes += static_cast<double>(sink.bytes);
        cpu += sink.cpu_s;
    }
    samples.goodput_bits_per_s.push_back(8 * std::accumulate(rates.begin(), rates.end(), 0.0));
    samples.fairness.push_back(jain(rates));
    if (bytes > 0) {
        samples.receiver_cpu_s_per_gb.push_back(cpu / bytes * kGiga);
        if (local) {
            samples.sender_cpu_s_per_gb.push_back((sinks.front().process_cpu_s - cpu) / bytes * kGiga);
        }
    }
}

Status measure(const Subject& subject, const LinkBenchConfig& config, Samples& samples, const std::stop_token& stop) {
    const base::SteadyClock clock;
    Sinks sinks;
    for (std::uint32_t i = 0; i < config.peers; ++i) {
        LYNX_ASSIGN(auto link, node::connect(subject.endpoint, subject.tcp, {}, clock, clock.now() + kConnectTimeout));
        LYNX_ASSIGN(auto sink, LinkSink::open(std::move(link)));
        sinks.push_back(std::move(sink));
    }
    const LinkPhase idle{
        .probes = config.probes, .anchor_frames = config.anchor_frames, .frame_bytes = config.frame_kib * 1024};
    LinkPhase load = idle;
    load.requests = config.requests;
    load.warm_up = kWarmUp;
    LinkPhase bulk = load;
    bulk.probes = 0;
    bulk.duration = base::from_seconds(config.seconds);
    LYNX_ASSIGN(const LinkMeasured quiet, sinks.front()->run(idle, stop));
    LYNX_ASSIGN(const std::vector<LinkMeasured> flat_out, run_all(sinks, bulk, stop));
    LYNX_ASSIGN(const std::vector<LinkMeasured> shared, run_all(sinks, load, stop));
    if (stop.stop_requested()) {
        return {ErrorCode::cancelled, "stopped"};
    }
    add_load(samples, flat_out, subject.local);
    samples.idle_s.insert(samples.idle_s.end(), quiet.probe_s.begin(), quiet.probe_s.end());
    samples.loaded_s.insert(samples.loaded_s.end(), shared.front().probe_s.begin(), shared.front().probe_s.end());
    return {};
}

Status measure_socket(const LinkBenchConfig& config, Samples& samples) {
    LYNX_ASSIGN(const SocketMeasured socket,
                measure_plain_socket(config.frame_kib * 1024, base::from_seconds(config.seconds)));
    const auto bytes = static_cast<double>(socket.bytes);
    samples.goodput_bits_per_s.push_back(8 * bytes / socket.seconds);
    samples.receiver_cpu_s_per_gb.push_back(socket.receiver_cpu_s / bytes * kGiga);
    samples.sender_cpu_s_per_gb.push_back(socket.sender_cpu_s / bytes * kGiga);
    return {};
}

LinkBenchRow row_of(const std::string& name, const Samples& samples, const LinkBenchConfig& config) {
    LinkBenchRow row{.transport = name, .anchors_idle_ms = {}, .anchors_loaded_ms = {}, .sender_cpu_s_per_gb = {}};
    const double rate = median(samples.goodput_bits_per_s);
    row.goodput_mbit = rate / kBitsPerMbit;
    row.frame_ms = rate > 0 ? 1e3 * 8 * 1024 * config.frame_kib / rate : 0;
    row.receiver_cpu_s_per_gb = median(samples.receiver_cpu_s_per_gb);
    if (!samples.sender_cpu_s_per_gb.empty()) {
        row.sender_cpu_s_per_gb = median(samples.sender_cpu_s_per_gb);
    }
    if (!samples.fairness.empty()) {
        row.fairness = median(samples.fairness);
    }
    const auto latency = [](const std::vector<double>& seconds) -> std::optional<LinkLatency> {
        if (seconds.empty()) {
            return {};
        }
        return LinkLatency{1e3 * median(seconds), 1e3 * percentile(seconds, kP99)};
    };
    row.anchors_idle_ms = latency(samples.idle_s);
    row.anchors_loaded_ms = latency(samples.loaded_s);
    return row;
}

}  // namespace
}  // namespace bench

Result<LinkBenchReport> run_link_bench(const LinkBenchConfig& config, std::stop_token stop) {
    using namespace bench;
    LYNX_TRY(check(config));
    const bool local = config.connect.empty();
    std::vector<std::jthread> sources;
    std::vector<Subject> subjects;
    if (local) {
        LYNX_ASSIGN(const TemporaryKeyFile keys, TemporaryKeyFile::make());
        PeerSecurity psk;
        psk.key_file = keys.path();
        for (const auto& [name, security] : {std::pair{"tcp", PeerSecurity{}}, std::pair{"tls", psk}}) {
            LYNX_ASSIGN(transport::TcpOptions tcp, node::tcp_options(security));
            LYNX_ASSIGN(auto server, node::PeerServer::listen("127.0.0.1:0", security, {}));
            subjects.push_back({name, {"127.0.0.1", server->port()}, std::move(tcp), true});
            sources.emplace_back([server = std::move(server), &config](const std::stop_token& done) {
                static_cast<void>(serve_sinks(*server, config.link, done));  // a sink notices when it fails
            });
        }
    } else {
        LYNX_ASSIGN(const node::Endpoint endpoint, node::parse_endpoint(config.connect));
        LYNX_ASSIGN(transport::TcpOptions tcp, node::tcp_options(config.security));
        subjects.push_back({config.security.tls() ? "tls" : "tcp", endpoint, std::move(tcp), false});
    }
    const bool socket = local && !config.link.active();  // an emulated link is ours alone
    Samples plain;
    std::vector<Samples> samples(subjects.size());
    for (std::uint32_t round = 1; round <= config.rounds; ++round) {
        if (config.on_progress) {
            config.on_progress("round " + std::to_string(round) + " of " + std::to_string(config.rounds));
        }
        if (socket) {
            LYNX_TRY(measure_socket(config, plain));
        }
        for (std::size_t i = 0; i < subjects.size(); ++i) {
            LYNX_TRY(measure(subjects[i], config, samples[i], stop).with_context(subjects[i].name));
        }
    }
    LinkBenchReport report{.machine = machine_name(), .config = config, .rows = {}};
    if (socket) {
        report.rows.push_back(row_of("socket", plain, config));
    }
    for (std::size_t i = 0; i < subjects.size(); ++i) {
        report.rows.push_back(row_of(subjects[i].name, samples[i], config));
    }
    if (socket) {
        for (LinkBenchRow& row : report.rows) {
            row.vs_socket = row.goodput_mbit / report.rows.front().goodput_mbit;
        }
    }
    return report;
}

}  // namespace lynx
