#include "serve/metrics.h"

#include <array>
#include <charconv>

#include "base/check.h"

namespace lynx::serve {
namespace {

/// The shortest text that reads back as the same number.
std::string number(double value) {
    std::array<char, 32> text{};
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
    LYNX_CHECK(error == std::errc{});
    return {text.data(), end};
}

std::string_view kind_name(Metrics::Kind kind) {
    switch (kind) {
        case Metrics::Kind::counter: return "counter";
        case Metrics::Kind::gauge: return "gauge";
        case Metrics::Kind::histogram: return "histogram";
    }
    return "untyped";
}

}  // namespace

void Metrics::declare(const std::string& name, Kind kind, const std::string& help) {
    const std::lock_guard lock(mutex_);
    Family& family = families_[name];
    family.kind = kind;
    family.help = help;
    if (kind != Kind::histogram) {
        family.values[""] = 0;
    }
}

Metrics::Family& Metrics::family(const std::string& name, Kind kind) {
    const auto it = families_.find(name);
    LYNX_CHECK(it != families_.end() && it->second.kind == kind);
    return it->second;
}

void Metrics::add(const std::string& name, double value, const std::string& labels) {
    const std::lock_guard lock(mutex_);
    Family& f = family(name, Kind::counter);
    if (!labels.empty()) {
        f.values.erase("");
    }
    f.values[labels] += value;
}

void Metrics::set(const std::string& name, double value, const std::string& labels) {
    const std::lock_guard lock(mutex_);
    Family& f = family(name, Kind::gauge);
    if (!labels.empty()) {
        f.values.erase("");
    }
    f.values[labels] = value;
}

void Metrics::observe(const std::string& name, double seconds) {
    const std::lock_guard lock(mutex_);
    Family& f = family(name, Kind::histogram);
    for (std::size_t i = 0; i < kLatencyBuckets.size(); ++i) {
        f.buckets[i] += seconds <= kLatencyBuckets[i] ? 1U : 0U;
    }
    ++f.count;
    f.sum += seconds;
}

std::string Metrics::text() const {
    const std::lock_guard lock(mutex_);
    std::string out;
    for (const auto& [name, f] : families_) {
        out.append("# HELP ").append(name).append(" ").append(f.help).append("\n");
        out.append("# TYPE ").append(name).append(" ").append(kind_name(f.kind)).append("\n");
        for (const auto& [labels, value] : f.values) {
            out.append(name);
            if (!labels.empty()) {
                out.append("{").append(labels).append("}");
            }
            out.append(" ").append(number(value)).append("\n");
        }
        if (f.kind != Kind::histogram) {
            continue;
        }
        for (std::size_t i = 0; i < kLatencyBuckets.size(); ++i) {
            out.append(name).append("_bucket{le=\"").append(number(kLatencyBuckets[i])).append("\"} ");
            out.append(std::to_string(f.buckets[i])).append("\n");
        }
        out.append(name).append("_bucket{le=\"+Inf\"} ").append(std::to_string(f.count)).append("\n");
        out.append(name).append("_sum ").append(number(f.sum)).append("\n");
        out.append(name).append("_count ").append(std::to_string(f.count)).append("\n");
    }
    return out;
}

}  // namespace lynx::serve
