// How requests end: abort from either side, quiescence, generations, and the bound on requests.
#include <gtest/gtest.h>

#include "wire/session.h"
#include "wire/session_test_util.h"

namespace lynx::wire {
namespace {

TEST(SessionAbort, AbortByDecodeDropsWhatIsOnItsWay) {
    const Request request = test_request(1, 1, 64);
    SessionPair p;
    p.start(request);
    for (const kv::PageKey& key : all_keys(request)) {
        ASSERT_TRUE(p.prefill.send_page(key, test_payload(key, 50000), p.now).ok());
    }
    // One anchor arrives and waits in the event queue; one is half received; one tier is half received on the low lane.
    p.move(p.prefill, p.decode, Lane::high);
    p.move(p.prefill, p.decode, Lane::high);
    p.move(p.prefill, p.decode, Lane::high, 100);
    p.move(p.prefill, p.decode, Lane::low, 100);
    p.decode.abort({1, 1, ErrorCode::cancelled, "client left"}, p.now);
    p.decode.abort({1, 1, ErrorCode::cancelled, "again"}, p.now);
    EXPECT_FALSE(p.decode.poll_event().has_value());
    // The new generation starts while the old one is not quiescent.
    Request next = request;
    next.generation = 2;
    ASSERT_TRUE(p.decode.request(next, p.now).ok());
    p.settle();
    const auto at_prefill = p.events(p.prefill);
    ASSERT_EQ(at_prefill.size(), 2U);
    EXPECT_EQ(std::get<Abort>(at_prefill[0]), (Abort{1, 1, ErrorCode::cancelled, "client left"}));
    EXPECT_EQ(std::get<Request>(at_prefill[1]), next);
    const auto at_decode = p.events(p.decode);
    ASSERT_EQ(at_decode.size(), 1U);
    EXPECT_EQ(std::get<AbortDone>(at_decode[0]), (AbortDone{1, 1}));
    EXPECT_EQ(p.decode.stats().pages_dropped_late, 3U);
    EXPECT_EQ(p.prefill.send_page(all_keys(request)[9], test_payload({}, 9), p.now).code(), ErrorCode::cancelled);
    // All credit is back: the next generation can use the whole window.
    for (const kv::PageKey& key : all_keys(next)) {
        ASSERT_TRUE(p.prefill.send_page(key, test_payload(key, 500), p.now).ok());
    }
    p.settle();
    EXPECT_EQ(p.events_of<PageReceived>(p.decode).size(), all_keys(next).size());
    EXPECT_TRUE(p.prefill.status().ok() && p.decode.status().ok());
}

TEST(SessionAbort, AbortDoneComesOnlyAfterTheHalfSentPage) {
    const Request request = test_request(1, 1, 64);
    SessionPair p;
    p.start(request);
    const kv::PageKey tier{1, 1, 0, kv::Kind::key, 1, 0, 0};
    ASSERT_TRUE(p.prefill.send_page(tier, test_payload(tier, 50000), p.now).ok());
    p.move(p.prefill, p.decode, Lane::low, 100);
    p.decode.abort({1, 1, ErrorCode::cancelled, ""}, p.now);
    for (int i = 0; i < 10; ++i) {  // everything but the low lane of prefill
        p.move(p.decode, p.prefill, Lane::high);
        p.move(p.prefill, p.decode, Lane::high);
    }
    EXPECT_TRUE(p.events_of<AbortDone>(p.decode).empty()) << "the low lane still carries a page of it";
    p.settle();
    EXPECT_EQ(p.events_of<AbortDone>(p.decode).size(), 1U);
    EXPECT_EQ(p.decode.stats().pages_dropped_late, 1U);
}

TEST(SessionAbort, AbortByPrefillAndBothAtOnce) {
    for (const bool both : {false, true}) {
        const Request request = test_request(1, 1, 64);
        SessionPair p;
        p.start(request);
        const kv::PageKey tier{1, 1, 0, kv::Kind::key, 1, 0, 0};
        ASSERT_TRUE(p.prefill.send_page(tier, test_payload(tier, 500), p.now).ok());
        p.move(p.prefill, p.decode, Lane::low, 100);
        p.prefill.abort({1, 1, ErrorCode::io, "disk"}, p.now);
        if (both) {
            p.decode.abort({1, 1, ErrorCode::cancelled, "client left"}, p.now);
        }
        // The low lane runs ahead of the high one, which carries the abort.
        p.move(p.prefill, p.decode, Lane::low);
        p.move(p.prefill, p.decode, Lane::low);
        p.settle();
        EXPECT_TRUE(p.prefill.status().ok() && p.decode.status().ok()) << p.decode.status().to_string();
        EXPECT_EQ(p.events_of<AbortDone>(p.prefill).size(), 1U);
        const auto at_decode = p.events(p.decode);
        if (both) {
            ASSERT_EQ(at_decode.size(), 1U);
            EXPECT_TRUE(std::holds_alternative<AbortDone>(at_decode[0]));
        } else {
            ASSERT_EQ(at_decode.size(), 1U);
            EXPECT_EQ(std::get<Abort>(at_decode[0]).message, "disk");
        }
        EXPECT_TRUE(p.decode.request(request, p.now).ok()) << "forgotten on both sides";
        p.settle();
        EXPECT_EQ(p.events_of<Request>(p.prefill).size(), 1U);
    }
}

TEST(SessionAbort, RequestsAreBounded) {
    SessionOptions prefill = test_options(Role::prefill);
    prefill.requests_max = 3;
    SessionPair p(prefill);
    p.connect();
    for (std::uint64_t id = 0; id < 3; ++id) {
        EXPECT_TRUE(p.decode.request(test_request(id, 1, 10), p.now).ok());
    }
    EXPECT_EQ(p.decode.request(test_request(3, 1, 10), p.now).code(), ErrorCode::limit_exceeded);
    p.decode.abort({0, 1, ErrorCode::cancelled, ""}, p.now);
    p.settle();
    EXPECT_TRUE(p.decode.request(test_request(3, 1, 10), p.now).ok());
    p.settle();
    EXPECT_TRUE(p.prefill.status().ok()) << p.prefill.status().to_string();
}

}  // namespace
}  // namespace lynx::wire
