#include "base/units.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>
#include <utility>

namespace lynx::base {
namespace {

struct Unit {
    std::string_view name;
    double factor;
};

constexpr Unit kPrefixes[] = {{"", 1},           {"k", 1e3},           {"m", 1e6},
                              {"g", 1e9},        {"t", 1e12},          {"ki", 1024},
                              {"mi", 1048576.0}, {"gi", 1073741824.0}, {"ti", 1099511627776.0}};
constexpr Unit kDurations[] = {{"ns", 1},     {"us", 1e3}, {"usec", 1e3}, {"ms", 1e6},
                               {"msec", 1e6}, {"s", 1e9},  {"sec", 1e9}};

/// The number at the start of `text`, finite and not negative, and the lower-case rest.
struct Split {
    double number = 0;
    std::string unit;
};

Result<Split> split(std::string_view what, std::string_view text) {
    Split out;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.number);
    if (error != std::errc{} || !std::isfinite(out.number) || std::signbit(out.number)) {
        return Status{ErrorCode::invalid_argument,
                      std::string(what) + " '" + std::string(text) + "': expected a number and a unit"};
    }
    out.unit.assign(end, text.data() + text.size());
    std::transform(out.unit.begin(), out.unit.end(), out.unit.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

/// Bits per second of one unit, or 0 when it is unknown.
double rate_factor(std::string_view unit) {
    if (unit.empty()) {
        return 1;
    }
    double factor = 0;
    if (unit.ends_with("bit")) {
        factor = 1;
    } else if (unit.ends_with("bps")) {
        factor = 8;
    } else {
        return 0;
    }
    unit.remove_suffix(3);
    for (const Unit& prefix : kPrefixes) {
        if (prefix.name == unit) {
            return factor * prefix.factor;
        }
    }
    return 0;
}

}  // namespace

Result<double> parse_rate(std::string_view text) {
    Result<Split> parts = split("rate", text);
    if (!parts.ok()) {
        return parts.status();
    }
    const double rate = parts.value().number * rate_factor(parts.value().unit);
    if (rate_factor(parts.value().unit) == 0) {
        return Status{ErrorCode::invalid_argument,
                      "rate '" + std::string(text) +
                          "': unknown unit, expected bit, kbit, mbit, gbit, tbit or, in bytes, "
                          "bps, kbps, mbps, gbps, tbps"};
    }
    if (rate <= 0) {
        return Status{ErrorCode::invalid_argument, "rate '" + std::string(text) + "': expected more than 0"};
    }
    if (rate > kRateBitsMax) {
        return Status{ErrorCode::limit_exceeded, "rate '" + std::string(text) + "': at most 10tbit"};
    }
    return rate;
}

Result<Nanos> parse_duration(std::string_view text) {
    Result<Split> parts = split("duration", text);
    if (!parts.ok()) {
        return parts.status();
    }
    const auto& [number, unit] = parts.value();
    if (unit.empty() && number == 0) {
        return Nanos{0};
    }
    const auto* found = std::find_if(std::begin(kDurations), std::end(kDurations),
                                     [&u = unit](const Unit& candidate) { return candidate.name == u; });
    if (found == std::end(kDurations)) {
        return Status{ErrorCode::invalid_argument,
                      "duration '" + std::string(text) + "': expected one of the units ns, us, ms, s"};
    }
    const double nanos = number * found->factor;
    if (nanos > static_cast<double>(kDurationMax.count())) {
        return Status{ErrorCode::limit_exceeded, "duration '" + std::string(text) + "': at most 3600s"};
    }
    return Nanos{static_cast<Nanos::rep>(std::llround(nanos))};
}

}  // namespace lynx::base
