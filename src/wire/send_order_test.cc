#include "wire/send_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace lynx::wire {
namespace {

using std::chrono::seconds;

SendKey control(std::uint64_t sequence) {
    SendKey key;
    key.sequence = sequence;
    return key;
}

SendKey page(std::uint64_t arrival, std::uint8_t tier, std::uint32_t number, std::uint16_t layer, kv::Kind kind,
             base::Nanos queued_at = base::Nanos{0}) {
    SendKey key;
    key.cls = tier == 0 ? SendClass::anchor : SendClass::later;
    key.arrival = arrival;
    key.key = {arrival, 1, layer, kind, tier, number, number * 16};
    key.sequence = 1000 + layer;
    key.queued_at = queued_at;
    return key;
}

std::string name(const SendKey& k) {
    if (k.cls == SendClass::control) {
        return std::string("c") + std::to_string(k.sequence);
    }
    return std::string("r") + std::to_string(k.arrival) + "t" + std::to_string(k.key.tier) + "p" +
           std::to_string(k.key.page) + "l" + std::to_string(k.key.layer) + (k.key.kind == kv::Kind::key ? "K" : "V");
}

TEST(SendOrder, ControlThenAnchorsPageMajorThenTiersLayerMajor) {
    std::vector<SendKey> keys{control(5), control(9)};
    for (const std::uint64_t arrival : {std::uint64_t{1}, std::uint64_t{2}}) {
        for (std::uint8_t tier = 0; tier < 3; ++tier) {
            for (std::uint32_t number = 0; number < 2; ++number) {
                for (std::uint16_t layer = 0; layer < 2; ++layer) {
                    for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                        keys.push_back(page(arrival, tier, number, layer, kind));
                    }
                }
            }
        }
    }
    std::shuffle(keys.begin(), keys.end(), std::mt19937(3));
    std::sort(keys.begin(), keys.end(), sends_before);
    std::string order;
    for (const SendKey& k : keys) {
        order += name(k) + " ";
    }
    EXPECT_EQ(order,
              "c5 c9 "
              "r1t0p0l0K r1t0p0l0V r1t0p0l1K r1t0p0l1V r1t0p1l0K r1t0p1l0V r1t0p1l1K r1t0p1l1V "
              "r2t0p0l0K r2t0p0l0V r2t0p0l1K r2t0p0l1V r2t0p1l0K r2t0p1l0V r2t0p1l1K r2t0p1l1V "
              "r1t1p0l0K r1t1p1l0K r1t1p0l0V r1t1p1l0V r1t1p0l1K r1t1p1l1K r1t1p0l1V r1t1p1l1V "
              "r1t2p0l0K r1t2p1l0K r1t2p0l0V r1t2p1l0V r1t2p0l1K r1t2p1l1K r1t2p0l1V r1t2p1l1V "
              "r2t1p0l0K r2t1p1l0K r2t1p0l0V r2t1p1l0V r2t1p0l1K r2t1p1l1K r2t1p0l1V r2t1p1l1V "
              "r2t2p0l0K r2t2p1l0K r2t2p0l0V r2t2p1l0V r2t2p0l1K r2t2p1l1K r2t2p0l1V r2t2p1l1V ");
}

TEST(SendOrder, StrictWeakOrder) {
    const std::vector<SendKey> keys{control(1),
                                    control(2),
                                    page(1, 0, 0, 0, kv::Kind::key),
                                    page(1, 0, 1, 0, kv::Kind::key),
                                    page(1, 1, 0, 1, kv::Kind::value),
                                    page(2, 1, 0, 0, kv::Kind::key)};
    for (std::size_t i = 0; i < keys.size(); ++i) {
        for (std::size_t j = 0; j < keys.size(); ++j) {
            EXPECT_EQ(sends_before(keys[i], keys[j]), i < j);
        }
    }
}

TEST(SendOrder, LowWaitsForHighUntilItHasAged) {
    const SendKey anchor = page(2, 0, 0, 0, kv::Kind::key, seconds(10));
    const SendKey tier = page(1, 1, 0, 0, kv::Kind::key, seconds(8));
    const auto low_first = [&](base::Nanos now, bool anchor_went_last) {
        return low_goes_first(anchor, tier, now, seconds(2), anchor_went_last);
    };
    EXPECT_FALSE(low_first(seconds(10) - base::Nanos{1}, true));
    EXPECT_TRUE(low_first(seconds(10), true));
    EXPECT_FALSE(low_first(seconds(10), false)) << "an aged tier takes turns with anchors, it does not shut them out";
    EXPECT_FALSE(low_goes_first(control(1), tier, seconds(100), seconds(2), true)) << "control always goes first";
    EXPECT_TRUE(low_goes_first(anchor, control(1), seconds(0), seconds(2), false)) << "also on the low lane";
}

}  // namespace
}  // namespace lynx::wire
