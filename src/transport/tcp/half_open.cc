#include "transport/tcp/half_open.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "transport/tcp/tcp_link.h"
#include "wire/frame.h"

namespace lynx::transport {
namespace {

/// How long, and for how many bytes, a refused connection is read on: a close with bytes unread is a reset, which can
/// overtake the alert that tells the peer why.
constexpr Nanos kRefusalLinger = std::chrono::milliseconds(500);
constexpr std::size_t kRefusalBytesMax = std::size_t{1} << 16;

}  // namespace

std::string source_of(const Address& address) {
    if (address.family == AF_INET) {
        sockaddr_in a{};
        std::memcpy(&a, address.bytes, sizeof a);
        return {reinterpret_cast<const char*>(&a.sin_addr), sizeof a.sin_addr};
    }
    sockaddr_in6 a{};
    std::memcpy(&a, address.bytes, sizeof a);
    const char* bytes = reinterpret_cast<const char*>(&a.sin6_addr);
    return IN6_IS_ADDR_V4MAPPED(&a.sin6_addr) ? std::string(bytes + 12, 4) : std::string(bytes, 8);
}

void HalfOpenTable::add(std::unique_ptr<Stream> stream, const std::string& source, Nanos now) {
    if (connections_.size() >= options_.half_open_max) {
        drop_one();
    }
    Connection connection;
    connection.stream = std::move(stream);
    connection.source = source;
    connection.deadline = now + options_.pairing_timeout;
    connections_.push_back(std::move(connection));
}

void HalfOpenTable::drop_one() {
    std::map<std::string_view, std::size_t> of_source;
    for (const Connection& c : connections_) {
        of_source[c.source] += c.proven() ? 0U : 1U;
    }
    // A peer has two lanes: a source with two is no more of a crowd than one with one.
    const auto claim = [&](const Connection& c) {
        const std::size_t crowd = std::max<std::size_t>(of_source[c.source], wire::kLanes);
        return std::tuple(!c.proven(), crowd, c.stage != Connection::Stage::named);
    };
    // The first of equals, which is the oldest.
    connections_.erase(std::ranges::max_element(connections_, {}, claim));
}

void HalfOpenTable::expire(Nanos now) {
    std::erase_if(connections_,
                  [now](const Connection& c) { return c.stage == Connection::Stage::dead || now >= c.deadline; });
}

void HalfOpenTable::watch(std::vector<pollfd>& entries, Nanos& until) const {
    for (const Connection& c : connections_) {
        // A named one has said all that is read here; only its end matters, and its deadline bounds that.
        const short events = c.stream->held_bytes() > 0 ? POLLIN | POLLOUT : POLLIN;
        entries.push_back({c.waits() ? c.stream->descriptor() : -1, events, 0});
        until = std::min(until, c.deadline);
    }
}

void HalfOpenTable::advance(std::span<const pollfd> entries, Nanos now) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].revents == 0) {
            continue;
        }
        Connection& c = connections_[i];
        c.stream->flush();
        if (c.stage == Connection::Stage::refused) {
            discard(c);
        } else {
            read_header(c, now);
        }
    }
}

void HalfOpenTable::refuse(Connection& connection, const Status& why, Nanos now) const {
    if (options_.on_refused) {
        options_.on_refused(why);
    }
    connection.stream->shutdown();
    connection.stage = Connection::Stage::refused;
    connection.deadline = std::min(connection.deadline, now + kRefusalLinger);
}

/// Goes on with the handshake and the header. Refuses what does not prove who it is, drops what is not a hello.
void HalfOpenTable::read_header(Connection& connection, Nanos now) const {
    std::array<std::byte, wire::kHeaderBytes> buffer;
    // Until the socket is empty: a poll does not see what TLS has read ahead. Each pass takes a byte at least.
    while (connection.bytes.size() < wire::kHeaderBytes) {
        const std::size_t missing = wire::kHeaderBytes - connection.bytes.size();
        const Result<std::size_t> n = connection.stream->read(std::span(buffer).first(missing));
        if (!n.ok()) {
            if (options_.tls != nullptr && n.status().code() != ErrorCode::peer_lost) {
                refuse(connection, n.status(), now);
            } else {
                connection.stage = Connection::Stage::dead;
            }
            return;
        }
        if (n.value() == 0) {
            return;
        }
        connection.bytes.insert(connection.bytes.end(), buffer.begin(),
                                buffer.begin() + static_cast<std::ptrdiff_t>(n.value()));
    }
    const Result<wire::FrameHeader> header = wire::decode_header(connection.bytes);
    if (!header.ok() || header.value().type != wire::FrameType::hello || header.value().key.request == 0) {
        connection.stage = Connection::Stage::dead;
        return;
    }
    connection.stage = Connection::Stage::named;
    connection.connection_id = header.value().key.request;
    connection.lane = header.value().lane;
    connection.identity = connection.stream->identity();
}

/// Reads and forgets what a refused peer still says.
void HalfOpenTable::discard(Connection& connection) {
    std::array<std::byte, 4096> buffer;
    const ssize_t n = ::recv(connection.stream->descriptor(), buffer.data(), buffer.size(), 0);
    if (n < 0 && would_block(errno)) {
        return;
    }
    connection.discarded += n > 0 ? static_cast<std::size_t>(n) : 0;
    if (n <= 0 || connection.discarded > kRefusalBytesMax) {
        connection.stage = Connection::Stage::dead;
    }
}

std::optional<Accepted> HalfOpenTable::take_pair() {
    for (std::size_t i = 0; i < connections_.size(); ++i) {
        for (std::size_t j = i + 1; j < connections_.size(); ++j) {
            Connection& a = connections_[i];
            Connection& b = connections_[j];
            const bool named = a.stage == Connection::Stage::named && b.stage == Connection::Stage::named;
            if (!named || a.connection_id != b.connection_id || a.identity != b.identity) {
                continue;
            }
            if (a.lane == b.lane) {
                connections_.erase(connections_.begin() +
                                   static_cast<std::ptrdiff_t>(j--));  // who comes second is wrong
                continue;
            }
            Connection& high = a.lane == Lane::high ? a : b;
            Connection& low = a.lane == Lane::high ? b : a;
            Result<std::unique_ptr<TcpLink>> link =
                TcpLink::make({std::move(high.stream), std::move(low.stream)},
                              {std::move(high.bytes), std::move(low.bytes)}, options_);
            Accepted accepted{nullptr, a.connection_id, std::move(a.identity)};
            connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(j));
            connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
            if (!link.ok()) {
                return take_pair();  // this pair is gone, closed with its sockets; bounded by the half-open ones left
            }
            accepted.link = std::move(link).value();
            return accepted;
        }
    }
    return std::nullopt;
}

}  // namespace lynx::transport
