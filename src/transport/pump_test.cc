// The pump against a link that does exactly as it is told: order of reading and writing, budgets, what it reports of
// failures.
#include "transport/pump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "wire/frame.h"
#include "wire/session_test_util.h"

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;

class ScriptedLink final : public Link {
public:
    Result<std::size_t> write(Lane lane, base::ByteView bytes) override {
        const auto l = static_cast<std::size_t>(lane);
        log += lane == Lane::high ? 'H' : 'L';
        if (!write_error.ok()) {
            incoming[1] = behind_error;
            return write_error;
        }
        const std::size_t n = std::min(bytes.size(), room[l]);
        room[l] -= n;
        written[l].insert(written[l].end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
        return n;
    }
    Result<std::size_t> read(Lane lane, std::span<std::byte> buffer) override {
        const auto l = static_cast<std::size_t>(lane);
        log += lane == Lane::high ? 'h' : 'l';
        const std::size_t n = std::min(buffer.size(), incoming[l].size());
        if (n == 0 && !read_error[l].ok()) {
            return read_error[l];
        }
        std::copy_n(incoming[l].begin(), n, buffer.begin());
        incoming[l].erase(incoming[l].begin(), incoming[l].begin() + static_cast<std::ptrdiff_t>(n));
        return n;
    }
    Status wait(Interest interest, Nanos deadline) override {
        log += 'w';
        last_interest = interest;
        last_deadline = deadline;
        return {};
    }
    void wake() noexcept override {}
    void shutdown() noexcept override { log += 's'; }
    void close() noexcept override { log += 'c'; }

    std::string log;
    std::size_t room[2] = {SIZE_MAX, SIZE_MAX};
    base::Bytes written[2];
    base::Bytes incoming[2];
    Status read_error[2];
    Status write_error;
    base::Bytes behind_error;  ///< arrives on the low lane together with the write error
    Interest last_interest;
    Nanos last_deadline{0};
};

class Pump : public testing::Test {
protected:
    Pump() {
        p.start(wire::test_request(1, 1, 64));
        clock.advance_to(p.now);
    }
    void feed(Lane lane, const base::Bytes& bytes) {
        auto& in = link.incoming[static_cast<std::size_t>(lane)];
        in.insert(in.end(), bytes.begin(), bytes.end());
    }
    static base::Bytes page(const kv::PageKey& key, std::size_t payload) {
        const auto header = wire::encode_page_header(key, static_cast<std::uint32_t>(payload));
        base::Bytes frame(header.begin(), header.end());
        frame.resize(frame.size() + payload);
        return frame;
    }
    wire::SessionPair p;
    base::VirtualClock clock;
    ScriptedLink link;
    const kv::PageKey anchor{1, 1, 0, kv::Kind::key, 0, 0, 0};
    const kv::PageKey tier{1, 1, 0, kv::Kind::key, 1, 0, 0};
};

TEST_F(Pump, ReadsTheHighLaneEmptyBeforeItLooksAtTheLowLane) {
    feed(Lane::high, page(anchor, 3 << 20));
    feed(Lane::low, page(tier, 100));
    for (int i = 0; i < 3; ++i) {  // 1 MiB of the high lane per round; nothing of the low one
        ASSERT_TRUE(pump_once(p.decode, link, clock, clock.now()).ok());
        EXPECT_EQ(link.log.find('l'), std::string::npos) << link.log;
        EXPECT_GT(link.incoming[0].size(), 0U);
    }
    ASSERT_TRUE(pump_once(p.decode, link, clock, clock.now()).ok());
    EXPECT_TRUE(link.incoming[0].empty() && link.incoming[1].empty());
    EXPECT_EQ(p.events_of<wire::PageReceived>(p.decode)[0].key, anchor);
}

TEST_F(Pump, DoesNotWriteLowWhileHighIsBlocked) {
    ASSERT_TRUE(p.prefill.send_page(anchor, wire::test_payload(anchor, 1000), p.now).ok());
    ASSERT_TRUE(p.prefill.send_page(tier, wire::test_payload(tier, 1000), p.now).ok());
    link.room[0] = 500;
    ASSERT_TRUE(pump_once(p.prefill, link, clock, clock.now() + 1ms).ok());
    EXPECT_EQ(link.written[0].size(), 500U);
    EXPECT_TRUE(link.written[1].empty());
    link.log.clear();
    EXPECT_EQ(pump_once(p.prefill, link, clock, clock.now() + 1ms).value(), 0U);
    EXPECT_NE(link.log.find('w'), std::string::npos) << "nothing moved: it must have waited";
    EXPECT_TRUE(link.last_interest.write_high && !link.last_interest.write_low);
    link.room[0] = SIZE_MAX;
    ASSERT_TRUE(pump_once(p.prefill, link, clock, clock.now()).ok());
    EXPECT_EQ(link.written[0].size(), 1064U);
    EXPECT_EQ(link.written[1].size(), 1064U);
}

TEST_F(Pump, ABlockedAgedTierDoesNotStopAnchors) {
    ASSERT_TRUE(p.prefill.send_page(tier, wire::test_payload(tier, 1000), p.now).ok());
    const kv::PageKey second{1, 1, 1, kv::Kind::key, 0, 0, 0};
    ASSERT_TRUE(p.prefill.send_page(anchor, wire::test_payload(anchor, 1000), p.now).ok());
    ASSERT_TRUE(p.prefill.send_page(second, wire::test_payload(second, 1000), p.now).ok());
    clock.advance_to(p.now + 2s);  // the tier has aged: after the first anchor it is its turn
    link.room[1] = 0;
    ASSERT_TRUE(pump_once(p.prefill, link, clock, clock.now()).ok());
    EXPECT_EQ(link.written[0].size(), 2U * 1064 + wire::kHeaderBytes) << "both anchors and a heartbeat";
}

TEST_F(Pump, WritesABoundedShareSoThatNewAnchorsGetIn) {
    ASSERT_TRUE(p.prefill.send_page(tier, wire::test_payload(tier, 3 << 20), p.now).ok());
    const auto moved = pump_once(p.prefill, link, clock, clock.now());
    ASSERT_TRUE(moved.ok());
    EXPECT_LE(moved.value(), kPumpWriteBytesMax + kPumpChunkBytes);
    ASSERT_TRUE(p.prefill.send_page(anchor, wire::test_payload(anchor, 1000), p.now).ok());
    link.log.clear();
    ASSERT_TRUE(pump_once(p.prefill, link, clock, clock.now()).ok());
    EXPECT_LT(link.log.find('H'), link.log.find('L')) << link.log;
}

TEST_F(Pump, WaitsForTheSessionsTimerAtMost) {
    ASSERT_TRUE(pump_once(p.prefill, link, clock, clock.now() + 60s).ok());
    EXPECT_EQ(link.last_deadline, p.prefill.timeout());
    EXPECT_LE(link.last_deadline - clock.now(), 1s);
    link.log.clear();
    ASSERT_TRUE(pump_once(p.prefill, link, clock, clock.now()).ok());
    EXPECT_EQ(link.log.find('w'), std::string::npos) << "a deadline in the past does not wait";
}

TEST_F(Pump, TimersRunAfterReading) {
    // The process slept for a minute; the peer's heartbeats lie in the socket. They must count.
    feed(Lane::high, wire::encode_frame(wire::Heartbeat{}, Lane::high));
    clock.advance_to(p.now + 60s);
    EXPECT_TRUE(pump_once(p.decode, link, clock, clock.now()).ok());
    clock.advance_to(p.now + 120s);
    EXPECT_EQ(pump_once(p.decode, link, clock, clock.now()).status().code(), ErrorCode::peer_lost);
}

TEST_F(Pump, AGoodbyeSaysMoreThanTheResetBehindIt) {
    feed(Lane::high, wire::encode_frame(wire::Goodbye{ErrorCode::io, "the disk is full"}, Lane::high));
    link.read_error[1] = {ErrorCode::peer_lost, "reset"};
    EXPECT_EQ(pump_once(p.decode, link, clock, clock.now()).status().to_string(),
              "io: told by the peer: the disk is full");
}

TEST_F(Pump, AGoodbyeThatArrivesAsAWriteFails) {
    link.write_error = {ErrorCode::peer_lost, "broken pipe"};
    link.behind_error = wire::encode_frame(wire::Goodbye{ErrorCode::io, "the disk is full"}, Lane::low);
    ASSERT_TRUE(p.prefill.send_page(anchor, wire::test_payload(anchor, 1000), p.now).ok());
    EXPECT_EQ(pump_once(p.prefill, link, clock, clock.now()).status().to_string(),
              "io: told by the peer: the disk is full");
}

TEST_F(Pump, ALinkThatFailsIsNamedWithTheCutFrame) {
    base::Bytes frame = page(anchor, 100);
    frame.resize(90);
    feed(Lane::high, frame);
    link.read_error[0] = {ErrorCode::peer_lost, "the peer closed the connection"};
    EXPECT_EQ(pump_once(p.decode, link, clock, clock.now()).status().to_string(),
              "peer_lost: high lane: the peer closed the connection, in the middle of a page frame (26 of 100 bytes)");
    EXPECT_FALSE(p.decode.status().ok());
    EXPECT_EQ(pump_once(p.decode, link, clock, clock.now() + 1s).status().code(), ErrorCode::peer_lost) << "final";
}

TEST_F(Pump, FinishSaysGoodbyeShutsDownAndCloses) {
    p.decode.close({ErrorCode::io, "the disk is full"}, clock.now());
    link.read_error[0] = link.read_error[1] = {ErrorCode::peer_lost, "gone"};
    finish(p.decode, link, clock, clock.now() + 1s);
    const auto header = wire::decode_header(link.written[0]);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header.value().type, wire::FrameType::goodbye);
    EXPECT_EQ(link.log.back(), 'c');
    EXPECT_NE(link.log.find('s'), std::string::npos);
}

TEST_F(Pump, FinishGivesUpAtTheDeadline) {
    p.decode.close({ErrorCode::io, "the disk is full"}, clock.now());
    link.room[0] = 0;
    clock.advance_to(p.now + 5s);
    finish(p.decode, link, clock, clock.now());
    EXPECT_EQ(link.log.back(), 'c');
}

}  // namespace
}  // namespace lynx::transport
