// The decode node's connection to its prefill node: one thread that moves bytes, decodes pages as they come, and hands events to
// the request they belong to. Calls are made on that thread at a caller's demand, so the session needs no lock.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "lynx/status.h"
#include "node/decode_request.h"
#include "transport/link.h"
#include "wire/session.h"

namespace lynx::node {

class PeerIo {
public:
    /// Takes a connected link and completes the handshake. timeout, peer_lost, or invalid_argument naming what differs.
    [[nodiscard]] static Result<std::unique_ptr<PeerIo>> open(std::unique_ptr<transport::Link> link,
                                                              wire::SessionOptions options, const base::Clock& clock);
    /// Closes the link and joins the thread.
    ~PeerIo();

    /// Sends the request and delivers its events to `receiver` until end(). Several may be under way.
    [[nodiscard]] Status begin(const wire::Request& request, DecodeRequest& receiver);
    /// After this returns nothing touches the receiver of that request or its KV any more. `outcome` ok: the peer is told that everything
    /// arrived; else: that the request is aborted, with that reason.
    void end(std::uint64_t request, std::uint32_t generation, const Status& outcome);
    /// ok while the connection lives.
    [[nodiscard]] Status status() const;

private:
    PeerIo(std::unique_ptr<transport::Link> link, wire::SessionOptions options, const base::Clock& clock);
    void run();
    [[nodiscard]] Status round();
    void deliver(wire::Event event);
    /// Runs `call` on the I/O thread and waits for it; false when the connection is dead and it did not run.
    bool call(const std::function<void()>& function);
    void run_calls();

    std::unique_ptr<transport::Link> link_;
    const base::Clock& clock_;

    // I/O thread only.
    wire::Session session_;
    std::map<std::uint64_t, DecodeRequest*> receivers_;  ///< by request

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    struct Call {
        const std::function<void()>* function;
        bool done = false;
    };
    std::deque<Call*> calls_;
    bool ready_ = false;
    bool stopping_ = false;
    bool ended_ = false;
    Status status_;

    std::thread thread_;
};

}  // namespace lynx::node
