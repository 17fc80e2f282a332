// A listener's connections that have not found their other lane yet: their handshake and hello header, who gives way
// when there are too many, and which two belong together. Opens and accepts no sockets. Not thread-safe.
#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp.h"

namespace lynx::transport {

class HalfOpenTable {
public:
    explicit HalfOpenTable(TcpOptions options) : options_(std::move(options)) {}

    [[nodiscard]] std::size_t size() const noexcept { return connections_.size(); }
    [[nodiscard]] bool empty() const noexcept { return connections_.empty(); }

    /// A fresh connection from `source`. With half_open_max of them there already, one gives way.
    void add(std::unique_ptr<Stream> stream, const std::string& source, Nanos now);
    /// Drops the connection that has the least claim to stay (TcpOptions::half_open_max). Precondition: not empty.
    void drop_one();
    /// Drops what has ended or run out of time.
    void expire(Nanos now);

    /// Appends one entry for each connection, in order, and lowers `until` to the first deadline.
    void watch(std::vector<pollfd>& entries, Nanos& until) const;
    /// Takes what the polled entries say.
    void advance(std::span<const pollfd> entries, Nanos now);

    /// Two lanes of one peer, taken out; empty when there are none.
    [[nodiscard]] std::optional<Accepted> take_pair();

private:
    struct Connection {
        enum class Stage : std::uint8_t {
            unnamed,  ///< the handshake or the hello header is not whole
            named,    ///< waits for its other lane
            refused,  ///< lingers until the peer has heard
            dead,
        };
        std::unique_ptr<Stream> stream;
        std::string source;
        Nanos deadline{0};
        Stage stage = Stage::unnamed;
        base::Bytes bytes;  ///< of the hello header; read here, replayed into the link
        std::uint64_t connection_id = 0;
        Lane lane = Lane::high;
        std::string identity;
        std::size_t discarded = 0;

        /// Whether bytes or room for them would move it on.
        [[nodiscard]] bool waits() const noexcept { return stage == Stage::unnamed || stage == Stage::refused; }
        [[nodiscard]] bool proven() const noexcept { return stage == Stage::named && !identity.empty(); }
    };

    void refuse(Connection& connection, const Status& why, Nanos now) const;
    void read_header(Connection& connection, Nanos now) const;
    static void discard(Connection& connection);

    TcpOptions options_;
    std::vector<Connection> connections_;  ///< oldest first
};

/// Whom a connection counts for: an IPv4 address, or the /64 that one IPv6 host has to itself.
[[nodiscard]] std::string source_of(const Address& address);

}  // namespace lynx::transport
