// The peer is another process that is killed, stopped, or talks nonsense in the middle of a transfer: the survivor must
// say what happened within the stated time, and never hang.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "transport/pump.h"
#include "transport/tcp/tcp.h"
#include "wire/frame.h"
#include "wire/session_test_util.h"

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;
using wire::Session;

const base::SteadyClock kClock;

wire::SessionOptions quick(wire::Role role, std::uint64_t id) {
    wire::SessionOptions o = wire::test_options(role, id);
    o.heartbeat = 100ms;
    o.peer_timeout = 1s;
    o.handshake_timeout = 1s;
    o.hello.geometry = wire::test_geometry(4);
    return o;
}

/// A prefill node in a process of its own: sends pages of whatever is asked for, without end.
[[noreturn]] void prefill_process(TcpListener& listener) {
    auto accepted = listener.accept(kClock.now() + 10s);
    if (!accepted.ok() || !accepted.value()) {
        ::_exit(1);
    }
    Link& link = *accepted.value()->link;
    Session session(quick(wire::Role::prefill, accepted.value()->connection_id), kClock.now());
    std::vector<kv::PageKey> keys;
    std::size_t next = 0;
    const auto payload = std::make_shared<base::Bytes>(200000);
    for (const Nanos end = kClock.now() + 30s; kClock.now() < end;) {
        if (!pump_once(session, link, kClock, kClock.now() + 20ms).ok()) {
            finish(session, link, kClock, kClock.now() + kLinger);
            ::_exit(0);
        }
        while (auto event = session.poll_event()) {
            if (const auto* r = std::get_if<wire::Request>(&*event)) {
                keys = wire::all_keys(*r, 4);
            }
        }
        for (; next < keys.size() && session.send_room() > 0 && session.queued_bytes(Lane::low) < 4'000'000; ++next) {
            static_cast<void>(session.send_page(keys[next], payload, kClock.now()));
        }
    }
    ::_exit(2);
}

class TcpFault : public testing::Test {
protected:
    void SetUp() override {
        auto listener = TcpListener::listen("127.0.0.1", 0, {});
        ASSERT_TRUE(listener.ok());
        child_ = ::fork();
        ASSERT_GE(child_, 0);
        if (child_ == 0) {
            prefill_process(*listener.value());
        }
        auto link = tcp_connect("127.0.0.1", listener.value()->port(), {}, kClock.now() + 5s);
        ASSERT_TRUE(link.ok()) << link.status().to_string();
        link_ = std::move(link).value();
        session_ = std::make_unique<Session>(quick(wire::Role::decode, make_connection_id()), kClock.now());
    }
    void TearDown() override {
        if (child_ > 0) {
            ::kill(child_, SIGKILL);
            ::waitpid(child_, nullptr, 0);
        }
    }
    /// Pumps until `pages` have arrived or the session is dead; pages are released at once.
    Status pump_until(std::size_t pages) {
        for (const Nanos end = kClock.now() + 20s; kClock.now() < end && pages_ < pages;) {
            const auto moved = pump_once(*session_, *link_, kClock, kClock.now() + 50ms);
            if (!moved.ok()) {
                return moved.status();
            }
            while (auto event = session_->poll_event()) {
                if (std::holds_alternative<wire::PeerReady>(*event)) {
                    EXPECT_TRUE(session_->request(wire::test_request(1, 1, 4000, 8, 3), kClock.now()).ok());
                } else if (const auto* page = std::get_if<wire::PageReceived>(&*event)) {
                    ++pages_;
                    session_->release(*page, kClock.now());
                }
            }
        }
        return session_->status();
    }
    void expect_lost_within(Nanos limit) {
        const Nanos hit = kClock.now();
        const Status status = pump_until(SIZE_MAX);
        finish(*session_, *link_, kClock, kClock.now() + kLinger);
        EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.to_string();
        EXPECT_EQ(status.message().find('\n'), std::string::npos);
        // Generous: the machine may be busy. What it must not be is 20 s, the end of the loop.
        EXPECT_LT(kClock.now() - hit, limit + 5s) << status.to_string();
        std::printf("%s\n", status.to_string().c_str());
    }

    pid_t child_ = -1;
    std::unique_ptr<Link> link_;
    std::unique_ptr<Session> session_;
    std::size_t pages_ = 0;
};

TEST_F(TcpFault, KilledInTheMiddleOfATransfer) {
    ASSERT_TRUE(pump_until(30).ok());
    ::kill(child_, SIGKILL);
    expect_lost_within(0s);
}

TEST_F(TcpFault, KilledBeforeTheHandshakeIsOver) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
    const Status status = pump_until(1);
    EXPECT_TRUE(status.code() == ErrorCode::peer_lost || status.code() == ErrorCode::timeout) << status.to_string();
}

TEST_F(TcpFault, StoppedInTheMiddleOfATransfer) {
    ASSERT_TRUE(pump_until(30).ok());
    ::kill(child_, SIGSTOP);
    expect_lost_within(1s);
}

TEST_F(TcpFault, StoppedForLessThanTheTimeoutIsNothing) {
    ASSERT_TRUE(pump_until(30).ok());
    ::kill(child_, SIGSTOP);
    const Nanos until = kClock.now() + 300ms;
    while (kClock.now() < until) {
        ASSERT_TRUE(pump_until(pages_).ok());
        ASSERT_TRUE(pump_once(*session_, *link_, kClock, kClock.now() + 20ms).ok());
    }
    ::kill(child_, SIGCONT);
    EXPECT_TRUE(pump_until(pages_ + 200).ok()) << session_->status().to_string();
}

TEST_F(TcpFault, ThisSideGoesAndThePeerEndsCleanly) {
    ASSERT_TRUE(pump_until(30).ok());
    session_->close({}, kClock.now());
    finish(*session_, *link_, kClock, kClock.now() + 5s);
    int status = -1;
    for (int i = 0; i < 500 && ::waitpid(child_, &status, WNOHANG) == 0; ++i) {
        ::usleep(10000);
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    child_ = -1;
}

}  // namespace
}  // namespace lynx::transport
