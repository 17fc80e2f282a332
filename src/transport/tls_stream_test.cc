// TLS streams without a network: keys that change under way, bytes changed on the way, ends, and callers that flood.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <string>

#include "transport/tcp/raw_tls_caller.h"
#include "transport/tcp/tls_test_util.h"

namespace lynx::transport {
namespace {

/// Two streams and a relay between them that sees, counts, changes or withholds every byte of the caller.
class TlsStreams : public TlsNodes {
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
class TlsRawCaller : public TlsNodes {
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
