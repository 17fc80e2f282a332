// The contract that every Link keeps, whatever carries the bytes: include it in a test, instantiate LinkContract with a
// factory, and the suite runs. See link.h.
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, LinkContract, testing::Values(LinkFactory{"tcp", make_tcp_pair}));
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "transport/link.h"

namespace lynx::transport {

/// Two ends of one connection, and the clock that their deadlines are on.
struct LinkPair {
    std::shared_ptr<void> keep_alive;  ///< whatever must outlive the links
    std::shared_ptr<const base::Clock> clock;
    std::unique_ptr<Link> a;
    std::unique_ptr<Link> b;
};

struct LinkFactory {
    std::string name;
    std::function<LinkPair()> make;
};

class LinkContract : public testing::TestWithParam<LinkFactory> {
protected:
    static constexpr Lane kLanes[] = {Lane::high, Lane::low};

    void SetUp() override {
        pair_ = GetParam().make();
        ASSERT_TRUE(pair_.a && pair_.b && pair_.clock);
    }
    [[nodiscard]] Nanos in(Nanos t) const { return pair_.clock->now() + t; }

    /// Reads until `count` bytes came on `lane` or it ended; bounded by 5 s without a byte. What the other lane had to
    /// give meanwhile is kept for a later call: a caller that left it unread would never be let wait.
    base::Bytes read_all(Link& link, Lane lane, std::size_t count, Status* end = nullptr) {
        auto& kept = &link == pair_.a.get() ? kept_a_ : kept_b_;
        base::Bytes& got = kept[static_cast<std::size_t>(lane)];
        std::byte buffer[4096];
        for (Nanos patience = in(std::chrono::seconds(5)); got.size() < count && pair_.clock->now() < patience;) {
            std::size_t moved = 0;
            for (const Lane each : kLanes) {
                const auto n = link.read(each, buffer);
                if (!n.ok() && each == lane) {
                    if (end != nullptr) {
                        *end = n.status();
                    }
                    return std::exchange(got, {});
                }
                if (n.ok()) {
                    moved += n.value();
                    base::Bytes& to = kept[static_cast<std::size_t>(each)];
                    to.insert(to.end(), buffer, buffer + n.value());
                }
            }
            if (moved > 0) {
                patience = in(std::chrono::seconds(5));
            } else {
                deliver();
                EXPECT_TRUE(link.wait({}, patience).ok());
            }
        }
        return std::exchange(got, {});
    }
    /// Lets both ends hand on what they hold: a link that delays bytes moves only while its owner calls it.
    void deliver() {
        for (Link* link : {pair_.a.get(), pair_.b.get()}) {
            std::size_t held = link->held_bytes();
            for (Nanos patience = in(std::chrono::milliseconds(200)); held > 0 && pair_.clock->now() < patience;) {
                static_cast<void>(link->wait({}, in(std::chrono::milliseconds(1))));
                if (link->held_bytes() < held) {
                    patience = in(std::chrono::milliseconds(200));
                }
                held = link->held_bytes();
            }
        }
    }
    static base::Bytes pattern(std::size_t size, unsigned salt) {
        base::Bytes bytes(size);
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] = static_cast<std::byte>((i * 131 + (i >> 8) * 7 + salt) & 0xFF);
        }
        return bytes;
    }
    /// Writes until the link takes no more, at most `limit` bytes. Returns how much it took.
    static std::size_t fill(Link& link, Lane lane, base::ByteView bytes) {
        std::size_t sent = 0;
        while (sent < bytes.size()) {
            const auto n = link.write(lane, bytes.subspan(sent));
            EXPECT_TRUE(n.ok()) << n.status().to_string();
            if (!n.ok() || n.value() == 0) {
                break;
            }
            EXPECT_LE(n.value(), bytes.size() - sent);
            sent += n.value();
        }
        return sent;
    }

    LinkPair pair_;
    std::array<base::Bytes, wire::kLanes> kept_a_;
    std::array<base::Bytes, wire::kLanes> kept_b_;
};

TEST_P(LinkContract, CarriesBytesInOrderOnEachLaneBothWays) {
    for (const Lane lane : kLanes) {
        const base::Bytes there = pattern(10000, 1 + static_cast<unsigned>(lane));
        const base::Bytes back = pattern(10000, 9 + static_cast<unsigned>(lane));
        ASSERT_EQ(fill(*pair_.a, lane, there), there.size());
        ASSERT_EQ(fill(*pair_.b, lane, back), back.size());
        EXPECT_TRUE(read_all(*pair_.b, lane, there.size()) == there);
        EXPECT_TRUE(read_all(*pair_.a, lane, back.size()) == back);
    }
}

TEST_P(LinkContract, LanesDoNotMix) {
    const base::Bytes high = pattern(500, 1);
    const base::Bytes low = pattern(700, 2);
    ASSERT_EQ(fill(*pair_.a, Lane::low, low), low.size());
    ASSERT_EQ(fill(*pair_.a, Lane::high, high), high.size());
    EXPECT_TRUE(read_all(*pair_.b, Lane::high, high.size()) == high);
    EXPECT_TRUE(read_all(*pair_.b, Lane::low, low.size()) == low);
}

TEST_P(LinkContract, ReadDoesNotBlockWhenNothingCame) {
    std::byte buffer[16];
    for (const Lane lane : kLanes) {
        const auto n = pair_.a->read(lane, buffer);
        ASSERT_TRUE(n.ok()) << n.status().to_string();
        EXPECT_EQ(n.value(), 0U);
    }
}

TEST_P(LinkContract, EmptyWriteAndReadAreNothing) {
    for (const Lane lane : kLanes) {
        EXPECT_EQ(pair_.a->write(lane, {}).value(), 0U);
        EXPECT_EQ(pair_.a->read(lane, {}).value(), 0U);
    }
}

TEST_P(LinkContract, AFullLaneTakesNoMoreAndDrainsCompletely) {
    const base::Bytes bytes = pattern(std::size_t{64} << 20, 3);  // above any socket buffer
    const std::size_t taken = fill(*pair_.a, Lane::low, bytes);
    ASSERT_GT(taken, 0U);
    ASSERT_LT(taken, bytes.size()) << "the link has no bound";
    // The other lane is not affected: at most it waits for what lanes share to move on.
    std::size_t high = 0;
    for (const Nanos patience = in(std::chrono::seconds(5)); high < 100 && pair_.clock->now() < patience;) {
        high += fill(*pair_.a, Lane::high, base::ByteView(pattern(100, 4)).subspan(high));
        ASSERT_TRUE(pair_.a->wait({.write_high = high < 100}, in(std::chrono::milliseconds(1))).ok());
    }
    EXPECT_EQ(high, 100U);
    EXPECT_EQ(read_all(*pair_.b, Lane::high, 100), pattern(100, 4));
    EXPECT_TRUE(read_all(*pair_.b, Lane::low, taken) ==
                base::Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken)));
    // And it is writable again.
    ASSERT_TRUE(pair_.a->wait({.write_low = true}, in(std::chrono::seconds(5))).ok());
    EXPECT_GT(fill(*pair_.a, Lane::low, pattern(10, 5)), 0U);
}

TEST_P(LinkContract, WaitEndsAtTheDeadline) {
    const Nanos start = pair_.clock->now();
    const Nanos deadline = start + std::chrono::milliseconds(20);
    for (int spurious = 0; spurious < 1000 && pair_.clock->now() < deadline; ++spurious) {
        ASSERT_TRUE(pair_.a->wait({}, deadline).ok());
    }
    EXPECT_GE(pair_.clock->now(), deadline);
    ASSERT_TRUE(pair_.a->wait({}, start).ok());  // one in the past returns at once
}

TEST_P(LinkContract, WaitEndsWhenBytesArrive) {
    for (const Lane lane : kLanes) {
        ASSERT_EQ(fill(*pair_.b, lane, pattern(10, 1)), 10U);
        deliver();
        ASSERT_TRUE(pair_.a->wait({}, in(std::chrono::seconds(5))).ok());
        EXPECT_EQ(read_all(*pair_.a, lane, 10), pattern(10, 1));
    }
}

TEST_P(LinkContract, WaitEndsWhenWritable) {
    const Nanos start = pair_.clock->now();
    ASSERT_TRUE(pair_.a->wait({.write_high = true, .write_low = true}, start + std::chrono::seconds(60)).ok());
    EXPECT_LT(pair_.clock->now(), start + std::chrono::seconds(5));
}

TEST_P(LinkContract, WakeEndsTheNextWait) {
    const Nanos start = pair_.clock->now();
    pair_.a->wake();
    ASSERT_TRUE(pair_.a->wait({}, start + std::chrono::seconds(60)).ok());
    EXPECT_LT(pair_.clock->now(), start + std::chrono::seconds(5));
}

TEST_P(LinkContract, WakeMayComeFromAnotherThread) {
    std::atomic<bool> stop{false};
    std::thread waker([&] {
        while (!stop) {
            pair_.a->wake();
            std::this_thread::yield();
        }
    });
    const Nanos start = pair_.clock->now();
    for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(pair_.a->wait({}, in(std::chrono::milliseconds(10))).ok());
    }
    stop = true;
    waker.join();
    EXPECT_LT(pair_.clock->now(), start + std::chrono::seconds(5));
}

TEST_P(LinkContract, ShutdownLetsThePeerReadEverythingFirst) {
    const base::Bytes bytes = pattern(3000, 6);
    ASSERT_EQ(fill(*pair_.a, Lane::high, bytes), bytes.size());
    pair_.a->shutdown();
    deliver();
    Status end;
    EXPECT_TRUE(read_all(*pair_.b, Lane::high, bytes.size() + 1, &end) == bytes);
    EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
    // The other direction still works.
    ASSERT_EQ(fill(*pair_.b, Lane::high, bytes), bytes.size());
    EXPECT_TRUE(read_all(*pair_.a, Lane::high, bytes.size()) == bytes);
}

TEST_P(LinkContract, CloseIsSeenByThePeerAndEndsThisSide) {
    pair_.a->close();
    Status end;
    EXPECT_TRUE(read_all(*pair_.b, Lane::low, 1, &end).empty());
    EXPECT_EQ(end.code(), ErrorCode::peer_lost) << end.to_string();
    std::byte buffer[4];
    EXPECT_EQ(pair_.a->read(Lane::high, buffer).status().code(), ErrorCode::io);
    EXPECT_EQ(pair_.a->write(Lane::high, buffer).status().code(), ErrorCode::io);
    // The peer's writes fail too, soon: a first one may still go into a void.
    Status failed;
    for (const Nanos patience = in(std::chrono::seconds(5)); failed.ok() && pair_.clock->now() < patience;) {
        failed = pair_.b->write(Lane::high, pattern(1000, 7)).status();
        static_cast<void>(pair_.b->wait({}, in(std::chrono::milliseconds(1))));
    }
    EXPECT_EQ(failed.code(), ErrorCode::peer_lost) << failed.to_string();
    pair_.a->close();  // twice is fine
    pair_.a->wake();   // and so is this
}

}  // namespace lynx::transport
