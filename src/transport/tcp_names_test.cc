// Names with several addresses, and resolvers that do not answer. The resolver is ours: this program defines
// getaddrinfo, and everything below it is the real thing.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "transport/tcp/tcp_test_util.h"

namespace {

/// What the resolver says of the names of this test.
const std::map<std::string, std::vector<const char*>> kNames = {
    {"two.test", {"127.0.0.2", "127.0.0.1"}},
    {"both.test", {"127.0.0.1", "198.51.100.1", "127.0.0.3"}},
    {"elsewhere.test", {"198.51.100.1", "198.51.100.2"}},
};
std::atomic<bool> resolver_answers{true};

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the C library's names are reserved
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
    using Real = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
    static const Real kReal = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    const auto known = node == nullptr ? kNames.end() : kNames.find(node);
    if (known == kNames.end() || (hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0)) {
        return kReal(node, service, hints, result);
    }
    while (!resolver_answers) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    addrinfo** tail = result;
    for (const char* address : known->second) {
        const int error = kReal(address, service, hints, tail);
        if (error != 0) {
            return error;
        }
        tail = &(*tail)->ai_next;  // glibc allocates each entry by itself, so chains may be joined
    }
    return 0;
}

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;

const base::SteadyClock kClock;

TcpOptions plaintext() {
    TcpOptions options;
    options.allow_plaintext = true;  // names are for other machines
    return options;
}

/// Connects from any address; whether somebody listens there.
bool reachable(const char* address, std::uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    EXPECT_EQ(::inet_pton(AF_INET, address, &to.sin_addr), 1);
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
}

/// A port whose connections nobody accepts and whose queue is full: whoever connects hears nothing at all.
class SilentPort {
public:
    SilentPort(const char* address, std::uint16_t port) : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(port);
        EXPECT_EQ(::inet_pton(AF_INET, address, &at.sin_addr), 1);
        EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
        EXPECT_EQ(::listen(listening_.get(), 0), 0);
        for (int i = 0; i < 4; ++i) {
            waiting_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
            static_cast<void>(::connect(waiting_.back().get(), reinterpret_cast<const sockaddr*>(&at), sizeof at));
        }
    }

private:
    Fd listening_;
    std::vector<Fd> waiting_;
};

TEST(Names, AnAddressThatIsSilentDoesNotUseUpTheDeadlineOfTheNext) {
    auto listener = TcpListener::listen("127.0.0.1", 0, {});
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    const SilentPort silent("127.0.0.2", listener.value()->port());
    const auto link = tcp_connect("two.test", listener.value()->port(), plaintext(), kClock.now() + 5s);
    EXPECT_TRUE(link.ok()) << link.status().to_string();
}

TEST(Names, AResolverThatIsSilentIsGivenUpAtTheDeadline) {
    resolver_answers = false;
    std::atomic<bool> over{false};
    std::thread rescue([&] {  // of a caller that waits for the resolver
        for (const Nanos end = kClock.now() + 10s; !over && kClock.now() < end;) {
            std::this_thread::sleep_for(1ms);
        }
        resolver_answers = true;
    });
    const auto link = tcp_connect("two.test", 9, plaintext(), kClock.now() + 50ms);
    EXPECT_FALSE(resolver_answers) << "waited until the resolver answered";
    EXPECT_EQ(link.status().code(), ErrorCode::timeout) << link.status().to_string();
    EXPECT_NE(link.status().message().find("two.test"), std::string::npos);
    over = true;
    rescue.join();
}

TEST(Names, EveryAddressOfANameListensExceptOtherMachines) {
    auto listener = TcpListener::listen("both.test", 0, plaintext());
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    const std::uint16_t port = listener.value()->port();
    EXPECT_TRUE(reachable("127.0.0.1", port));
    EXPECT_TRUE(reachable("127.0.0.3", port));
    EXPECT_FALSE(reachable("127.0.0.2", port));

    const auto taken = TcpListener::listen("both.test", port, plaintext());
    EXPECT_EQ(taken.status().code(), ErrorCode::io) << taken.status().to_string();
    const auto elsewhere = TcpListener::listen("elsewhere.test", 0, plaintext());
    EXPECT_EQ(elsewhere.status().code(), ErrorCode::io) << elsewhere.status().to_string();
}

TEST(Names, APeerIsHeardOnEveryAddressOfAName) {
    auto listener = TcpListener::listen("both.test", 0, plaintext());
    ASSERT_TRUE(listener.ok()) << listener.status().to_string();
    std::thread caller([port = listener.value()->port()] {
        auto link = tcp_connect("127.0.0.3", port, {}, kClock.now() + 5s);
        ASSERT_TRUE(link.ok()) << link.status().to_string();
        wire::Hello hello;
        hello.connection_id = 9;
        for (const Lane lane : {Lane::high, Lane::low}) {
            EXPECT_TRUE(link.value()->write(lane, wire::encode_frame(hello, lane)).ok());
        }
        static_cast<void>(link.value()->wait({}, kClock.now() + 5s));  // until the other side is gone
    });
    auto accepted = listener.value()->accept(kClock.now() + 5s);
    ASSERT_TRUE(accepted.ok() && accepted.value().has_value()) << accepted.status().to_string();
    EXPECT_EQ(accepted.value()->connection_id, 9U);
    accepted.value()->link->close();
    caller.join();
}

}  // namespace
}  // namespace lynx::transport
