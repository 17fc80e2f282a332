// Who gets in, who does not and what each side is told; bytes changed on the way; keys that change under way.
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <functional>
#include <string_view>
#include <thread>
#include <vector>

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

/// A calling peer that does with TLS what no node does. What it seals gathers in `sealed`, which the test sends on.
class RawCaller {
public:
    explicit RawCaller(const PeerSecurity& security) : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
        SSL_CTX_use_certificate_chain_file(context_.get(), security.certificate.c_str());
        SSL_CTX_use_PrivateKey_file(context_.get(), security.private_key.c_str(), SSL_FILETYPE_PEM);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_connect_state(ssl_.get());
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    }
    /// True once it is through with the handshake.
    bool prove(std::string_view heard) {
        if (!heard.empty()) {
            EXPECT_GT(BIO_write(SSL_get_rbio(ssl_.get()), heard.data(), static_cast<int>(heard.size())), 0);
        }
        return SSL_do_handshake(ssl_.get()) == 1;
    }
    void write(base::ByteView bytes) {
        EXPECT_EQ(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())), static_cast<int>(bytes.size()));
    }
    /// `type`: SSL_KEY_UPDATE_REQUESTED or SSL_KEY_UPDATE_NOT_REQUESTED.
    void change_keys(int type) {
        EXPECT_EQ(SSL_key_update(ssl_.get(), type), 1);
        EXPECT_EQ(SSL_do_handshake(ssl_.get()), 1);
    }
    [[nodiscard]] std::string sealed() {
        std::string bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), '\0');
        if (!bytes.empty()) {
            EXPECT_EQ(BIO_read(SSL_get_wbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size())),
                      static_cast<int>(bytes.size()));
        }
        return bytes;
    }

private:
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
    std::unique_ptr<SSL, SslFree> ssl_;
};

class Tls : public testing::Test {
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

    TestFolder folder_;
    TestAuthority authority_{folder_, "authority"};
    PeerSecurity prefill_ = authority_.issue("prefill-1", "DNS:prefill.test,IP:127.0.0.1");
    PeerSecurity decode_ = authority_.issue("decode-1", "DNS:decode.test");
    int files_ = 0;
};

#define EXPECT_SAYS(status, text) EXPECT_NE((status).message().find(text), std::string::npos) << (status).to_string()

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
            const Address address = resolve("127.0.0.1", listener.value()->port(), Reach::loopback).value().front();
            const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size), 0);
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
        const Address address = resolve("127.0.0.1", listener->port(), Reach::loopback).value().front();
        const Fd& socket = strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size), 0);
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
            const Address address = resolve("127.0.0.1", listener.value()->port(), Reach::loopback).value().front();
            const Fd& socket = sockets.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size), 0);
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

/// Two streams and a relay between them that sees, counts, changes or withholds every byte of the caller.
class TlsStreams : public Tls {
protected:
    void connect(std::uint64_t bytes_per_key = kBytesPerKey) {
        std::array<int, 2> left{};
        std::array<int, 2> right{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, left.data()), 0);
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, right.data()), 0);
        relay_ = {Fd(left[1]), Fd(right[1])};
        const auto context = TlsContext::load(decode_, bytes_per_key);
        ASSERT_TRUE(context.ok());
        caller_ = context.value()->connecting(Fd(left[0]), "127.0.0.1").value();
        listener_ = load_tls(prefill_)->accepting(Fd(right[0])).value();
        bool proven = false;
        for (int turn = 0; turn < 20 && !proven; ++turn) {
            const bool caller = caller_->prove().value();
            relay();
            proven = listener_->prove().value() && caller;
            relay();
        }
        ASSERT_TRUE(proven);
        seen_.clear();
    }
    void relay() {
        std::array<char, 65536> buffer;
        for (const bool onward : {true, false}) {
            const Fd& from = relay_[onward ? 0 : 1];
            const Fd& to = relay_[onward ? 1 : 0];
            const ssize_t n = ::recv(from.get(), buffer.data(), buffer.size(), 0);
            if (n <= 0) {
                continue;
            }
            const std::span<char> bytes(buffer.data(), static_cast<std::size_t>(n));
            if (onward) {
                seen_.append(bytes.data(), bytes.size());
                if (change) {
                    change(bytes);
                }
            }
            ASSERT_EQ(::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), n);
        }
    }
    /// Lets everything flow until nothing has come for a while. What the listener read; its failure in `end`.
    base::Bytes drain(Status* end = nullptr) {
        base::Bytes got;
        std::array<std::byte, 20000> buffer;
        for (int idle = 0; idle < 5; ++idle) {
            caller_->flush();
            relay();
            for (Result<std::size_t> n = listener_->read(buffer);; n = listener_->read(buffer)) {
                if (!n.ok()) {
                    if (end != nullptr) {
                        *end = n.status();
                    }
                    return got;
                }
                if (n.value() == 0) {
                    break;
                }
                got.insert(got.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(n.value()));
                idle = 0;
            }
        }
        return got;
    }
    static base::Bytes pattern(std::size_t size, unsigned salt) {
        base::Bytes bytes(size);
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 7 + salt) & 0xFF);
        }
        return bytes;
    }

    std::array<Fd, 2> relay_;
    std::unique_ptr<Stream> caller_;
    std::unique_ptr<Stream> listener_;
    std::string seen_;  ///< sealed bytes of the caller
    std::function<void(std::span<char>)> change;
};

TEST_F(TlsStreams, KeysChangeUnderWay) {
    connect(100'000);
    const base::Bytes sent = pattern(1'000'000, 1);
    base::Bytes got;
    for (std::size_t at = 0; at < sent.size();) {
        const auto n = caller_->write(base::ByteView(sent).subspan(at));
        ASSERT_TRUE(n.ok()) << n.status().to_string();
        at += n.value();
        const base::Bytes some = drain();
        got.insert(got.end(), some.begin(), some.end());
    }
    EXPECT_TRUE(got == sent);
    // On the wire a KeyUpdate is the only record of 5 bytes, sealed with 1 byte of type and 16 of tag: RFC 8446, 4.6.3.
    std::size_t updates = 0;
    for (std::size_t at = 0; at + 5 <= seen_.size();) {
        const auto size = static_cast<std::size_t>(static_cast<unsigned char>(seen_[at + 3])) * 256 +
                          static_cast<unsigned char>(seen_[at + 4]);
        updates += size == 5 + 1 + 16 ? 1 : 0;
        at += 5 + size;
    }
    EXPECT_GE(updates, 8U);
    EXPECT_LE(updates, 10U);
    EXPECT_EQ(seen_.find(std::string(reinterpret_cast<const char*>(sent.data()), 64)), std::string::npos);
}

TEST_F(TlsStreams, AnotherFrameMayBeOfferedWhenTheSocketIsFull) {
    connect();
    base::Bytes accepted;
    const auto offer = [&](const base::Bytes& bytes) {
        const auto n = caller_->write(bytes);
        EXPECT_TRUE(n.ok()) << n.status().to_string();
        accepted.insert(accepted.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n.value()));
        return n.value();
    };
    const base::Bytes large = pattern(30'000, 1);
    for (int i = 0; i < 1000 && offer(large) > 0; ++i) {
    }
    ASSERT_GT(caller_->held_bytes(), 0U);
    EXPECT_LT(caller_->held_bytes(), 31'000U);  // one offer, sealed
    EXPECT_EQ(offer(pattern(100, 2)), 0U);
    const base::Bytes first = drain();
    EXPECT_TRUE(first == accepted);
    accepted.clear();
    EXPECT_GT(offer(pattern(200, 3)), 0U);
    EXPECT_TRUE(drain() == accepted);
}

TEST_F(TlsStreams, AChangedByteEndsBothSidesAsCorrupt) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{4}, std::size_t{5}, std::size_t{60}}) {
        connect();
        ASSERT_EQ(caller_->write(pattern(100, 1)).value(), 100U);
        change = [place](std::span<char> bytes) { bytes[place] = static_cast<char>(bytes[place] ^ 1); };
        Status end;
        EXPECT_TRUE(drain(&end).empty());
        change = nullptr;
        if (place == 4) {  // a record of another length: the rest has to come first
            ASSERT_EQ(caller_->write(pattern(100, 1)).value(), 100U);
            EXPECT_TRUE(drain(&end).empty());
        }
        EXPECT_EQ(end.code(), ErrorCode::corrupt) << place << " " << end.to_string();
        // And it stays that way, on either side.
        std::array<std::byte, 100> buffer;
        EXPECT_EQ(listener_->read(buffer).status().code(), ErrorCode::corrupt);
        EXPECT_EQ(listener_->write(pattern(10, 1)).status().code(), ErrorCode::corrupt);
        listener_->flush();
        relay();
        EXPECT_EQ(caller_->read(buffer).status().code(), ErrorCode::corrupt)
            << place << " " << caller_->read(buffer).status().to_string();
    }
}

/// The listener's stream, and a raw caller at the other end of its socket.
class TlsRawCaller : public Tls {
protected:
    void SetUp() override {
        std::array<int, 2> ends{};
        ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
        socket_ = Fd(ends[0]);
        listener_ = load_tls(prefill_)->accepting(Fd(ends[1])).value();
        std::array<char, 16384> buffer;
        bool proven = false;
        for (int turn = 0; turn < 20 && !proven; ++turn) {
            const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
            const bool through = caller_.prove({buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))});
            ASSERT_TRUE(send());
            proven = listener_->prove().value() && through;
        }
        ASSERT_TRUE(proven);
    }
    /// False when the socket had no room for all of it.
    [[nodiscard]] bool send() {
        const std::string bytes = caller_.sealed();
        return bytes.empty() ||
               ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
    }

    RawCaller caller_{decode_};
    Fd socket_;
    std::unique_ptr<Stream> listener_;
};

TEST_F(TlsRawCaller, KeysThatChangeWithoutEndDoNotHoldTheReader) {
    for (int i = 0; i < 4000; ++i) {
        caller_.change_keys(SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    caller_.write(base::Bytes(1));
    ASSERT_TRUE(send());
    std::array<std::byte, 16> buffer;
    std::size_t got = listener_->read(buffer).value();
    EXPECT_EQ(got, 0U) << "100 kB of nothing in one call";
    for (int i = 0; i < 10 && got == 0; ++i) {
        got = listener_->read(buffer).value();
    }
    EXPECT_EQ(got, 1U);
}

TEST_F(TlsRawCaller, APeerThatAsksForAnswersAndReadsNoneIsLost) {
    std::array<std::byte, 16> buffer;
    Status end;
    for (int i = 0; i < 50 && end.ok(); ++i) {
        for (int k = 0; k < 1000; ++k) {
            caller_.change_keys(SSL_KEY_UPDATE_REQUESTED);
        }
        ASSERT_TRUE(send()) << "the listener stopped reading and did not say why";
        for (int k = 0; k < 10 && end.ok(); ++k) {
            end = listener_->read(buffer).status();
        }
    }
    EXPECT_EQ(end.code(), ErrorCode::limit_exceeded) << end.to_string();
    EXPECT_EQ(listener_->write(base::Bytes(1)).status().code(), ErrorCode::limit_exceeded);
}

TEST_F(TlsStreams, WhyThePeerWentIsHeardAfterAWriteHasFailed) {
    connect();
    ASSERT_EQ(caller_->write(pattern(100, 1)).value(), 100U);
    change = [](std::span<char> bytes) { bytes[60] = static_cast<char>(bytes[60] ^ 1); };
    Status end;
    EXPECT_TRUE(drain(&end).empty());
    listener_->flush();
    relay();
    relay_[0].reset();
    static_cast<void>(caller_->write(pattern(100, 1)));  // taken, and then there was nobody
    EXPECT_EQ(caller_->write(pattern(100, 1)).status().code(), ErrorCode::peer_lost);
    std::array<std::byte, 100> buffer;
    const Status told = caller_->read(buffer).status();
    EXPECT_EQ(told.code(), ErrorCode::corrupt) << told.to_string();
}

TEST_F(TlsStreams, ShutdownTwiceIsShutdown) {
    connect();
    caller_->shutdown();
    ASSERT_EQ(listener_->write(pattern(50, 1)).value(), 50U);
    relay();
    caller_->shutdown();
    std::array<std::byte, 100> buffer;
    EXPECT_EQ(caller_->read(buffer).value(), 50U);
}

TEST_F(TlsStreams, AnEndThatWasSaidIsToldFromOneThatWasNot) {
    connect();
    ASSERT_EQ(caller_->write(pattern(100, 1)).value(), 100U);
    caller_->shutdown();
    Status end;
    EXPECT_EQ(drain(&end).size(), 100U);
    EXPECT_EQ(end.code(), ErrorCode::peer_lost);
    EXPECT_EQ(end.message(), "the peer closed the connection");
    // The other way is still open.
    ASSERT_EQ(listener_->write(pattern(50, 1)).value(), 50U);
    relay();
    std::array<std::byte, 100> buffer;
    EXPECT_EQ(caller_->read(buffer).value(), 50U);

    connect();
    ASSERT_EQ(caller_->write(pattern(100, 1)).value(), 100U);
    EXPECT_EQ(drain().size(), 100U);
    caller_.reset();
    relay_[1].reset();
    const Status cut = listener_->read(buffer).status();
    EXPECT_EQ(cut.code(), ErrorCode::peer_lost);
    EXPECT_SAYS(cut, "without saying so");
}

}  // namespace
}  // namespace lynx::transport
