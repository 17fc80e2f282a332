// A connected pair of TCP links for tests, made the way peers make them: listener, connect, hello, pairing.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "transport/tcp/socket.h"
#include "transport/tcp/tcp.h"
#include "wire/frame.h"

namespace lynx::transport {

/// One raw connection to a listener on 127.0.0.1, blocking.
[[nodiscard]] inline Fd raw_connection(std::uint16_t port) {
    const Address address = resolve("127.0.0.1", port, Reach::loopback).value().front();
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size), 0);
    return socket;
}

struct TcpPair {
    std::unique_ptr<Link> client;
    std::unique_ptr<Link> server;
};

/// What both ends of an attempt to pair came to.
struct TcpAttempt {
    Result<std::unique_ptr<Link>> client = Status{ErrorCode::io, "not tried"};
    std::optional<Accepted> accepted;
    std::vector<Status> refused;
};

/// Connects, says hello on both lanes, and listens meanwhile until `patience` is over or the peer is paired.
inline TcpAttempt attempt_tcp(const TcpOptions& client, TcpOptions server, std::uint64_t connection_id,
                              Nanos patience = std::chrono::seconds(10)) {
    const base::SteadyClock clock;
    TcpAttempt attempt;
    server.on_refused = [&attempt](const Status& why) { attempt.refused.push_back(why); };
    auto listener = TcpListener::listen("127.0.0.1", 0, server);
    EXPECT_TRUE(listener.ok()) << listener.status().to_string();
    const std::uint16_t port = listener.value()->port();
    const Nanos deadline = clock.now() + patience;
    std::atomic<bool> failed{false};
    std::thread caller([&] {
        attempt.client = tcp_connect("127.0.0.1", port, client, deadline);
        wire::Hello hello;
        hello.connection_id = connection_id;
        for (const Lane lane : {Lane::high, Lane::low}) {
            const base::Bytes frame = wire::encode_frame(hello, lane);
            if (attempt.client.ok()) {
                // A link that was refused meanwhile says so when it is read.
                static_cast<void>(attempt.client.value()->write(lane, frame));
            }
        }
        failed = !attempt.client.ok();
    });
    while (!attempt.accepted && !failed && clock.now() < deadline && attempt.refused.size() < wire::kLanes) {
        auto accepted = listener.value()->accept(clock.now() + std::chrono::milliseconds(10));
        EXPECT_TRUE(accepted.ok()) << accepted.status().to_string();
        attempt.accepted = std::move(accepted).value();
    }
    // Refused connections linger until their peers have heard.
    const Nanos linger = clock.now() + std::chrono::seconds(2);
    while (listener.value()->half_open() > 0 && clock.now() < linger) {
        EXPECT_TRUE(listener.value()->accept(clock.now() + std::chrono::milliseconds(20)).ok());
    }
    caller.join();
    return attempt;
}

inline TcpPair make_tcp_pair(const TcpOptions& client = {}, const TcpOptions& server = {}) {
    const base::SteadyClock clock;
    wire::Hello hello;
    hello.connection_id = make_connection_id();
    TcpAttempt attempt = attempt_tcp(client, server, hello.connection_id);
    EXPECT_TRUE(attempt.client.ok()) << attempt.client.status().to_string();
    EXPECT_TRUE(attempt.accepted.has_value());
    for (const Status& why : attempt.refused) {
        ADD_FAILURE() << why.to_string();
    }
    if (!attempt.client.ok() || !attempt.accepted) {
        return {};
    }
    TcpPair pair{std::move(attempt.client).value(), std::move(attempt.accepted->link)};
    EXPECT_EQ(attempt.accepted->connection_id, hello.connection_id);
    // The hello that paired the lanes is still to be read; take it, so that the pair starts empty.
    const Nanos deadline = clock.now() + std::chrono::seconds(10);
    for (const Lane lane : {Lane::high, Lane::low}) {
        const base::Bytes expected = wire::encode_frame(hello, lane);
        std::vector<std::byte> frame(expected.size());
        for (std::size_t have = 0; have < frame.size() && clock.now() < deadline;) {
            const auto n = pair.server->read(lane, std::span(frame).subspan(have));
            EXPECT_TRUE(n.ok());
            have += n.value();
        }
        EXPECT_EQ(frame, expected);
    }
    return pair;
}

}  // namespace lynx::transport
