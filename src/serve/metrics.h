// Counters, gauges and histograms in Prometheus' text format. Names follow vLLM's where it has them (docs/serving.md lists all).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lynx::serve {

/// Fixed buckets in seconds, as vLLM's latency histograms.
inline constexpr std::array kLatencyBuckets{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,
                                            0.5,   0.75,  1.0,  2.5,  5.0,  7.5,  10.0, 20.0, 40.0};

/// Thread-safe. A family must be declared before it is used (LYNX_CHECK).
class Metrics {
public:
    enum class Kind : std::uint8_t { counter, gauge, histogram };

    void declare(const std::string& name, Kind kind, const std::string& help);
    /// `labels`: ready for the text format, as R"(tier="0")"; empty for none.
    void add(const std::string& name, double value, const std::string& labels = {});
    void set(const std::string& name, double value, const std::string& labels = {});
    void observe(const std::string& name, double seconds);
    /// The exposition format, version 0.0.4.
    [[nodiscard]] std::string text() const;

private:
    struct Family {
        Kind kind = Kind::counter;
        std::string help;
        std::map<std::string, double> values;  ///< by labels
        std::array<std::uint64_t, kLatencyBuckets.size()> buckets{};
        std::uint64_t count = 0;
        double sum = 0;
    };
    [[nodiscard]] Family& family(const std::string& name, Kind kind);

    mutable std::mutex mutex_;
    std::map<std::string, Family> families_;
};

}  // namespace lynx::serve
