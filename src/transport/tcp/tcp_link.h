// The TCP link itself: two connected streams, one eventfd to be woken by, poll(2). Made by tcp_connect and TcpListener.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "transport/link.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream.h"

struct pollfd;

namespace lynx::transport {

class TcpLink final : public Link {
public:
    /// Takes connected streams and sets their lane options. `replay`: bytes already read from each lane.
    [[nodiscard]] static Result<std::unique_ptr<TcpLink>> make(
        std::array<std::unique_ptr<Stream>, wire::kLanes> streams, std::array<base::Bytes, wire::kLanes> replay,
        const TcpOptions& options);

    [[nodiscard]] Result<std::size_t> write(Lane lane, base::ByteView bytes) override;
    [[nodiscard]] Result<std::size_t> read(Lane lane, std::span<std::byte> buffer) override;
    [[nodiscard]] Status wait(Interest interest, Nanos deadline) override;
    void wake() noexcept override;
    void shutdown() noexcept override;
    void close() noexcept override;
    [[nodiscard]] std::size_t held_bytes() const noexcept override;

    /// The descriptor of a lane, for tests that look at its options.
    [[nodiscard]] int descriptor(Lane lane) const noexcept {
        return streams_[static_cast<std::size_t>(lane)]->descriptor();
    }

private:
    TcpLink(std::array<std::unique_ptr<Stream>, wire::kLanes> streams, std::array<base::Bytes, wire::kLanes> replay,
            Fd event) noexcept;
    [[nodiscard]] bool open() const noexcept { return streams_[0] != nullptr; }

    std::array<std::unique_ptr<Stream>, wire::kLanes> streams_;  ///< none once closed
    std::array<base::Bytes, wire::kLanes> replay_;
    std::array<std::size_t, wire::kLanes> replayed_{};
    Fd event_;  ///< lives as long as the object: wake() may be called until then
};

/// ppoll until `deadline` of the SteadyClock. Ready descriptors, 0 at the deadline or on a signal, or io.
[[nodiscard]] Result<int> poll_until(std::span<pollfd> entries, Nanos deadline);
/// A fresh non-blocking eventfd; its read side is drained by drain_event.
[[nodiscard]] Result<Fd> make_event();
void signal_event(const Fd& event) noexcept;
/// True when it had been signalled.
bool drain_event(const Fd& event) noexcept;

}  // namespace lynx::transport
