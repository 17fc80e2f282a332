// Listening, pairing and connecting over loopback, with peers that behave and peers that do not.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <set>
#include <thread>

#include "transport/tcp/socket.h"
#include "transport/tcp/tcp_link.h"
#include "transport/tcp/tcp_test_util.h"
#include "transport/tcp/tls.h"

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;

const base::SteadyClock kClock;

base::Bytes hello_frame(std::uint64_t connection_id, Lane lane) {
    wire::Hello hello;
    hello.connection_id = connection_id;
    return wire::encode_frame(hello, lane);
}

class Listener : public testing::Test {
protected:
    void start(const TcpOptions& options = {}) {
        auto made = TcpListener::listen("127.0.0.1", 0, options);
        ASSERT_TRUE(made.ok()) << made.status().to_string();
        listener_ = std::move(made).value();
        ASSERT_NE(listener_->port(), 0);
    }
    [[nodiscard]] Fd raw() const { return raw_connection(listener_->port()); }
    static void say(const Fd& socket, base::ByteView bytes) {
        ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    /// True when the listener has hung up on it.
    static bool hung_up(const Fd& socket) {
        std::byte b{};
        return ::recv(socket.get(), &b, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
    [[nodiscard]] std::optional<Accepted> accept(Nanos patience = 5s) {
        auto accepted = listener_->accept(kClock.now() + patience);
        EXPECT_TRUE(accepted.ok()) << accepted.status().to_string();
        return std::move(accepted).value();
    }
    std::unique_ptr<TcpListener> listener_;
};

TEST_F(Listener, OnlyLoopbackAndNumericAddresses) {
    for (const char* host : {"0.0.0.0", "192.168.0.1", "10.1.2.3", "::", "8.8.8.8", "2001:db8::1"}) {
        const auto listening = TcpListener::listen(host, 0, {});
        EXPECT_EQ(listening.status().code(), ErrorCode::invalid_argument) << host;
        EXPECT_NE(listening.status().message().find("only loopback is allowed"), std::string::npos);
        EXPECT_EQ(tcp_connect(host, 9, {}, kClock.now()).status().code(), ErrorCode::invalid_argument) << host;
    }
    for (const char* host : {"", "example.org", "127.0.0.1.1", "127.0.0.256", "a\nb"}) {
        EXPECT_EQ(TcpListener::listen(host, 0, {}).status().code(), ErrorCode::invalid_argument) << host;
    }
    EXPECT_TRUE(TcpListener::listen("localhost", 0, {}).ok());
    EXPECT_TRUE(TcpListener::listen("127.0.0.2", 0, {}).ok());
}

TEST_F(Listener, PortInUseAndConnectionRefusedAreIoWithTheAddress) {
    start();
    const std::uint16_t port = listener_->port();
    const auto second = TcpListener::listen("127.0.0.1", port, {});
    EXPECT_EQ(second.status().code(), ErrorCode::io);
    EXPECT_NE(second.status().message().find("127.0.0.1 port " + std::to_string(port)), std::string::npos);
    listener_.reset();
    const auto refused = tcp_connect("127.0.0.1", port, {}, kClock.now() + 5s);
    EXPECT_EQ(refused.status().code(), ErrorCode::io) << refused.status().to_string();
    EXPECT_NE(refused.status().message().find("refused"), std::string::npos) << refused.status().to_string();
}

TEST_F(Listener, PairsInterleavedPeersByConnectionId) {
    start();
    const Fd a_low = raw();
    const Fd b_high = raw();
    const Fd b_low = raw();
    const Fd a_high = raw();
    say(a_low, hello_frame(1, Lane::low));
    say(b_high, hello_frame(2, Lane::high));
    say(b_low, hello_frame(2, Lane::low));
    say(a_high, hello_frame(1, Lane::high));
    std::set<std::uint64_t> ids;
    for (int i = 0; i < 2; ++i) {
        auto peer = accept();
        ASSERT_TRUE(peer.has_value());
        ids.insert(peer->connection_id);
        // The bytes read for pairing come out of the link first, each on its lane.
        for (const Lane lane : {Lane::high, Lane::low}) {
            const base::Bytes expected = hello_frame(peer->connection_id, lane);
            base::Bytes got(expected.size());
            std::size_t have = 0;
            for (const Nanos end = kClock.now() + 5s; have < got.size() && kClock.now() < end;) {
                have += peer->link->read(lane, std::span(got).subspan(have)).value();
            }
            EXPECT_TRUE(got == expected);
        }
    }
    EXPECT_EQ(ids, (std::set<std::uint64_t>{1, 2}));
    EXPECT_EQ(listener_->half_open(), 0U);
}

TEST_F(Listener, AHeaderInPiecesIsFine) {
    start();
    const Fd high = raw();
    const Fd low = raw();
    say(low, hello_frame(5, Lane::low));
    const base::Bytes frame = hello_frame(5, Lane::high);
    std::thread slow([&] {
        for (std::size_t i = 0; i < frame.size(); i += 13) {
            say(high, base::ByteView(frame).subspan(i, std::min<std::size_t>(13, frame.size() - i)));
            std::this_thread::sleep_for(1ms);
        }
    });
    const auto peer = accept();
    EXPECT_TRUE(peer.has_value());
    slow.join();
}

TEST_F(Listener, WhoeverDoesNotSayHelloIsHungUpOn) {
    start();
    const Fd garbage = raw();
    const Fd other_frame = raw();
    const Fd id_zero = raw();
    const Fd closed = raw();
    say(garbage, base::Bytes(64, std::byte{'G'}));
    say(other_frame, wire::encode_frame(wire::Heartbeat{}, Lane::high));
    say(id_zero, hello_frame(0, Lane::high));
    ::shutdown(closed.get(), SHUT_RDWR);
    EXPECT_FALSE(accept(200ms).has_value());
    EXPECT_TRUE(hung_up(garbage));
    EXPECT_TRUE(hung_up(other_frame));
    EXPECT_TRUE(hung_up(id_zero));
    EXPECT_EQ(listener_->half_open(), 0U);
}

TEST_F(Listener, TheSameLaneTwiceIsHungUpOnAndThePeerStillGetsThrough) {
    start();
    const Fd first = raw();
    say(first, hello_frame(3, Lane::high));
    EXPECT_FALSE(accept(50ms).has_value());
    const Fd again = raw();
    say(again, hello_frame(3, Lane::high));
    EXPECT_FALSE(accept(50ms).has_value());
    EXPECT_TRUE(hung_up(again));
    EXPECT_FALSE(hung_up(first));
    const Fd low = raw();
    say(low, hello_frame(3, Lane::low));
    EXPECT_TRUE(accept().has_value());
}

TEST_F(Listener, SilentConnectionsTimeOut) {
    TcpOptions options;
    options.pairing_timeout = 50ms;
    start(options);
    const Fd silent = raw();
    const Fd half = raw();
    say(half, hello_frame(3, Lane::high));
    EXPECT_FALSE(accept(20ms).has_value());
    EXPECT_EQ(listener_->half_open(), 2U);
    EXPECT_FALSE(accept(500ms).has_value());
    EXPECT_EQ(listener_->half_open(), 0U);
    EXPECT_TRUE(hung_up(silent));
    EXPECT_TRUE(hung_up(half));
}

TEST_F(Listener, ACrowdOfSilentConnectionsKeepsNobodyOut) {
    TcpOptions options;
    options.half_open_max = 4;
    start(options);
    std::vector<Fd> crowd;
    for (int i = 0; i < 20; ++i) {
        crowd.push_back(raw());
        EXPECT_FALSE(accept(2ms).has_value());
        EXPECT_LE(listener_->half_open(), 4U);
    }
    const Fd high = raw();
    const Fd low = raw();
    say(high, hello_frame(3, Lane::high));
    say(low, hello_frame(3, Lane::low));
    EXPECT_TRUE(accept().has_value());
}

/// A connection to the listener from another address of this machine.
Fd raw_from(const char* address, std::uint16_t port) {
    const Address from = resolve(address, 0, Reach::loopback).value().front();
    const Address to = resolve("127.0.0.1", port, Reach::loopback).value().front();
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(from.bytes), from.size), 0);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(to.bytes), to.size), 0);
    return socket;
}

TEST_F(Listener, ACrowdThatSaysHelloFromElsewhereKeepsNobodyOut) {
    TcpOptions options;
    options.half_open_max = 8;
    start(options);
    const Fd high = raw();
    say(high, hello_frame(3, Lane::high));
    EXPECT_FALSE(accept(20ms).has_value());
    std::vector<Fd> crowd;
    for (std::uint64_t i = 0; i < 40; ++i) {
        crowd.push_back(raw_from("127.0.0.2", listener_->port()));
        say(crowd.back(), hello_frame(100 + i, Lane::high));
        EXPECT_FALSE(accept(2ms).has_value());
        EXPECT_LE(listener_->half_open(), 8U);
    }
    const Fd low = raw();
    say(low, hello_frame(3, Lane::low));
    const auto peer = accept();
    ASSERT_TRUE(peer.has_value());
    EXPECT_EQ(peer->connection_id, 3U);
}

/// Has proven who it is as soon as it says something.
class NamedStream final : public Stream {
public:
    explicit NamedStream(Fd socket) : plain_(plain_stream(std::move(socket))) {}
    Result<bool> prove() override { return true; }
    Result<std::size_t> write(base::ByteView bytes) override { return plain_->write(bytes); }
    Result<std::size_t> read(std::span<std::byte> buffer) override { return plain_->read(buffer); }
    void shutdown() noexcept override { plain_->shutdown(); }
    [[nodiscard]] std::string identity() const override { return "somebody"; }
    [[nodiscard]] int descriptor() const noexcept override { return plain_->descriptor(); }

private:
    std::unique_ptr<Stream> plain_;
};

/// Security without the mathematics; the first `failures` connections find no memory.
class NamedContext final : public TlsContext {
public:
    explicit NamedContext(int failures = 0) : failures_(failures) {}
    Result<std::unique_ptr<Stream>> connecting(Fd socket, const std::string& /*host*/) const override {
        return std::unique_ptr<Stream>(std::make_unique<NamedStream>(std::move(socket)));
    }
    Result<std::unique_ptr<Stream>> accepting(Fd socket) const override {
        if (failures_-- > 0) {
            return Status{ErrorCode::io, "TLS: no memory"};
        }
        return connecting(std::move(socket), "");
    }

private:
    mutable int failures_;
};

TEST_F(Listener, WhoHasProvenItselfStaysHoweverManyAddressesACrowdHas) {
    TcpOptions options;
    options.half_open_max = 8;
    options.tls = std::make_shared<NamedContext>();
    start(options);
    const Fd high = raw();
    say(high, hello_frame(3, Lane::high));
    EXPECT_FALSE(accept(20ms).has_value());
    std::vector<Fd> crowd;
    for (int i = 0; i < 40; ++i) {
        const std::string address = "127.0.1." + std::to_string(1 + i);
        crowd.push_back(raw_from(address.c_str(), listener_->port()));
        EXPECT_FALSE(accept(2ms).has_value());
        EXPECT_LE(listener_->half_open(), 8U);
    }
    const Fd low = raw();
    say(low, hello_frame(3, Lane::low));
    EXPECT_TRUE(accept().has_value());
}

TEST_F(Listener, AConnectionForWhichThereIsNoMemoryIsRefusedAndTheNextOneTaken) {
    std::vector<Status> refused;
    TcpOptions options;
    options.tls = std::make_shared<NamedContext>(1);
    options.on_refused = [&](const Status& why) { refused.push_back(why); };
    start(options);
    const Fd unlucky = raw();
    EXPECT_FALSE(accept(50ms).has_value());
    EXPECT_TRUE(hung_up(unlucky));
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_EQ(refused[0].message(), "TLS: no memory");
    const Fd high = raw();
    const Fd low = raw();
    say(high, hello_frame(3, Lane::high));
    say(low, hello_frame(3, Lane::low));
    EXPECT_TRUE(accept().has_value());
}

/// While it lives this process can open no more descriptors.
class NoDescriptorsLeft {
public:
    NoDescriptorsLeft() {
        EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
        const Fd next(::dup(0));
        rlimit none = before_;
        none.rlim_cur = static_cast<rlim_t>(next.get());
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    ~NoDescriptorsLeft() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptorsLeft(const NoDescriptorsLeft&) = delete;
    NoDescriptorsLeft& operator=(const NoDescriptorsLeft&) = delete;

private:
    rlimit before_{};
};

TEST_F(Listener, WithoutDescriptorsItPausesAndLivesOn) {
    start();
    const Fd high = raw();
    const Fd low = raw();
    say(high, hello_frame(3, Lane::high));
    say(low, hello_frame(3, Lane::low));
    rusage before{};
    rusage after{};
    {
        const NoDescriptorsLeft none;
        ::getrusage(RUSAGE_THREAD, &before);
        EXPECT_FALSE(accept(300ms).has_value());
        ::getrusage(RUSAGE_THREAD, &after);
    }
    const auto wakeups = after.ru_nvcsw - before.ru_nvcsw;
    EXPECT_GE(wakeups, 1);
    EXPECT_LE(wakeups, 30) << "it must wait, not spin";
    EXPECT_TRUE(accept().has_value());
}

TEST_F(Listener, WakeEndsAccept) {
    start();
    std::thread waker([this] { listener_->wake(); });
    const Nanos begin = kClock.now();
    EXPECT_FALSE(accept(60s).has_value());
    EXPECT_LT(kClock.now() - begin, 30s);
    waker.join();
}

TEST_F(Listener, LanesAreMarked) {
    const TcpPair pair = make_tcp_pair();
    for (Link* link : {pair.client.get(), pair.server.get()}) {
        const auto* tcp = dynamic_cast<TcpLink*>(link);
        ASSERT_NE(tcp, nullptr);
        const auto get = [&](Lane lane, int level, int name) {
            int value = -1;
            socklen_t size = sizeof value;
            EXPECT_EQ(::getsockopt(tcp->descriptor(lane), level, name, &value, &size), 0);
            return value;
        };
        EXPECT_EQ(get(Lane::high, IPPROTO_IP, IP_TOS), 34 << 2);
        EXPECT_EQ(get(Lane::low, IPPROTO_IP, IP_TOS), 10 << 2);
        EXPECT_EQ(get(Lane::high, SOL_SOCKET, SO_PRIORITY), 6);
        EXPECT_EQ(get(Lane::low, SOL_SOCKET, SO_PRIORITY), 2);
        EXPECT_EQ(get(Lane::high, IPPROTO_TCP, TCP_NODELAY), 1);
        EXPECT_EQ(get(Lane::low, IPPROTO_TCP, TCP_NODELAY), 1);
        EXPECT_EQ(get(Lane::low, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 16384);
        EXPECT_EQ(get(Lane::high, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 131072);
        EXPECT_EQ(get(Lane::high, IPPROTO_TCP, TCP_USER_TIMEOUT), 10000);
    }
}

}  // namespace
}  // namespace lynx::transport
