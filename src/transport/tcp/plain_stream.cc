#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "transport/tcp/stream.h"

namespace lynx::transport {
namespace {

class PlainStream final : public Stream {
public:
    explicit PlainStream(Fd socket) noexcept : socket_(std::move(socket)) {}

    Result<bool> prove() override { return true; }

    Result<std::size_t> write(base::ByteView bytes) override {
        if (bytes.empty()) {
            return std::size_t{0};
        }
        const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n >= 0) {
            return static_cast<std::size_t>(n);
        }
        return would_block(errno) ? Result<std::size_t>(std::size_t{0}) : socket_error(errno);
    }

    Result<std::size_t> read(std::span<std::byte> buffer) override {
        if (buffer.empty()) {
            return std::size_t{0};
        }
        const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
        if (n > 0) {
            heard_ = true;
            return static_cast<std::size_t>(n);
        }
        if (n == 0) {
            return Status{ErrorCode::peer_lost,
                          heard_ ? "the peer closed the connection"
                                 : "the peer closed the connection without a word; it may expect TLS"};
        }
        return would_block(errno) ? Result<std::size_t>(std::size_t{0}) : socket_error(errno);
    }

    void shutdown() noexcept override { ::shutdown(socket_.get(), SHUT_WR); }
    [[nodiscard]] int descriptor() const noexcept override { return socket_.get(); }

private:
    Fd socket_;
    bool heard_ = false;
};

}  // namespace

std::unique_ptr<Stream> plain_stream(Fd socket) { return std::make_unique<PlainStream>(std::move(socket)); }

Status socket_error(int error) {
    switch (error) {
        case EPIPE:
        case ECONNRESET:
        case ECONNABORTED:
        case ETIMEDOUT:
        case EHOSTUNREACH:
        case ENETUNREACH:
        case ENETDOWN: return {ErrorCode::peer_lost, "the connection broke: " + std::generic_category().message(error)};
        default: return os_error("socket", error);
    }
}

bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace lynx::transport
