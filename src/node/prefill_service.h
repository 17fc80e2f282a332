// One decode node as the prefill node sees it, without I/O: requests in, pages out, through a session that somebody else pumps.
//
// Pages are encoded in step(), between two rounds of moving bytes, in the order in which they become final (page-major), so that page i + 1 is
// quantised while page i is on the wire and the inference thread never waits for a peer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "codec/codec.h"
#include "engine/engine.h"
#include "node/prefill_worker.h"
#include "wire/session.h"

namespace lynx::node {

/// Not thread-safe: the thread that pumps the session calls it.
class PrefillService {
public:
    struct Options {
        std::function<void()> notify;  ///< a job has news: step() soon. Any thread; may outlive the service
        std::function<void(const std::string&)> log;
    };
    PrefillService(engine::Engine& engine, PrefillWorker& worker, Options options);
    ~PrefillService();
    PrefillService(const PrefillService&) = delete;
    PrefillService& operator=(const PrefillService&) = delete;

    /// Takes the session's events, reports progress, encodes the next page of each request. True: call again at once, there is more to encode.
    /// Fails with the session's status.
    [[nodiscard]] Result<bool> step(wire::Session& session, base::Nanos now);
    /// Ends every request with that reason.
    void abort_all(wire::Session& session, const Status& reason, base::Nanos now);

    /// True while a request waits for its prefill.
    [[nodiscard]] bool prefilling() const;

private:
    struct Transfer {
        std::shared_ptr<PrefillJob> job;
        std::unique_ptr<codec::Codec> codec;
        kv::Paging paging;
        std::uint32_t next_page = 0;  // encode cursor: page, layer, kind
        std::uint32_t next_layer = 0;
        kv::Kind next_kind = kv::Kind::key;
        std::uint32_t progress_sent = 0;
        bool first_token_sent = false;
        std::vector<base::Bytes> payloads;
    };

    void start(wire::Session& session, const wire::Request& request, base::Nanos now);
    [[nodiscard]] Result<std::unique_ptr<Transfer>> admit(const wire::Request& request);
    void finish(std::uint64_t request, std::uint32_t generation, const std::string& outcome);
    void abort(wire::Session& session, const Transfer& transfer, const Status& reason, base::Nanos now);
    [[nodiscard]] Result<bool> serve(wire::Session& session, Transfer& transfer, base::Nanos now);
    [[nodiscard]] Result<bool> encode_next(wire::Session& session, Transfer& transfer, const PrefillJob::Snapshot& job,
                                           base::Nanos now);

    engine::Engine& engine_;
    PrefillWorker& worker_;
    Options options_;
    std::vector<std::unique_ptr<Transfer>> transfers_;  // bounded by SessionOptions::requests_max
};

}  // namespace lynx::node
