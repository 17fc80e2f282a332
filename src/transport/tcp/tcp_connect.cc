#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <future>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/try.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_link.h"
#include "transport/tcp/tls.h"

namespace lynx::transport {
namespace {

/// RFC 8305, 5: how long an address is tried before the next one is too.
constexpr Nanos kHeadStart = std::chrono::milliseconds(250);
constexpr Nanos kLookAgain = std::chrono::milliseconds(20);

/// How long the caller waits.
class Patience {
public:
    Patience(Nanos deadline, const std::function<bool()>& go_on) : deadline_(deadline), go_on_(go_on) {}

    /// timeout or cancelled once it is over.
    [[nodiscard]] Status check(const char* waited_for) const {
        if (go_on_ && !go_on_()) {
            return {ErrorCode::cancelled, "given up"};
        }
        return clock_.now() < deadline_ ? Status{} : Status{ErrorCode::timeout, waited_for};
    }
    /// When to check() again at the latest.
    [[nodiscard]] Nanos until() const { return go_on_ ? std::min(deadline_, clock_.now() + kLookAgain) : deadline_; }
    [[nodiscard]] Nanos now() const { return clock_.now(); }

private:
    const base::SteadyClock clock_;
    Nanos deadline_;
    const std::function<bool()>& go_on_;
};

/// resolve(), which may block for long: then on a thread that is left behind.
Result<std::vector<Address>> resolve_within(const std::string& host, std::uint16_t port, Reach reach,
                                            const Patience& patience) {
    if (reach == Reach::loopback || is_numeric(host)) {
        return resolve(host, port, reach);
    }
    std::promise<Result<std::vector<Address>>> promise;
    std::future<Result<std::vector<Address>>> answer = promise.get_future();
    std::thread([host, port, reach, promise = std::move(promise)]() mutable {
        promise.set_value(resolve(host, port, reach));
    }).detach();
    while (answer.wait_for(std::max(patience.until() - patience.now(), Nanos{0})) != std::future_status::ready) {
        LYNX_TRY(patience.check("the resolver did not answer before the deadline"));
    }
    return answer.get();
}

struct Connecting {
    Fd socket;
    std::size_t address = 0;
};

/// The outcome of a connect() that was under way: 0 or an errno.
int outcome(const Fd& socket) {
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

Result<Fd> begin_connecting(const Address& address) {
    Fd socket(::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
        return os_error("socket", errno);
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(address.bytes), address.size) != 0 &&
        errno != EINPROGRESS) {
        return os_error("no connection", errno);
    }
    return socket;
}

/// The first address that answers. When none does, why the last of them did not.
Result<Connecting> connect_any(std::span<const Address> addresses, const Patience& patience) {
    std::vector<Connecting> under_way;
    std::vector<pollfd> entries;
    std::size_t next = 0;
    Nanos next_at{0};
    Status failed;
    while (next < addresses.size() || !under_way.empty()) {
        if (next < addresses.size() && (under_way.empty() || patience.now() >= next_at)) {
            Result<Fd> socket = begin_connecting(addresses[next]);
            if (socket.ok()) {
                under_way.push_back({std::move(socket).value(), next});
            } else {
                failed = socket.status();
            }
            ++next;
            next_at = patience.now() + kHeadStart;
            continue;
        }
        entries.clear();
        for (const Connecting& each : under_way) {
            entries.push_back({each.socket.get(), POLLOUT, 0});
        }
        LYNX_TRY(poll_until(entries, next < addresses.size() ? std::min(patience.until(), next_at) : patience.until())
                     .status());
        for (std::size_t i = entries.size(); i-- > 0;) {
            if (entries[i].revents == 0) {
                continue;
            }
            const int error = outcome(under_way[i].socket);
            if (error == 0) {
                return std::move(under_way[i]);
            }
            failed = os_error("no connection", error);
            under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(i));
        }
        LYNX_TRY(patience.check("no answer before the deadline"));
    }
    return failed;
}

/// Until the peer of every stream has proven who it is, the same on all of them.
Status prove(const std::array<std::unique_ptr<Stream>, wire::kLanes>& streams, const Patience& patience) {
    while (true) {
        std::array<pollfd, wire::kLanes> entries{};
        bool all = true;
        for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
            streams[lane]->flush();
            LYNX_ASSIGN(const bool proven, streams[lane]->prove());
            const short events = streams[lane]->held_bytes() > 0 ? POLLIN | POLLOUT : POLLIN;
            entries[lane] = {proven ? -1 : streams[lane]->descriptor(), events, 0};
            all = all && proven;
        }
        if (all) {
            break;
        }
        LYNX_TRY(patience.check("no proof of who answers before the deadline"));
        LYNX_TRY(poll_until(entries, patience.until()).status());
    }
    if (streams[0]->identity() != streams[1]->identity()) {
        return {ErrorCode::unauthenticated,
                "the lanes lead to different peers: " + streams[0]->identity() + " and " + streams[1]->identity()};
    }
    return {};
}

Result<std::unique_ptr<Link>> connect_lanes(const std::string& host, std::uint16_t port, const TcpOptions& options,
                                            const Patience& patience) {
    LYNX_ASSIGN(const std::vector<Address> addresses, resolve_within(host, port, reach(options), patience));
    std::array<Fd, wire::kLanes> sockets;
    LYNX_ASSIGN(Connecting first, connect_any(addresses, patience));
    sockets[0] = std::move(first.socket);
    // The other lane goes to the same machine.
    LYNX_ASSIGN(Connecting second, connect_any(std::span(addresses).subspan(first.address, 1), patience));
    sockets[1] = std::move(second.socket);
    std::array<std::unique_ptr<Stream>, wire::kLanes> streams;
    for (std::size_t lane = 0; lane < wire::kLanes; ++lane) {
        if (options.tls == nullptr) {
            streams[lane] = plain_stream(std::move(sockets[lane]));
        } else {
            LYNX_ASSIGN(streams[lane], options.tls->connecting(std::move(sockets[lane]), host));
        }
    }
    LYNX_TRY(prove(streams, patience));
    LYNX_ASSIGN(std::unique_ptr<TcpLink> link, TcpLink::make(std::move(streams), {}, options));
    return std::unique_ptr<Link>(std::move(link));
}

}  // namespace

std::uint64_t make_connection_id() {
    std::random_device device;
    const std::uint64_t id = (std::uint64_t{device()} << 32) | device();
    return id == 0 ? 1 : id;
}

Result<std::unique_ptr<Link>> tcp_connect(const std::string& host, std::uint16_t port, const TcpOptions& options,
                                          Nanos deadline, const std::function<bool()>& go_on) {
    Result<std::unique_ptr<Link>> link = connect_lanes(host, port, options, Patience(deadline, go_on));
    return link.ok() ? std::move(link)
                     : link.status().with_context("connect to " + host + " port " + std::to_string(port));
}

}  // namespace lynx::transport
