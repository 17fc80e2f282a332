#include "node/peer_io.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/try.h"
#include "transport/pump.h"

namespace lynx::node {

namespace {

/// The request an event belongs to; 0, which no request has, for the handshake.
std::uint64_t request_of(const wire::PeerReady& /*event*/) { return 0; }
std::uint64_t request_of(const wire::PageReceived& event) { return event.key.request; }
template <class Event>
std::uint64_t request_of(const Event& event) {
    return event.request;
}

}  // namespace

PeerIo::PeerIo(std::unique_ptr<transport::Link> link, wire::SessionOptions options, const base::Clock& clock)
    : link_(std::move(link)), clock_(clock), session_(std::move(options), clock.now()) {}

Result<std::unique_ptr<PeerIo>> PeerIo::open(std::unique_ptr<transport::Link> link, wire::SessionOptions options,
                                             const base::Clock& clock) {
    std::unique_ptr<PeerIo> io(new PeerIo(std::move(link), std::move(options), clock));
    io->thread_ = std::thread([raw = io.get()] { raw->run(); });
    std::unique_lock lock(io->mutex_);
    // The session's own handshake timeout bounds this wait.
    io->changed_.wait(lock, [&] { return io->ready_ || io->ended_; });
    if (!io->ready_) {
        return io->status_;
    }
    lock.unlock();
    return io;
}

PeerIo::~PeerIo() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    link_->wake();
    if (thread_.joinable()) {
        thread_.join();
    }
}

void PeerIo::run() {
    Status status;
    while (status.ok()) {
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) {
                status = {ErrorCode::cancelled, "the connection was closed"};
                break;
            }
        }
        status = round();
    }
    session_.close(status, clock_.now());
    transport::finish(session_, *link_, clock_, clock_.now() + transport::kLinger);
    for (const auto& [_, receiver] : receivers_) {
        receiver->fail(status);
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    status_ = status;
    changed_.notify_all();
}

Status PeerIo::round() {
    run_calls();
    const base::Nanos deadline = std::min(session_.timeout(), clock_.now() + std::chrono::seconds(1));
    LYNX_TRY(transport::pump_once(session_, *link_, clock_, deadline).status());
    while (std::optional<wire::Event> event = session_.poll_event()) {
        if (const auto* page = std::get_if<wire::PageReceived>(&*event)) {
            session_.release(*page, clock_.now());  // it leaves the session's buffers now
        }
        deliver(std::move(*event));
    }
    return session_.status();
}

void PeerIo::deliver(wire::Event event) {
    if (std::holds_alternative<wire::PeerReady>(event)) {
        const std::lock_guard lock(mutex_);
        ready_ = true;
        changed_.notify_all();
        return;
    }
    const auto receiver = receivers_.find(std::visit([](const auto& e) { return request_of(e); }, event));
    if (receiver != receivers_.end()) {
        receiver->second->on_event(std::move(event));
    }
}

bool PeerIo::call(const std::function<void()>& function) {
    Call call{&function};
    std::unique_lock lock(mutex_);
    calls_.push_back(&call);
    link_->wake();
    changed_.wait(lock, [&] { return call.done || ended_; });
    std::erase(calls_, &call);
    return call.done;
}

void PeerIo::run_calls() {
    const std::lock_guard lock(mutex_);
    while (!calls_.empty()) {
        (*calls_.front()->function)();
        calls_.front()->done = true;
        calls_.pop_front();
    }
    changed_.notify_all();
}

Status PeerIo::begin(const wire::Request& request, DecodeRequest& receiver) {
    Status status;
    const bool ran = call([&] {
        status = session_.request(request, clock_.now());
        if (status.ok()) {
            receivers_.emplace(request.request, &receiver);
        }
    });
    return ran ? status : this->status();
}

void PeerIo::end(std::uint64_t request, std::uint32_t generation, const Status& outcome) {
    call([&] {
        if (receivers_.erase(request) == 0) {
            return;
        }
        if (outcome.ok()) {
            session_.done({request, generation}, clock_.now());
        } else {
            session_.abort({request, generation, outcome.code(), outcome.message()}, clock_.now());
        }
    });
}

Status PeerIo::status() const {
    const std::lock_guard lock(mutex_);
    return status_;
}

}  // namespace lynx::node
