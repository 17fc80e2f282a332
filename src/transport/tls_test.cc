// Who gets in, who does not and what each side is told.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

#include "transport/tcp/raw_tls_caller.h"
#include "transport/tcp/tcp_test_util.h"
#include "transport/tcp/tls_stream.h"
#include "transport/tcp/tls_test_util.h"

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;

const base::SteadyClock kClock;

TcpOptions with(const PeerSecurity& security) {
    TcpOptions options;
    options.tls = load_tls(security);
    return options;
}

/// The first failure of reading either lane; ok when there is none within a second.
Status end_of(Link& link) {
    std::array<std::byte, 256> buffer;
    for (const Nanos end = kClock.now() + 1s; kClock.now() < end;) {
        for (const Lane lane : {Lane::high, Lane::low}) {
            const auto n = link.read(lane, buffer);
            if (!n.ok()) {
                return n.status();
            }
        }
        EXPECT_TRUE(link.wait({}, end).ok());
    }
    return {};
}

class Tls : public TlsNodes {
protected:
    [[nodiscard]] PeerSecurity keys(const std::string& text) {
        PeerSecurity security;
        security.key_file = folder_.write("keys" + std::to_string(++files_), text);
        return security;
    }
    /// Neither side may take the other; returns why, the client's reason first.
    std::array<Status, 2> refuse(const TcpOptions& client, const TcpOptions& server) {
        TcpAttempt attempt = attempt_tcp(client, server, 7);
        EXPECT_FALSE(attempt.accepted.has_value());
        EXPECT_FALSE(attempt.refused.empty());
        const Status told = attempt.client.ok() ? end_of(*attempt.client.value()) : attempt.client.status();
        EXPECT_EQ(told.code(), ErrorCode::unauthenticated) << told.to_string();
        for (const Status& why : attempt.refused) {
            EXPECT_EQ(why.code(), ErrorCode::unauthenticated) << why.to_string();
        }
        return {told, attempt.refused.empty() ? Status{} : attempt.refused.front()};
    }

    int files_ = 0;
};

TEST_F(Tls, CertificatesOfOneAuthorityGetInAndAreNamed) {
    TcpAttempt attempt = attempt_tcp(with(decode_), with(prefill_), 7);
    ASSERT_TRUE(attempt.accepted.has_value());
    EXPECT_TRUE(attempt.accepted->identity.starts_with("CN=decode-1 sha256:")) << attempt.accepted->identity;
    EXPECT_TRUE(attempt.refused.empty());
}

TEST_F(Tls, AKeyThatBothHaveGetsInAndIsNamed) {
    const TcpOptions server = with(keys(key_line("decode-1", '1') + key_line("decode-2", '2')));
    TcpAttempt attempt = attempt_tcp(with(keys(key_line("decode-2", '2'))), server, 7);
    ASSERT_TRUE(attempt.accepted.has_value());
    EXPECT_EQ(attempt.accepted->identity, "key decode-2");
}

TEST_F(Tls, AnotherAuthoritysCertificateIsRefusedByEitherSide) {
    TestAuthority other(folder_, "other");
    PeerSecurity stranger = other.issue("stranger", "IP:127.0.0.1,DNS:decode.test");
    EXPECT_SAYS(refuse(with(decode_), with(stranger))[0], "certificate verify failed");
    stranger.authority = prefill_.authority;  // it trusts; it is not trusted
    const auto [told, why] = refuse(with(stranger), with(prefill_));
    EXPECT_SAYS(told, "unknown ca");
    EXPECT_SAYS(why, "unable to get local issuer certificate");
}

TEST_F(Tls, ExpiredCertificatesAreRefused) {
    EXPECT_SAYS(refuse(with(decode_), with(authority_.issue("old", "IP:127.0.0.1", -60)))[0], "has expired");
    EXPECT_SAYS(refuse(with(authority_.issue("old", "DNS:decode.test", -60)), with(prefill_))[1], "has expired");
}

TEST_F(Tls, AServerMustBeTheHostThatWasCalled) {
    const PeerSecurity elsewhere = authority_.issue("elsewhere", "DNS:elsewhere.test,IP:127.0.0.2");
    EXPECT_SAYS(refuse(with(decode_), with(elsewhere))[0], "IP address mismatch");
    PeerSecurity expecting = decode_;
    expecting.peer_name = "elsewhere.test";
    EXPECT_TRUE(attempt_tcp(with(expecting), with(elsewhere), 7).accepted.has_value());
    EXPECT_SAYS(refuse(with(expecting), with(prefill_))[0], "ostname mismatch");
}

TEST_F(Tls, AServerMayAskForOneName) {
    PeerSecurity particular = prefill_;
    particular.peer_name = "decode.test";
    EXPECT_TRUE(attempt_tcp(with(decode_), with(particular), 7).accepted.has_value());
    const PeerSecurity another = authority_.issue("another", "DNS:another.test");
    EXPECT_SAYS(refuse(with(another), with(particular))[1], "ostname mismatch");
    EXPECT_SAYS(refuse(with(authority_.issue("nameless", "")), with(particular))[1], "ostname mismatch");
    // What a node calls itself in its subject is not a name that it was given.
    EXPECT_SAYS(refuse(with(authority_.issue("decode.test", "IP:127.0.0.9")), with(particular))[1], "ostname mismatch");
}

TEST_F(Tls, ACertificateForOneRoleDoesNotDoForTheOther) {
    const std::string names = "DNS:node.test,IP:127.0.0.1";
    EXPECT_SAYS(refuse(with(authority_.issue("server", names, 3600, "serverAuth")), with(prefill_))[1], "purpose");
    EXPECT_SAYS(refuse(with(decode_), with(authority_.issue("client", names, 3600, "clientAuth")))[0], "purpose");
}

TEST_F(Tls, AWrongOrUnknownKeyIsRefused) {
    const TcpOptions server = with(keys(key_line("decode-1", '1')));
    refuse(with(keys(key_line("decode-1", '2'))), server);
    refuse(with(keys(key_line("decode-9", '1'))), server);
}

TEST_F(Tls, KeysAndCertificatesDoNotMeet) {
    const TcpOptions keyed = with(keys(key_line("a", '1')));
    refuse(keyed, with(prefill_));
    refuse(with(decode_), keyed);
}

TEST_F(Tls, ACallerTakesTwoLanesOnlyOfOneAndTheSame) {
    const auto one = load_tls(prefill_);
    const auto other = load_tls(authority_.issue("prefill-2", "IP:127.0.0.1"));
    for (const auto& second : {one, other}) {
        const Fd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(::listen(listening.get(), 2), 0);  // any free port
        sockaddr_in at{};
        socklen_t size = sizeof at;
        ASSERT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
        std::atomic<bool> over{false};
        std::thread server([&] {
            std::vector<std::unique_ptr<Stream>> streams;
            for (const auto& context : {one, second}) {
                Fd socket(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
                streams.push_back(context->accepting(std::move(socket)).value());
            }
            while (!over) {
                for (const auto& stream : streams) {
                    static_cast<void>(stream->prove());
                }
                std::this_thread::sleep_for(1ms);
            }
        });
        const auto link = tcp_connect("127.0.0.1", ntohs(at.sin_port), with(decode_), kClock.now() + 5s);
        over = true;
        server.join();
        if (second == one) {
            EXPECT_TRUE(link.ok()) << link.status().to_string();
        } else {
            EXPECT_EQ(link.status().code(), ErrorCode::unauthenticated) << link.status().to_string();
            EXPECT_SAYS(link.status(), "CN=prefill-1");
            EXPECT_SAYS(link.status(), "CN=prefill-2");
        }
    }
}

TEST_F(Tls, PlaintextAndTlsDoNotMeet) {
    const TcpAttempt plain = attempt_tcp({}, with(prefill_), 7);
    EXPECT_FALSE(plain.accepted.has_value());
    ASSERT_FALSE(plain.refused.empty());
    EXPECT_EQ(plain.refused.front().code(), ErrorCode::unauthenticated);

    const TcpAttempt sealed = attempt_tcp(with(decode_), {}, 7, 3s);
    EXPECT_FALSE(sealed.accepted.has_value());
    EXPECT_FALSE(sealed.client.ok());
}

TEST_F(Tls, OlderVersionsAndAnonymousClientsAreRefused) {
    const struct {
        int version;
        const char* why;
    } cases[] = {{TLS1_2_VERSION, "unsupported protocol"}, {TLS1_3_VERSION, "peer did not return a certificate"}};
    for (const auto& each : cases) {
        TcpOptions options = with(prefill_);
        std::vector<Status> refused;
        options.on_refused = [&](const Status& why) { refused.push_back(why); };
        auto listener = TcpListener::listen("127.0.0.1", 0, options);
        ASSERT_TRUE(listener.ok());
        std::atomic<bool> done{false};
        std::thread caller([&] {
            const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                            SSL_CTX_free);
            SSL_CTX_set_max_proto_version(context.get(), each.version);
            const Fd socket = raw_connection(listener.value()->port());
            const std::unique_ptr<SSL, SslFree> ssl(SSL_new(context.get()));
            SSL_set_fd(ssl.get(), socket.get());
            char byte = 0;
            EXPECT_FALSE(SSL_connect(ssl.get()) == 1 && SSL_read(ssl.get(), &byte, 1) == 1);
            done = true;
        });
        for (const Nanos end = kClock.now() + 5s; !done && kClock.now() < end;) {
            const auto accepted = listener.value()->accept(kClock.now() + 20ms);
            ASSERT_TRUE(accepted.ok());
            EXPECT_FALSE(accepted.value().has_value());
        }
        caller.join();
        ASSERT_EQ(refused.size(), 1U) << each.why;
        EXPECT_SAYS(refused[0], each.why);
    }
}

TEST_F(Tls, LanesOfTwoIdentitiesAreNotOnePeer) {
    auto listener = TcpListener::listen("127.0.0.1", 0, with(prefill_));
    ASSERT_TRUE(listener.ok());
    const PeerSecurity thief = authority_.issue("thief", "DNS:thief.test");
    wire::Hello hello;
    hello.connection_id = 9;
    std::array<std::unique_ptr<Link>, 2> links;
    std::atomic<bool> done{false};
    std::thread callers([&] {
        const std::array<const PeerSecurity*, 2> who = {&decode_, &thief};
        for (std::size_t i = 0; i < 2; ++i) {
            auto link = tcp_connect("127.0.0.1", listener.value()->port(), with(*who[i]), kClock.now() + 5s);
            ASSERT_TRUE(link.ok()) << link.status().to_string();
            const Lane lane = i == 0 ? Lane::high : Lane::low;
            EXPECT_TRUE(link.value()->write(lane, wire::encode_frame(hello, lane)).ok());
            links[i] = std::move(link).value();
        }
        done = true;
    });
    while (!done) {
        EXPECT_FALSE(listener.value()->accept(kClock.now() + 20ms).value().has_value());
    }
    callers.join();
    EXPECT_FALSE(listener.value()->accept(kClock.now() + 200ms).value().has_value());
    // The rightful other lane still finds its partner.
    EXPECT_TRUE(links[0]->write(Lane::low, wire::encode_frame(hello, Lane::low)).ok());
    EXPECT_TRUE(listener.value()->accept(kClock.now() + 5s).value().has_value());
}

TEST_F(Tls, AcceptEndsAtItsDeadlineHoweverManyAreRefused) {
    TcpOptions options = with(prefill_);
    std::unique_ptr<TcpListener> listener;
    std::vector<Fd> strangers;
    const auto come = [&] {
        const Fd& socket = strangers.emplace_back(raw_connection(listener->port()));
        ASSERT_EQ(::send(socket.get(), "not TLS at all", 14, MSG_NOSIGNAL), 14);
    };
    options.on_refused = [&](const Status&) {
        if (strangers.size() < 100) {
            come();  // there is always one more waiting
        }
    };
    listener = TcpListener::listen("127.0.0.1", 0, options).value();
    come();
    while (strangers.size() < 3) {
        ASSERT_FALSE(listener->accept(kClock.now()).value().has_value());
    }
    EXPECT_LT(strangers.size(), 100U);
}

TEST_F(Tls, AHeaderInTwoRecordsIsFine) {
    auto listener = TcpListener::listen("127.0.0.1", 0, with(prefill_));
    ASSERT_TRUE(listener.ok());
    wire::Hello hello;
    hello.connection_id = 4;
    std::vector<Fd> sockets;
    std::atomic<bool> done{false};
    std::thread callers([&] {
        for (const Lane lane : {Lane::high, Lane::low}) {
            const Fd& socket = sockets.emplace_back(raw_connection(listener.value()->port()));
            RawCaller caller(decode_);
            const auto send = [&] {
                const std::string bytes = caller.sealed();
                ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
            };
            std::array<char, 16384> buffer;
            caller.prove({});
            send();
            for (bool proven = false; !proven;) {
                const ssize_t n = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
                ASSERT_GT(n, 0);
                proven = caller.prove({buffer.data(), static_cast<std::size_t>(n)});
            }
            const base::Bytes frame = wire::encode_frame(hello, lane);
            caller.write(base::ByteView(frame).first(10));
            caller.write(base::ByteView(frame).subspan(10));
            send();
        }
        done = true;
    });
    std::optional<Accepted> accepted;
    // The listener itself drops who has not said hello in time.
    do {
        accepted = listener.value()->accept(kClock.now() + 20ms).value();
    } while (!accepted && (!done || listener.value()->half_open() > 0));
    callers.join();
    EXPECT_TRUE(accepted.has_value());
}

TEST_F(Tls, WrongFilesAreNamedAtTheStart) {
    const auto fails = [](const PeerSecurity& security, ErrorCode code, const std::string& text) {
        const Status status = TlsContext::load(security).status();
        EXPECT_EQ(status.code(), code) << status.to_string();
        EXPECT_SAYS(status, text);
    };
    const auto changed = [this](std::string PeerSecurity::*field, const std::string& value) {
        PeerSecurity security = prefill_;
        security.*field = value;
        return security;
    };
    const std::string missing = folder_.path("missing");
    const std::string garbage = folder_.write("garbage", "not PEM");
    for (const std::string& wrong : {missing, garbage}) {
        fails(changed(&PeerSecurity::certificate, wrong), ErrorCode::invalid_argument, wrong);
        fails(changed(&PeerSecurity::private_key, wrong), ErrorCode::invalid_argument, wrong);
        fails(changed(&PeerSecurity::authority, wrong), ErrorCode::invalid_argument, wrong);
    }
    const std::string pipe = folder_.path("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    for (const auto field : {&PeerSecurity::certificate, &PeerSecurity::private_key, &PeerSecurity::authority}) {
        fails(changed(field, pipe), ErrorCode::invalid_argument, "regular file");  // not: wait for who writes it
    }
    fails(changed(&PeerSecurity::private_key, decode_.private_key), ErrorCode::invalid_argument, "key values mismatch");
    for (const auto field : {&PeerSecurity::certificate, &PeerSecurity::private_key, &PeerSecurity::authority}) {
        fails(changed(field, ""), ErrorCode::invalid_argument, "go together");
    }
    PeerSecurity both = keys(key_line("a", '1'));
    both.authority = prefill_.authority;
    fails(both, ErrorCode::invalid_argument, "exclude each other");
    PeerSecurity name_only;
    name_only.peer_name = "decode.test";
    EXPECT_TRUE(name_only.tls());  // a name that nobody would check
    fails(name_only, ErrorCode::invalid_argument, "go together");
    fails(keys("nonsense\n"), ErrorCode::invalid_argument, "line 1");
    PeerSecurity absent;
    absent.key_file = missing;
    fails(absent, ErrorCode::io, missing);
}

}  // namespace
}  // namespace lynx::transport
