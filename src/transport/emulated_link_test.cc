// The token bucket and the delay line under a virtual clock: rate within 1%, delay to the nanosecond, bounds,
// overtaking.
#include "transport/emulated_link.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/rng.h"
#include "transport/sim/sim_network.h"
#include "transport/tcp/tcp_test_util.h"

namespace lynx::transport {
namespace {

using namespace std::chrono_literals;

constexpr double kRates[] = {1e6, 20e6, 250e6, 1e9, 10e9};

TEST(TokenBucket, GoodputIsTheRateWhateverTheWakeUpJitter) {
    for (const double rate : kRates) {
        base::Rng rng(7);
        TokenBucket bucket(rate);
        const Nanos start = 1000s;
        Nanos now = start;
        Nanos left = now;
        double bytes = 0;
        while (now < start + 20s && bytes < rate / 8 * 2) {
            const std::size_t n = bucket.room(now);
            if (n > 0) {
                left = bucket.take(n, now);
                bytes += static_cast<double>(n);
            }
            // The caller is late by up to 0.9 of what the queue lasts.
            const double late = rng.unit() * 0.9 * 8 * static_cast<double>(bucket.queue_bytes()) / rate;
            now = bucket.room_at(bucket.queue_bytes() / 4, now) + base::from_seconds(late * 0.75);
        }
        EXPECT_NEAR(bytes * 8 / base::to_seconds(left - start), rate, rate * 0.01) << rate;
    }
}

TEST(TokenBucket, NeverEarlierThanTheRateAllows) {
    for (const double rate : kRates) {
        base::Rng rng(9);
        TokenBucket bucket(rate);
        const Nanos start = 5s;
        Nanos now = start;
        double bytes = 0;
        for (int i = 0; i < 5000; ++i) {
            now += Nanos{static_cast<Nanos::rep>(rng.below(2'000'000))};
            const std::size_t n = std::min<std::size_t>(bucket.room(now), rng.below(40000));
            bytes += static_cast<double>(n);
            const Nanos left = bucket.take(n, now);
            EXPECT_GE(base::to_seconds(left - start) + base::to_seconds(kBurstTime) + 1e-6, bytes * 8 / rate);
            EXPECT_GE(left, now);
        }
    }
}

TEST(TokenBucket, RoomAtIsTheEarliestTime) {
    TokenBucket bucket(8e6);  // a byte per microsecond
    EXPECT_EQ(bucket.queue_bytes(), kQueueBytesMin);
    bucket.take(bucket.room(1s), 1s);
    EXPECT_LE(bucket.room(1s), 1000U) << "all but the burst is taken";
    const Nanos at = bucket.room_at(8192, 1s);
    EXPECT_GE(bucket.room(at), 8192U);
    EXPECT_LT(bucket.room(at - 2us), 8192U);
    EXPECT_EQ(bucket.room_at(8192, 100s), 100s);
}

class Emulated : public testing::Test {
protected:
    Emulated() : network(clock, SimOptions{}) { clock.advance_to(1s); }

    base::VirtualClock clock;
    SimNetwork network;
};

TEST_F(Emulated, DelayIsExact) {
    EmulatedLink a(network.end(0), {.rate_bits_per_s = 0, .delay = 5ms}, clock);
    const auto b = network.end(1);
    std::byte byte{1};
    ASSERT_EQ(a.write(Lane::high, {&byte, 1}).value(), 1U);
    EXPECT_EQ(a.held_bytes(), 1U);
    const auto arrived = [&] {
        std::byte buffer[8];
        return b->read(Lane::high, buffer).value();
    };
    clock.advance_to(1s + 5ms - 1ns);
    ASSERT_TRUE(a.wait({}, clock.now()).ok());
    EXPECT_EQ(arrived(), 0U);
    ASSERT_TRUE(a.wait({}, 10s).ok());  // wakes for the byte, not at the deadline
    EXPECT_EQ(clock.now(), 1s + 5ms);
    EXPECT_EQ(arrived(), 1U);
    EXPECT_EQ(a.held_bytes(), 0U);
}

TEST_F(Emulated, RateAndBoundThroughTheWholeLink) {
    const Emulation shape{.rate_bits_per_s = 20e6, .delay = 10ms};
    EmulatedLink a(network.end(0), shape, clock);
    const auto b = network.end(1);
    EXPECT_LE(a.held_bytes_max(), kQueueBytesMin + static_cast<std::size_t>(20e6 / 8 * 0.0111) + 1);
    const base::Bytes bytes(100000, std::byte{7});
    std::vector<std::byte> buffer(65536);
    std::size_t received = 0;
    Nanos first{0};
    Nanos last{0};
    for (int i = 0; i < 100000 && received < 5'000'000; ++i) {
        while (a.write(i % 2 == 0 ? Lane::high : Lane::low, bytes).value() > 0) {
        }
        EXPECT_LE(a.held_bytes(), a.held_bytes_max());
        ASSERT_TRUE(a.wait({.write_high = true, .write_low = true}, clock.now() + 1s).ok());
        for (const Lane lane : {Lane::high, Lane::low}) {
            for (std::size_t n = 1; n > 0;) {
                n = b->read(lane, buffer).value();
                received += n;
                if (n > 0) {
                    first = first == Nanos{0} ? clock.now() : first;
                    last = clock.now();
                }
            }
        }
    }
    EXPECT_GE(first, 1s + 10ms);
    EXPECT_NEAR(static_cast<double>(received) * 8 / base::to_seconds(last - 1s - 10ms), 20e6, 20e6 * 0.01);
}

TEST_F(Emulated, ALateThreadLosesNoGoodputAndAnIdleOneGainsNone) {
    const double rate = 250e6;
    EmulatedLink a(network.end(0), {.rate_bits_per_s = rate, .delay = 0ms}, clock);
    const auto b = network.end(1);
    const base::Bytes bytes(64000, std::byte{7});
    std::vector<std::byte> buffer(65536);
    std::size_t received = 0;
    const auto step = [&](Nanos late) {
        for (std::size_t moved = 1; moved > 0;) {
            moved = a.write(Lane::low, bytes).value();
            for (std::size_t n = 1; n > 0; received += n) {
                n = b->read(Lane::low, buffer).value();
                moved += n;
            }
        }
        ASSERT_TRUE(a.wait({.write_low = true}, clock.now() + 1s).ok());
        clock.advance_to(clock.now() + late);
    };
    for (int i = 0; i < 200; ++i) {
        step(Nanos{(i % 10) * 1'000'000});  // the queue lasts 1 ms, the thread comes back up to 9 ms late
    }
    EXPECT_NEAR(static_cast<double>(received) * 8 / base::to_seconds(clock.now() - 1s), rate, rate * 0.01);
    // Nothing to write for a second: that second is gone. (What is still held leaves first.)
    for (int i = 0; i < 100; ++i) {
        clock.advance_to(clock.now() + 10ms);
        ASSERT_TRUE(a.wait({}, clock.now()).ok());
        static_cast<void>(b->read(Lane::low, buffer));
    }
    ASSERT_EQ(a.held_bytes(), 0U);
    for (std::size_t n = 1; n > 0;) {
        n = b->read(Lane::low, buffer).value();
    }
    received = 0;
    const Nanos from = clock.now();
    while (clock.now() < from + 100ms) {
        step(0ms);
    }
    const double burst = rate / 8 * base::to_seconds(kBurstTime);
    EXPECT_LE(static_cast<double>(received), rate / 8 * base::to_seconds(clock.now() - from) + burst + 1);
}

TEST_F(Emulated, HighOvertakesAFullLowLaneWithinTheQueue) {
    const double rate = 20e6;
    EmulatedLink a(network.end(0), {.rate_bits_per_s = rate, .delay = 0ms}, clock);
    const auto b = network.end(1);
    const base::Bytes low(1 << 20, std::byte{1});
    while (a.write(Lane::low, low).value() > 0) {
    }
    const Nanos asked = clock.now();
    std::byte high{2};
    std::byte buffer[65536];
    bool written = false;
    for (int i = 0; i < 1000; ++i) {
        written = written || a.write(Lane::high, {&high, 1}).value() == 1;
        ASSERT_TRUE(a.wait({.write_high = !written}, clock.now() + 100ms).ok());
        static_cast<void>(b->read(Lane::low, buffer));
        if (b->read(Lane::high, buffer).value() == 1) {
            break;
        }
    }
    EXPECT_LE(clock.now() - asked, base::from_seconds(static_cast<double>(kQueueBytesMin) * 8 / rate) + 1ms);
    EXPECT_GT(clock.now(), asked) << "it must wait for what the wire already has";
}

TEST_F(Emulated, WaitReturnsWhenTheLastByteHasLeft) {
    EmulatedLink a(network.end(0), {.rate_bits_per_s = 0, .delay = 5ms}, clock);
    const auto b = network.end(1);
    std::byte byte{1};
    ASSERT_EQ(a.write(Lane::high, {&byte, 1}).value(), 1U);
    clock.advance_to(2s);  // due, but nobody has called since
    ASSERT_TRUE(a.wait({}, 60s).ok());
    EXPECT_EQ(a.held_bytes(), 0U);
    EXPECT_EQ(clock.now(), 2s);
}

TEST_F(Emulated, ShutdownWaitsForHeldBytes) {
    EmulatedLink a(network.end(0), {.rate_bits_per_s = 0, .delay = 5ms}, clock);
    const auto b = network.end(1);
    std::byte byte{1};
    ASSERT_EQ(a.write(Lane::high, {&byte, 1}).value(), 1U);
    a.shutdown();
    std::byte buffer[8];
    EXPECT_EQ(b->read(Lane::high, buffer).value(), 0U);
    ASSERT_TRUE(a.wait({}, 10s).ok());
    EXPECT_EQ(b->read(Lane::high, buffer).value(), 1U);
    clock.advance_to(2s);
    EXPECT_EQ(b->read(Lane::high, buffer).status().code(), ErrorCode::peer_lost);
}

TEST_F(Emulated, AFailureBelowShowsOnWriteAndNotOnWhatCanStillBeRead) {
    EmulatedLink a(network.end(0), {.rate_bits_per_s = 0, .delay = 5ms}, clock);
    auto b = network.end(1);
    std::byte byte{1};
    ASSERT_EQ(b->write(Lane::high, {&byte, 1}).value(), 1U);
    ASSERT_EQ(a.write(Lane::high, {&byte, 1}).value(), 1U);
    b->close();
    clock.advance_to(2s);
    std::byte buffer[8];
    EXPECT_EQ(a.read(Lane::high, buffer).value(), 1U);
    EXPECT_EQ(a.write(Lane::high, {&byte, 1}).status().code(), ErrorCode::peer_lost);
}

TEST(Emulation, NothingToEmulateIsTheLinkItself) {
    base::VirtualClock clock;
    SimNetwork network(clock, SimOptions{});
    auto link = network.end(0);
    const Link* raw = link.get();
    EXPECT_EQ(emulate(std::move(link), {}, clock).get(), raw);
}

TEST(Emulation, RealTimeOverLoopback) {
    // Timings on a shared machine do not gate; a factor of two still tells a broken emulator.
    const base::SteadyClock clock;
    TcpPair pair = make_tcp_pair();
    EmulatedLink sender(std::move(pair.client), {.rate_bits_per_s = 50e6, .delay = 5ms}, clock);
    constexpr std::size_t kTotal = 1'500'000;  // 240 ms
    std::size_t received = 0;
    Nanos last{0};
    std::thread receiver([&] {
        std::vector<std::byte> buffer(65536);
        const Nanos patience = clock.now() + 20s;
        while (received < kTotal && clock.now() < patience) {
            const auto n = pair.server->read(Lane::low, buffer);
            ASSERT_TRUE(n.ok());
            received += n.value();
            last = n.value() > 0 ? clock.now() : last;
            if (n.value() == 0) {
                ASSERT_TRUE(pair.server->wait({}, patience).ok());
            }
        }
    });
    const Nanos start = clock.now();
    const base::Bytes bytes(65536, std::byte{1});
    std::size_t sent = 0;
    for (const Nanos patience = start + 20s; (sent < kTotal || sender.held_bytes() > 0) && clock.now() < patience;) {
        const auto n = sender.write(Lane::low, base::ByteView(bytes).first(std::min(bytes.size(), kTotal - sent)));
        ASSERT_TRUE(n.ok());
        sent += n.value();
        if (n.value() == 0 && (sent < kTotal || sender.held_bytes() > 0)) {
            ASSERT_TRUE(sender.wait({.write_low = sent < kTotal}, patience).ok());
        }
    }
    receiver.join();
    EXPECT_EQ(received, kTotal);
    EXPECT_LT(clock.now() - start, 10s) << "somebody waited for nothing";
    const double goodput = static_cast<double>(kTotal) * 8 / base::to_seconds(last - start - 5ms);
    RecordProperty("goodput_mbit", std::to_string(goodput / 1e6));
    std::printf("goodput %.2f of 50 mbit\n", goodput / 1e6);
    EXPECT_LT(goodput, 52e6);
    EXPECT_GT(goodput, 25e6);
}

}  // namespace
}  // namespace lynx::transport
