// Two sessions over real loopback sockets, each on its own thread: handshake, transfer, failure of either side.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "base/rng.h"
#include "transport/emulated_link.h"
#include "transport/pump.h"
#include "transport/tcp/tcp.h"
#include "wire/session_test_util.h"

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;
using wire::Session;

const base::SteadyClock kClock;

struct Pair {
    std::unique_ptr<Link> client;
    std::unique_ptr<Link> server;
    std::uint64_t connection_id = 0;
};

/// Connects over loopback. Each side's session must exist and speak before the other side can pair: hence the thread.
class TcpSession : public testing::Test {
protected:
    void SetUp() override {
        auto listener = TcpListener::listen("127.0.0.1", 0, {});
        ASSERT_TRUE(listener.ok()) << listener.status().to_string();
        listener_ = std::move(listener).value();
    }
    std::unique_ptr<Link> connect() {
        auto link = tcp_connect("127.0.0.1", listener_->port(), {}, kClock.now() + 5s);
        EXPECT_TRUE(link.ok()) << link.status().to_string();
        return std::move(link).value();
    }
    /// Pumps `session` until it dies or `until` says stop; at most 20 s.
    template <class F>
    static Status drive(Session& session, Link& link, F until) {
        const base::Nanos end = kClock.now() + 20s;
        while (kClock.now() < end) {
            const auto moved = pump_once(session, link, kClock, kClock.now() + 50ms);
            if (!moved.ok()) {
                finish(session, link, kClock, kClock.now() + kLinger);
                return moved.status();
            }
            if (until()) {
                return {};
            }
        }
        return {ErrorCode::timeout, "test"};
    }
    std::unique_ptr<TcpListener> listener_;
};

TEST_F(TcpSession, TransfersARequestBothWays) {
    const wire::Request request = wire::test_request(1, 1, 100);
    std::thread prefill([&] {
        auto accepted = listener_->accept(kClock.now() + 10s);
        ASSERT_TRUE(accepted.ok() && accepted.value());
        Session session(wire::test_options(wire::Role::prefill, accepted.value()->connection_id), kClock.now());
        bool over = false;
        const Status status = drive(session, *accepted.value()->link, [&] {
            while (auto event = session.poll_event()) {
                if (const auto* r = std::get_if<wire::Request>(&*event)) {
                    EXPECT_EQ(*r, request);
                    for (const kv::PageKey& key : wire::all_keys(*r)) {
                        EXPECT_TRUE(session.send_page(key, wire::test_payload(key, 50000), kClock.now()).ok());
                    }
                }
                over = over || std::holds_alternative<wire::Done>(*event);
            }
            return over && session.idle();
        });
        EXPECT_TRUE(status.ok()) << status.to_string();
        session.close({}, kClock.now());
        finish(session, *accepted.value()->link, kClock, kClock.now() + kLinger);
    });
    const std::uint64_t id = make_connection_id();
    auto link = connect();
    Session session(wire::test_options(wire::Role::decode, id), kClock.now());
    std::size_t pages = 0;
    const Status status = drive(session, *link, [&] {
        while (auto event = session.poll_event()) {
            if (std::holds_alternative<wire::PeerReady>(*event)) {
                EXPECT_TRUE(session.request(request, kClock.now()).ok());
            } else if (auto* page = std::get_if<wire::PageReceived>(&*event)) {
                EXPECT_EQ(page->payload, *wire::test_payload(page->key, 50000));
                session.release(*page, kClock.now());
                ++pages;
                if (pages == wire::all_keys(request).size()) {
                    session.done({request.request, request.generation}, kClock.now());
                }
            }
        }
        return false;
    });
    prefill.join();
    EXPECT_EQ(pages, wire::all_keys(request).size());
    EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.to_string();
    EXPECT_EQ(status.message(), "the peer closed the session");
}

TEST_F(TcpSession, FingerprintMismatchIsTheSameCauseOnBothSides) {
    Status at_prefill;
    std::thread prefill([&] {
        auto accepted = listener_->accept(kClock.now() + 10s);
        ASSERT_TRUE(accepted.ok() && accepted.value());
        auto options = wire::test_options(wire::Role::prefill, accepted.value()->connection_id);
        options.hello.fingerprint[0] = 0xAB;
        Session session(options, kClock.now());
        at_prefill = drive(session, *accepted.value()->link, [] { return false; });
    });
    auto link = connect();
    Session session(wire::test_options(wire::Role::decode, make_connection_id()), kClock.now());
    const Status at_decode = drive(session, *link, [] { return false; });
    prefill.join();
    for (const Status& status : {at_prefill, at_decode}) {
        EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.to_string();
        EXPECT_NE(status.message().find("handshake: model fingerprint: expected "), std::string::npos)
            << status.to_string();
    }
}

}  // namespace
}  // namespace lynx::transport
