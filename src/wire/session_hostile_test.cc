// The session against a peer that breaks the rules: each breach ends the session with a clear one-line error, at once.
#include <gtest/gtest.h>

#include "wire/frame.h"
#include "wire/session.h"
#include "wire/session_state.h"
#include "wire/session_test_util.h"

namespace lynx::wire {
namespace {

using namespace std::chrono_literals;

/// A session of one role in mid-life, with request 1 generation 1 (64 tokens, pages of 32, 2 tiers) live on it.
class Hostile : public testing::Test {
protected:
    Hostile() { p_.start(test_request(1, 1, 64)); }

    [[nodiscard]] Status feed(Session& session, const base::Bytes& bytes, Lane lane = Lane::high) {
        return session.recv(lane, bytes, p_.now);
    }
    [[nodiscard]] static base::Bytes page(const kv::PageKey& key, std::uint32_t bytes, bool with_payload = false) {
        const auto header = encode_page_header(key, bytes);
        base::Bytes frame(header.begin(), header.end());
        frame.resize(frame.size() + (with_payload ? bytes : 0));
        return frame;
    }
    /// Dead, with that code and text, one line; the peer is told; nothing else happens any more.
    void expect_dead(Session& session, ErrorCode code, const std::string& text) {
        EXPECT_EQ(session.status().code(), code) << session.status().to_string();
        EXPECT_NE(session.status().message().find(text), std::string::npos) << session.status().to_string();
        EXPECT_EQ(session.status().message().find('\n'), std::string::npos);
        EXPECT_EQ(session.recv(Lane::low, encode_frame(Heartbeat{}, Lane::low), p_.now).code(), code);
        const auto lane = session.next_lane(p_.now);
        ASSERT_TRUE(lane.has_value());
        const base::ByteView view = session.send_view(*lane, p_.now);
        const auto header = decode_header(view);
        ASSERT_TRUE(header.ok());
        EXPECT_EQ(header.value().type, FrameType::goodbye);
        session.sent(*lane, view.size(), p_.now);
        EXPECT_FALSE(session.next_lane(p_.now).has_value());
    }
    SessionPair p_;
};

TEST_F(Hostile, Garbage) {
    static_cast<void>(feed(p_.decode, base::Bytes(64, std::byte{0x55})));
    expect_dead(p_.decode, ErrorCode::corrupt, "high lane, frame at byte");
}

TEST_F(Hostile, FrameBeforeHello) {
    Session fresh(test_options(Role::decode), p_.now);
    EXPECT_EQ(feed(fresh, encode_frame(Heartbeat{}, Lane::high)).code(), ErrorCode::corrupt);
    EXPECT_NE(fresh.status().message().find("heartbeat frame before the hello"), std::string::npos);
}

TEST_F(Hostile, SecondHello) {
    static_cast<void>(feed(p_.decode, encode_frame(test_options(Role::prefill).hello, Lane::high)));
    expect_dead(p_.decode, ErrorCode::corrupt, "hello frame came before");
}

TEST_F(Hostile, WrongLane) {
    static_cast<void>(feed(p_.decode, encode_frame(Heartbeat{}, Lane::high), Lane::low));
    expect_dead(p_.decode, ErrorCode::corrupt, "heartbeat frame of the high lane");
}

TEST_F(Hostile, TypesThatTheRoleDoesNotTake) {
    const std::pair<Message, Role> cases[] = {{test_request(2, 1, 10), Role::decode},
                                              {Done{1, 1}, Role::decode},
                                              {Progress{1, 1, 1, 2, false}, Role::prefill},
                                              {FirstToken{1, 1, 5}, Role::prefill}};
    for (const auto& [message, role] : cases) {
        SessionPair p;
        p.start(test_request(1, 1, 64));
        Session& session = role == Role::decode ? p.decode : p.prefill;
        EXPECT_EQ(session.recv(Lane::high, encode_frame(message, Lane::high), p.now).code(), ErrorCode::corrupt);
        EXPECT_NE(session.status().message().find("may not arrive"), std::string::npos);
    }
    static_cast<void>(feed(p_.prefill, page({1, 1, 0, kv::Kind::key, 0, 0, 0}, 10)));
    expect_dead(p_.prefill, ErrorCode::corrupt, "page frame may not arrive");
}

TEST_F(Hostile, PagesThatAreNotAdmissible) {
    const std::tuple<kv::PageKey, std::uint32_t, const char*> cases[] = {
        {{2, 1, 0, kv::Kind::key, 0, 0, 0}, 10, "no such request and generation"},
        {{1, 2, 0, kv::Kind::key, 0, 0, 0}, 10, "no such request and generation"},
        {{1, 1, 3, kv::Kind::key, 0, 0, 0}, 10, "layer: expected below 3, actual 3"},
        {{1, 1, 0, kv::Kind::latent, 0, 0, 0}, 10, "kind: expected below 2"},
        {{1, 1, 0, kv::Kind::key, 0, 2, 64}, 10, "page: expected below 2, actual 2"},
        {{1, 1, 0, kv::Kind::key, 0, 1, 31}, 10, "first token: expected 32, actual 31"},
        {{1, 1, 0, kv::Kind::key, 0, 0, 0}, 0, "page payload: expected 1.."},
        {{1, 1, 0, kv::Kind::key, 0, 0, 0},
         (64U << 20) + 1,
         "page payload: expected 1..67108864 bytes, actual 67108865"},
        {{1, 1, 0, kv::Kind::key, 0, 0, 0}, 64U << 20, "overspends the credit"},
    };
    for (const auto& [key, bytes, text] : cases) {
        SessionPair p;
        p.start(test_request(1, 1, 64));
        // The header alone is refused: no payload is waited for, none is allocated.
        EXPECT_EQ(p.decode.recv(Lane::high, page(key, bytes), p.now).code(), ErrorCode::corrupt) << text;
        EXPECT_NE(p.decode.status().message().find(text), std::string::npos) << p.decode.status().to_string();
    }
}

TEST_F(Hostile, ATierTheRequestDoesNotHave) {
    static_cast<void>(feed(p_.decode, page({1, 1, 0, kv::Kind::key, 2, 0, 0}, 10), Lane::low));
    expect_dead(p_.decode, ErrorCode::corrupt, "tier: expected below 2, actual 2");
}

TEST_F(Hostile, TheSamePageTwice) {
    const kv::PageKey key{1, 1, 0, kv::Kind::key, 0, 0, 0};
    EXPECT_TRUE(feed(p_.decode, page(key, 10, true)).ok());
    static_cast<void>(feed(p_.decode, page(key, 10)));
    expect_dead(p_.decode, ErrorCode::corrupt, "came before");
    EXPECT_TRUE(p_.decode.poll_event().has_value()) << "what was right before stays";
}

TEST_F(Hostile, APageAfterItsRequestWasClosed) {
    EXPECT_TRUE(feed(p_.decode, encode_frame(AbortDone{1, 1}, Lane::low), Lane::low).ok());
    static_cast<void>(feed(p_.decode, page({1, 1, 0, kv::Kind::key, 1, 0, 0}, 10), Lane::low));
    expect_dead(p_.decode, ErrorCode::corrupt, "after its request was closed");
}

TEST_F(Hostile, AbortDoneOutOfTurn) {
    SessionPair p;
    p.start(test_request(1, 1, 64));
    EXPECT_EQ(p.prefill.recv(Lane::high, encode_frame(AbortDone{1, 1}, Lane::high), p.now).code(), ErrorCode::corrupt);
    EXPECT_TRUE(feed(p_.decode, encode_frame(AbortDone{1, 1}, Lane::low), Lane::low).ok());
    static_cast<void>(feed(p_.decode, encode_frame(AbortDone{1, 1}, Lane::low), Lane::low));
    expect_dead(p_.decode, ErrorCode::corrupt, "came before");
}

TEST_F(Hostile, ControlOfUnknownRequests) {
    for (const Message& message : {Message{Progress{7, 1, 1, 2, false}}, Message{FirstToken{1, 2, 3}},
                                   Message{Abort{7, 7, ErrorCode::io, "x"}}, Message{AbortDone{7, 7}}}) {
        SessionPair p;
        p.start(test_request(1, 1, 64));
        EXPECT_EQ(p.decode.recv(Lane::high, encode_frame(message, Lane::high), p.now).code(), ErrorCode::corrupt);
        EXPECT_NE(p.decode.status().message().find("no such request"), std::string::npos);
    }
}

TEST_F(Hostile, CreditThatWasNeverSpent) {
    static_cast<void>(feed(p_.prefill, encode_frame(Credit{Lane::low, 1}, Lane::high)));
    expect_dead(p_.prefill, ErrorCode::corrupt, "credit frame: 1 bytes, at most 0 are outstanding");
    SessionPair p;
    p.connect();
    EXPECT_EQ(p.prefill.recv(Lane::high, encode_frame(Credit{Lane::low, ~std::uint64_t{0}}, Lane::high), p.now).code(),
              ErrorCode::corrupt);
}

TEST_F(Hostile, MoreRequestsThanAgreed) {
    for (std::uint64_t id = 2; id <= 64; ++id) {
        ASSERT_TRUE(feed(p_.prefill, encode_frame(test_request(id, 1, 10), Lane::high)).ok());
    }
    static_cast<void>(feed(p_.prefill, encode_frame(test_request(65, 1, 10), Lane::high)));
    expect_dead(p_.prefill, ErrorCode::corrupt, "64 requests are live or ending, at most 64");
}

TEST_F(Hostile, TheSameRequestTwice) {
    static_cast<void>(feed(p_.prefill, encode_frame(test_request(1, 1, 64), Lane::high)));
    expect_dead(p_.prefill, ErrorCode::corrupt, "generation 1 is live");
}

TEST_F(Hostile, APeerThatMakesUsAnswerAndDoesNotRead) {
    Status status;
    for (std::uint64_t id = 2; id < 100000 && status.ok(); ++id) {
        for (const Message& message :
             {Message{test_request(id, 1, 1)}, Message{Done{id, 1}}, Message{AbortDone{id, 1}}}) {
            status = feed(p_.prefill, encode_frame(message, Lane::high));
            if (!status.ok()) {
                break;
            }
        }
        while (p_.prefill.poll_event()) {
        }
        ASSERT_LE(p_.prefill.queued_bytes(Lane::high), kControlFramesMax * kHeaderBytes);
    }
    expect_dead(p_.prefill, ErrorCode::limit_exceeded, "the peer does not take control frames");
}

TEST_F(Hostile, EventsThatNobodyPolls) {
    Status status;
    for (std::size_t i = 0; i < 2 * kControlEventsMax && status.ok(); ++i) {
        status = feed(p_.decode, encode_frame(FirstToken{1, 1, 5}, Lane::high));
    }
    expect_dead(p_.decode, ErrorCode::limit_exceeded, "events wait to be polled");
}

TEST_F(Hostile, ManyProgressReportsAreOneEvent) {
    for (std::uint32_t i = 0; i < 100000; ++i) {
        ASSERT_TRUE(feed(p_.decode, encode_frame(Progress{1, 1, i, 100000, false}, Lane::high)).ok());
    }
    EXPECT_EQ(std::get<Progress>(p_.decode.poll_event().value()).tokens_done, 99999U);
    EXPECT_FALSE(p_.decode.poll_event().has_value());
}

TEST_F(Hostile, EveryFlippedBitOfAConversationIsFoundOrHarmless) {
    // A recorded stream to decode: hello, progress, one page, heartbeat. Every bit flipped in turn, fed in two pieces.
    base::Bytes stream;
    const auto add = [&stream](const base::Bytes& bytes) { stream.insert(stream.end(), bytes.begin(), bytes.end()); };
    SessionOptions prefill = test_options(Role::prefill);
    prefill.hello.credit_bytes = 1000;
    prefill.hello.payload_bytes_max = 1000;
    prefill.hello.requests_max = 5;
    const base::Bytes hello = encode_frame(prefill.hello, Lane::high);
    add(encode_frame(Progress{1, 1, 5, 64, false}, Lane::high));
    add(page({1, 1, 0, kv::Kind::key, 0, 0, 0}, 20, true));
    const std::size_t payload_from = stream.size() - 20;
    const std::size_t payload_to = stream.size();
    add(encode_frame(Heartbeat{}, Lane::high));
    for (std::size_t bit = 0; bit < stream.size() * 8; ++bit) {
        SessionPair p;
        p.start(test_request(1, 1, 64));
        base::Bytes bad = stream;
        bad[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
        const base::ByteView view(bad);
        static_cast<void>(p.decode.recv(Lane::high, view.first(bit / 8), p.now));
        static_cast<void>(p.decode.recv(Lane::high, view.subspan(bit / 8), p.now));
        const bool in_payload = bit / 8 >= payload_from && bit / 8 < payload_to;
        EXPECT_EQ(p.decode.status().code(), in_payload ? ErrorCode::ok : ErrorCode::corrupt) << "bit " << bit;
    }
}

}  // namespace
}  // namespace lynx::wire
