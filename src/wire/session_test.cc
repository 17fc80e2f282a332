// The session as a state machine: handshake, order, credit, timers. Endings: session_abort_test.cc; hostile bytes:
// session_hostile_test.cc.
#include "wire/session.h"

#include <gtest/gtest.h>

#include "wire/frame.h"
#include "wire/session_test_util.h"

namespace lynx::wire {
namespace {

using namespace std::chrono_literals;

TEST(Session, HandshakeThenPeerReadyOnBothSides) {
    SessionPair p;
    EXPECT_FALSE(p.decode.poll_event().has_value());
    p.settle();
    for (Session* session : {&p.prefill, &p.decode}) {
        const auto events = p.events(*session);
        ASSERT_EQ(events.size(), 1U);
        ASSERT_TRUE(std::holds_alternative<PeerReady>(events[0]));
    }
    EXPECT_TRUE(p.prefill.idle() && p.decode.idle());
}

TEST(Session, PeerReadyComesFirstThoughTheLowLaneIsLate) {
    SessionPair p;
    // Both lanes of decode's hello arrive; prefill's low one does not yet.
    p.move(p.decode, p.prefill, Lane::high);
    p.move(p.decode, p.prefill, Lane::low);
    p.move(p.prefill, p.decode, Lane::high);
    EXPECT_FALSE(p.decode.poll_event().has_value());
    EXPECT_EQ(p.decode.request(test_request(1, 1, 10), p.now).code(), ErrorCode::invalid_argument);
    p.move(p.prefill, p.decode, Lane::low);
    EXPECT_TRUE(std::holds_alternative<PeerReady>(p.decode.poll_event().value()));
    EXPECT_TRUE(p.decode.request(test_request(1, 1, 10), p.now).ok());
}

TEST(Session, EveryMismatchNamesItsFieldOnBothSides) {
    const std::pair<const char*, void (*)(Hello&)> cases[] = {
        {"handshake: role: expected", [](Hello& h) { h.role = Role::decode; }},
        {"handshake: connection id: expected", [](Hello& h) { h.connection_id = 8; }},
        {"handshake: model fingerprint: expected", [](Hello& h) { h.fingerprint[15] ^= 1; }},
        {"handshake: geometry: layers: expected", [](Hello& h) { h.geometry.layers.pop_back(); }},
        {"handshake: geometry: layer 1: kv_heads: expected", [](Hello& h) { h.geometry.layers[1].kv_heads = 3; }},
        {"handshake: geometry: layer 1: key_dim: expected", [](Hello& h) { h.geometry.layers[1].key_dim = 3; }},
        {"handshake: geometry: layer 1: value_dim: expected", [](Hello& h) { h.geometry.layers[1].value_dim = 3; }},
        {"handshake: geometry: layer 1: dtype: expected",
         [](Hello& h) { h.geometry.layers[1].dtype = kv::DType::f32; }},
        {"handshake: geometry: layer 1: window: expected", [](Hello& h) { h.geometry.layers[1].window = 3; }},
        {"handshake: geometry: layer 1: rope dims: expected", [](Hello& h) { h.geometry.layers[1].rope.dims = 3; }},
        {"handshake: geometry: layer 1: rope base: expected", [](Hello& h) { h.geometry.layers[1].rope.base = 3; }},
        {"handshake: geometry: layer 1: rope scale: expected", [](Hello& h) { h.geometry.layers[1].rope.scale = 3; }},
        {"handshake: geometry: layer 2: rope interleaved: expected",
         [](Hello& h) { h.geometry.layers[2].rope.interleaved = true; }},
    };
    for (const auto& [message, change] : cases) {
        SessionOptions options = test_options(Role::prefill);
        change(options.hello);
        SessionPair p(options);
        p.move(p.prefill, p.decode, Lane::high);  // only one side sees the other's hello ...
        EXPECT_EQ(p.decode.status().code(), ErrorCode::invalid_argument);
        EXPECT_NE(p.decode.status().message().find(message), std::string::npos) << p.decode.status().to_string();
        p.settle();  // ... and tells it
        EXPECT_EQ(p.prefill.status().code(), ErrorCode::invalid_argument);
        EXPECT_NE(p.prefill.status().message().find(message), std::string::npos) << p.prefill.status().to_string();
        EXPECT_FALSE(p.decode.poll_event().has_value());
        EXPECT_FALSE(p.prefill.poll_event().has_value());
    }
}

TEST(Session, HandshakeTimesOut) {
    SessionPair p;
    p.move(p.prefill, p.decode, Lane::high);
    EXPECT_EQ(p.decode.timeout(), p.now + 5s);
    p.decode.on_timeout(p.now + 5s - Nanos{1});
    EXPECT_TRUE(p.decode.status().ok());
    p.decode.on_timeout(p.now + 5s);
    EXPECT_EQ(p.decode.status().code(), ErrorCode::timeout);
    EXPECT_EQ(p.decode.status().message(), "handshake: no hello on the low lane within 5 s");
    EXPECT_EQ(p.decode.timeout(), Nanos::max());
}

TEST(Session, RequestProgressTokenPagesDone) {
    const Request request = test_request(9, 3, 70);
    SessionPair p;
    p.connect();
    ASSERT_TRUE(p.decode.request(request, p.now).ok());
    p.settle();
    EXPECT_EQ(p.events_of<Request>(p.prefill), std::vector{request});
    p.prefill.progress({9, 3, 10, 70, false}, p.now);
    p.prefill.progress({9, 3, 70, 70, false}, p.now);  // replaces the first, which nobody has read yet
    p.prefill.first_token({9, 3, 77}, p.now);
    for (const kv::PageKey& key : all_keys(request)) {
        ASSERT_TRUE(p.prefill.send_page(key, test_payload(key, 1000), p.now).ok());
    }
    p.settle();
    const auto events = p.events(p.decode);
    ASSERT_EQ(events.size(), 2 + all_keys(request).size());
    EXPECT_EQ(std::get<Progress>(events[0]), (Progress{9, 3, 70, 70, false}));
    EXPECT_EQ(std::get<FirstToken>(events[1]), (FirstToken{9, 3, 77}));
    for (std::size_t i = 2; i < events.size(); ++i) {
        const auto& page = std::get<PageReceived>(events[i]);
        EXPECT_EQ(page.payload, *test_payload(page.key, 1000));
    }
    p.decode.done({9, 3}, p.now);
    p.now += 10ms;  // held-back credit goes home
    p.decode.on_timeout(p.now);
    p.settle();
    EXPECT_EQ(p.events_of<Done>(p.prefill).size(), 1U);
    EXPECT_TRUE(p.events_of<AbortDone>(p.decode).empty());
    EXPECT_TRUE(p.prefill.idle() && p.decode.idle());
    EXPECT_TRUE(p.prefill.status().ok() && p.decode.status().ok());
    EXPECT_EQ(p.prefill.stats().pages_sent, p.decode.stats().pages_received);
    EXPECT_EQ(p.prefill.stats().bytes_sent[1], p.decode.stats().bytes_received[1]);
    // Quiescent: the very same id and generation may come again.
    EXPECT_TRUE(p.decode.request(request, p.now).ok());
}

TEST(Session, PagesLeaveInSendOrderWhateverOrderTheyCameIn) {
    const Request request = test_request(1, 1, 100, 32, 3);
    SessionPair p;
    p.start(request);
    auto keys = all_keys(request);
    for (std::size_t i = keys.size(); i-- > 0;) {
        ASSERT_TRUE(p.prefill.send_page(keys[i], test_payload(keys[i], 300), p.now).ok());
    }
    std::vector<kv::PageKey> order;
    while (const auto lane = p.prefill.next_lane(p.now)) {
        p.move(p.prefill, p.decode, *lane);
        for (const PageReceived& page : p.events_of<PageReceived>(p.decode)) {
            order.push_back(page.key);
        }
    }
    ASSERT_EQ(order.size(), keys.size());
    const auto rank = [](const kv::PageKey& k) {
        return k.tier == 0 ? std::tuple(0U, k.page, std::uint32_t{k.layer}, k.kind, 0U)
                           : std::tuple(std::uint32_t{k.tier}, std::uint32_t{k.layer},
                                        static_cast<std::uint32_t>(k.kind), kv::Kind::key, k.page);
    };
    for (std::size_t i = 1; i < order.size(); ++i) {
        EXPECT_LT(rank(order[i - 1]), rank(order[i])) << i;
    }
}

TEST(Session, ANewAnchorOvertakesAHalfSentTier) {
    const Request request = test_request(1, 1, 64);
    SessionPair p;
    p.start(request);
    const kv::PageKey tier{1, 1, 0, kv::Kind::key, 1, 0, 0};
    const kv::PageKey anchor{1, 1, 0, kv::Kind::key, 0, 1, 32};
    ASSERT_TRUE(p.prefill.send_page(tier, test_payload(tier, 100000), p.now).ok());
    ASSERT_EQ(p.prefill.next_lane(p.now), Lane::low);
    EXPECT_EQ(p.move(p.prefill, p.decode, Lane::low, 1000), 1000U);
    ASSERT_TRUE(p.prefill.send_page(anchor, test_payload(anchor, 1000), p.now).ok());
    EXPECT_EQ(p.prefill.next_lane(p.now), Lane::high);
    p.settle();
    const auto pages = p.events_of<PageReceived>(p.decode);
    ASSERT_EQ(pages.size(), 2U);
    EXPECT_EQ(pages[0].key, anchor);
}

TEST(Session, AnAgedTierTakesTurnsWithAnchors) {
    const Request request = test_request(1, 1, 320);
    SessionPair p;
    p.start(request);
    for (const kv::PageKey& key : all_keys(request)) {
        if (key.layer == 0) {
            ASSERT_TRUE(p.prefill.send_page(key, test_payload(key, 100), p.now).ok());
        }
    }
    p.now += 2s;  // now everything is old
    std::string lanes;
    while (const auto lane = p.prefill.next_lane(p.now)) {
        p.move(p.prefill, p.decode, *lane);
        lanes += *lane == Lane::high ? 'h' : 'l';
    }
    EXPECT_EQ(lanes, "hlhlhlhlhlhlhlhlhlhlhlhlhlhlhlhlhlhlhlhl");
}

TEST(Session, CreditStopsTheSenderAndReleaseLetsItGoOn) {
    SessionOptions decode = test_options(Role::decode);
    decode.credit_bytes = 4 * charge_of(1000);
    const Request request = test_request(1, 1, 320, 32, 1);
    SessionPair p(test_options(Role::prefill), decode);
    p.start(request);
    for (const kv::PageKey& key : all_keys(request)) {
        ASSERT_TRUE(p.prefill.send_page(key, test_payload(key, 1000), p.now).ok());
    }
    p.settle();
    std::size_t received = 0;
    std::vector<PageReceived> held = p.events_of<PageReceived>(p.decode, false);
    EXPECT_EQ(held.size(), 4U);
    EXPECT_FALSE(p.prefill.idle());
    for (int i = 0; i < 1000 && !held.empty(); ++i) {
        received += held.size();
        for (const PageReceived& page : held) {
            p.decode.release(page, p.now);
        }
        p.settle();
        held = p.events_of<PageReceived>(p.decode, false);
        EXPECT_LE(held.size(), 4U);
    }
    EXPECT_EQ(received, all_keys(request).size());
}

TEST(Session, TheLastBitOfCreditComesBackInTime) {
    SessionOptions decode = test_options(Role::decode);
    decode.credit_bytes = 10000;
    const Request request = test_request(1, 1, 64, 32, 1);
    SessionPair p(test_options(Role::prefill), decode);
    p.start(request);
    const auto keys = all_keys(request);
    ASSERT_TRUE(p.prefill.send_page(keys[0], test_payload(keys[0], 100), p.now).ok());
    ASSERT_TRUE(p.prefill.send_page(keys[1], test_payload(keys[1], 10000 - kHeaderBytes), p.now).ok());
    p.settle();
    EXPECT_EQ(p.events_of<PageReceived>(p.decode).size(), 1U);
    // Less than 1/8 of the window is free, so nothing comes back yet; and the second page fits only the whole window.
    p.settle();
    EXPECT_TRUE(p.events_of<PageReceived>(p.decode).empty());
    EXPECT_EQ(p.decode.timeout(), p.now + 5ms);
    p.now += 5ms;
    p.decode.on_timeout(p.now);
    p.settle();
    EXPECT_EQ(p.events_of<PageReceived>(p.decode).size(), 1U);
}

TEST(Session, SendPageRefusesWhatCannotGo) {
    SessionOptions prefill = test_options(Role::prefill);
    prefill.send_queue_bytes_max = 10000;
    SessionOptions decode = test_options(Role::decode);
    decode.credit_bytes = 5000;
    const Request request = test_request(1, 1, 64);
    SessionPair p(prefill, decode);
    p.start(request);
    const auto keys = all_keys(request);
    EXPECT_EQ(p.prefill.send_page(keys[0], test_payload(keys[0], 5000), p.now).code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(p.prefill.send_page(keys[0], std::make_shared<base::Bytes>(), p.now).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(p.prefill.send_page({2, 1, 0, kv::Kind::key, 0, 0, 0}, test_payload(keys[0], 5), p.now).code(),
              ErrorCode::cancelled);
    EXPECT_EQ(p.prefill.send_page({1, 1, 9, kv::Kind::key, 0, 0, 0}, test_payload(keys[0], 5), p.now).code(),
              ErrorCode::invalid_argument);
    EXPECT_EQ(p.decode.send_page(keys[0], test_payload(keys[0], 5), p.now).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(p.prefill.send_room(), 10000U);
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(p.prefill.send_page(keys[static_cast<std::size_t>(i)], test_payload(keys[0], 4900), p.now).ok());
    }
    EXPECT_EQ(p.prefill.send_page(keys[2], test_payload(keys[2], 4900), p.now).code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(p.prefill.send_room(), 200U);
    EXPECT_TRUE(p.prefill.status().ok());
}

TEST(Session, HeartbeatsKeepAQuietPairAlive) {
    SessionPair p;
    p.connect();
    for (const Nanos end = p.now + 60s; p.now < end;) {
        p.now = std::min(p.prefill.timeout(), p.decode.timeout());
        p.prefill.on_timeout(p.now);
        p.decode.on_timeout(p.now);
        p.settle();
    }
    EXPECT_TRUE(p.prefill.status().ok() && p.decode.status().ok());
    EXPECT_GE(p.decode.stats().bytes_received[0], 50 * kHeaderBytes);
    EXPECT_LE(p.decode.stats().bytes_received[0], 70 * kHeaderBytes + 1000);
}

TEST(Session, AnImpatientPeerHearsFromUsInTime) {
    SessionOptions decode = test_options(Role::decode);
    decode.peer_timeout = 400ms;
    SessionPair p(test_options(Role::prefill), decode);
    p.connect();
    EXPECT_EQ(p.prefill.timeout(), p.now + 100ms);
    for (const Nanos end = p.now + 5s; p.now < end;) {
        p.now = std::min(p.prefill.timeout(), p.decode.timeout());
        p.prefill.on_timeout(p.now);
        p.settle();
        p.decode.on_timeout(p.now);
        p.settle();
    }
    EXPECT_TRUE(p.prefill.status().ok() && p.decode.status().ok()) << p.decode.status().to_string();
}

TEST(Session, SilenceIsPeerLostAndAnyByteIsNotSilence) {
    const Request request = test_request(1, 1, 64);
    SessionPair p;
    p.start(request);
    const kv::PageKey anchor{1, 1, 0, kv::Kind::key, 0, 0, 0};
    ASSERT_TRUE(p.prefill.send_page(anchor, test_payload(anchor, 50), p.now).ok());
    for (int i = 0; i < 50; ++i) {  // a page that trickles in for 200 s
        p.now += 4s;
        p.move(p.prefill, p.decode, Lane::high, 1);
        p.decode.on_timeout(p.now);
        ASSERT_TRUE(p.decode.status().ok()) << p.decode.status().to_string();
    }
    p.decode.on_timeout(p.now + 5s);
    EXPECT_EQ(p.decode.status().code(), ErrorCode::peer_lost);
    EXPECT_EQ(p.decode.status().message(), "the peer was silent for 5 s, allowed are 5 s");
}

TEST(Session, CloseTellsThePeer) {
    SessionPair p;
    p.connect();
    p.prefill.close({ErrorCode::io, "the disk is full"}, p.now);
    p.settle();
    EXPECT_EQ(p.prefill.status().to_string(), "io: the disk is full");
    EXPECT_EQ(p.decode.status().to_string(), "io: told by the peer: the disk is full");
    EXPECT_EQ(p.decode.request(test_request(1, 1, 10), p.now).code(), ErrorCode::io);
}

TEST(Session, GoodbyeNeedNotWaitForAHalfSentPage) {
    const Request request = test_request(1, 1, 64);
    SessionPair p;
    p.start(request);
    const kv::PageKey anchor{1, 1, 0, kv::Kind::key, 0, 0, 0};
    ASSERT_TRUE(p.prefill.send_page(anchor, test_payload(anchor, 500000), p.now).ok());
    p.move(p.prefill, p.decode, Lane::high, 100);
    p.prefill.close({}, p.now);
    EXPECT_EQ(p.prefill.next_lane(p.now), Lane::low);
    p.settle();
    EXPECT_EQ(p.decode.status().to_string(), "peer_lost: the peer closed the session");
    EXPECT_FALSE(p.prefill.next_lane(p.now).has_value());
}

TEST(Session, ACutFrameIsNamed) {
    SessionPair p;
    p.start(test_request(1, 1, 64));
    const kv::PageKey anchor{1, 1, 0, kv::Kind::key, 0, 0, 0};
    ASSERT_TRUE(p.prefill.send_page(anchor, test_payload(anchor, 500), p.now).ok());
    p.move(p.prefill, p.decode, Lane::high, 164);
    p.decode.link_failed(Lane::high, {ErrorCode::peer_lost, "the peer closed the connection"});
    EXPECT_EQ(p.decode.status().to_string(),
              "peer_lost: the peer closed the connection, in the middle of a page frame (100 of 500 bytes)");
}

}  // namespace
}  // namespace lynx::wire
