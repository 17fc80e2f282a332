#include "base/units.h"

#include <gtest/gtest.h>

namespace lynx::base {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Units, RatesInTcSyntax) {
    const std::pair<const char*, double> cases[] = {
        {"250mbit", 250e6}, {"1gbit", 1e9},   {"500kbit", 500e3},  {"8bit", 8},      {"1000", 1000},
        {"2.5mbit", 2.5e6}, {"1MBIT", 1e6},   {"1kbps", 8e3},      {"10mbps", 80e6}, {"1bps", 8},
        {"1gbps", 8e9},     {"1kibit", 1024}, {"1mibps", 8388608}, {"1tbit", 1e12},  {"10tbit", 1e13},
    };
    for (const auto& [text, bits] : cases) {
        const auto rate = parse_rate(text);
        ASSERT_TRUE(rate.ok()) << text << ": " << rate.status().to_string();
        EXPECT_DOUBLE_EQ(rate.value(), bits) << text;
    }
}

TEST(Units, BadRates) {
    for (const char* text : {"", "mbit", "-1mbit", "-0", "0", "0mbit", "1 mbit", "1mbits", "1xbit", "nan", "inf", "1mb",
                             "1m", "250mbit ", " 250mbit", "0x10", "1e", "1kkbit"}) {
        EXPECT_EQ(parse_rate(text).status().code(), ErrorCode::invalid_argument) << text;
    }
    EXPECT_EQ(parse_rate("11tbit").status().code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(parse_rate("1e300").status().code(), ErrorCode::limit_exceeded);
}

TEST(Units, Durations) {
    const std::pair<const char*, Nanos> cases[] = {
        {"5ms", milliseconds(5)}, {"100us", microseconds(100)},
        {"1s", seconds(1)},       {"1.5ms", microseconds(1500)},
        {"0", Nanos(0)},          {"0ms", Nanos(0)},
        {"7ns", Nanos(7)},        {"20MS", milliseconds(20)},
        {"3600s", seconds(3600)},
    };
    for (const auto& [text, expected] : cases) {
        const auto t = parse_duration(text);
        ASSERT_TRUE(t.ok()) << text << ": " << t.status().to_string();
        EXPECT_EQ(t.value(), expected) << text;
    }
}

TEST(Units, BadDurations) {
    for (const char* text : {"", "5", "ms", "-5ms", "5m", "5 ms", "5msms", "nan", "infs"}) {
        EXPECT_EQ(parse_duration(text).status().code(), ErrorCode::invalid_argument) << text;
    }
    EXPECT_EQ(parse_duration("3601s").status().code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(parse_duration("1e300s").status().code(), ErrorCode::limit_exceeded);
}

}  // namespace
}  // namespace lynx::base
