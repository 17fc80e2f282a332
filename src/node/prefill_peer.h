// One decode node as the prefill node sees it: requests in, pages out. Runs on its own thread until the peer is gone.
//
// Pages are encoded here, between two rounds of moving bytes, in the order in which they become final (page-major), so that page i + 1 is
// quantised while page i is on the wire and the inference thread never waits for a peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "codec/codec.h"
#include "engine/engine.h"
#include "node/prefill_worker.h"
#include "transport/link.h"
#include "wire/session.h"

namespace lynx::node {

class PrefillPeer {
public:
    struct Options {
        wire::SessionOptions session;
        std::function<void(const std::string&)> log;
    };
    PrefillPeer(engine::Engine& engine, PrefillWorker& worker, const base::Clock& clock, std::unique_ptr<transport::Link> link,
                Options options);
    ~PrefillPeer();

    /// Until the peer leaves (ok), fails (its Status), or stop is requested (ok, live requests are aborted first).
    [[nodiscard]] Status run(std::stop_token stop);

private:
    struct Transfer {
        std::shared_ptr<PrefillJob> job;
        std::unique_ptr<codec::Codec> codec;
        kv::Paging paging;
        std::uint32_t next_page = 0;         // encode cursor: page, layer, kind
        std::uint32_t next_layer = 0;
        kv::Kind next_kind = kv::Kind::key;
        std::uint32_t progress_sent = 0;
        bool first_token_sent = false;
        std::vector<base::Bytes> payloads;
    };

    [[nodiscard]] Status serve_until(const std::stop_token& stop);
    [[nodiscard]] Status handle_events();
    void start(const wire::Request& request);
    void finish(std::uint64_t request, std::uint32_t generation, const std::string& outcome);
    /// Tells the peer why and forgets the transfer.
    void abort(const Transfer& transfer, const Status& status);
    /// Reports and encodes what it can for one transfer; true when something was queued.
    [[nodiscard]] Result<bool> serve(Transfer& transfer);
    [[nodiscard]] Result<bool> encode_next(Transfer& transfer, const PrefillJob::Snapshot& job);

    engine::Engine& engine_;
    PrefillWorker& worker_;
    const base::Clock& clock_;
    std::shared_ptr<transport::Link> link_;   // shared with the jobs' notifications, which may outlive the peer
    Options options_;
    wire::Session session_;
    std::vector<std::unique_ptr<Transfer>> transfers_;   // bounded by SessionOptions::requests_max
};

}  // namespace lynx::node
