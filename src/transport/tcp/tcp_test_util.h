// A connected pair of TCP links for tests, made the way peers make them: listener, connect, hello, pairing.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "transport/tcp/tcp.h"
#include "wire/frame.h"

namespace lynx::transport {

struct TcpPair {
    std::unique_ptr<Link> client;
    std::unique_ptr<Link> server;
};

inline TcpPair make_tcp_pair(const TcpOptions& options = {}) {
    const base::SteadyClock clock;
    const Nanos deadline = clock.now() + std::chrono::seconds(10);
    auto listener = TcpListener::listen("127.0.0.1", 0, options);
    EXPECT_TRUE(listener.ok()) << listener.status().to_string();
    auto client = tcp_connect("127.0.0.1", listener.value()->port(), options, deadline);
    EXPECT_TRUE(client.ok()) << client.status().to_string();
    wire::Hello hello;
    hello.connection_id = make_connection_id();
    std::size_t bytes = 0;
    for (const Lane lane : {Lane::high, Lane::low}) {
        const base::Bytes frame = wire::encode_frame(hello, lane);
        bytes = frame.size();
        EXPECT_EQ(client.value()->write(lane, frame).value(), bytes);
    }
    auto accepted = listener.value()->accept(deadline);
    EXPECT_TRUE(accepted.ok() && accepted.value().has_value());
    TcpPair pair{std::move(client).value(), std::move(accepted.value()->link)};
    EXPECT_EQ(accepted.value()->connection_id, hello.connection_id);
    // The hello that paired the lanes is still to be read; take it, so that the pair starts empty.
    for (const Lane lane : {Lane::high, Lane::low}) {
        std::vector<std::byte> frame(bytes);
        for (std::size_t have = 0; have < bytes && clock.now() < deadline;) {
            const auto n = pair.server->read(lane, std::span(frame).subspan(have));
            EXPECT_TRUE(n.ok());
            have += n.value();
        }
        EXPECT_EQ(frame, wire::encode_frame(hello, lane));
    }
    return pair;
}

}  // namespace lynx::transport
