#include "bench/plain_socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/try.h"
#include "bench/cpu_time.h"
#include "transport/tcp/socket.h"

namespace lynx::bench {
namespace {

using transport::Fd;
using transport::os_error;

/// Both ends of a connection over 127.0.0.1.
Result<std::pair<Fd, Fd>> connected_pair() {
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (!listener.valid() || ::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), generic, &size) != 0) {
        return os_error("plain socket: listen", errno);
    }
    Fd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!client.valid() || ::connect(client.get(), generic, size) != 0) {
        return os_error("plain socket: connect", errno);
    }
    Fd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!server.valid()) {
        return os_error("plain socket: accept", errno);
    }
    return std::pair(std::move(client), std::move(server));
}

/// Until the reader is gone; the CPU time that took.
double write_until_closed(int fd, std::size_t write_bytes) {
    const std::vector<char> buffer(write_bytes);
    while (::send(fd, buffer.data(), buffer.size(), MSG_NOSIGNAL) > 0) {
    }
    return cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace

Result<SocketMeasured> measure_plain_socket(std::size_t write_bytes, base::Nanos duration) {
    LYNX_ASSIGN(auto ends, connected_pair());
    SocketMeasured measured;
    std::vector<char> buffer(write_bytes);
    const base::SteadyClock clock;
    const double cpu = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    const base::Nanos begun = clock.now();
    base::Nanos now = begun;
    int failed = 0;
    {
        const std::jthread writer(
            [&, fd = ends.first.get()] { measured.sender_cpu_s = write_until_closed(fd, write_bytes); });
        for (; now - begun < duration; now = clock.now()) {
            const ssize_t n = ::recv(ends.second.get(), buffer.data(), buffer.size(), 0);
            if (n <= 0) {
                failed = n < 0 ? errno : ECONNRESET;
                break;
            }
            measured.bytes += static_cast<std::uint64_t>(n);
        }
        measured.seconds = base::to_seconds(now - begun);
        measured.receiver_cpu_s = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
        ends.second.reset();
    }
    if (failed != 0) {
        return os_error("plain socket: read", failed);
    }
    return measured;
}

}  // namespace lynx::bench
