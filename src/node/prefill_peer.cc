#include "node/prefill_peer.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "base/check.h"
#include "base/try.h"
#include "node/codec_negotiation.h"
#include "speculate/sampling.h"
#include "transport/pump.h"

namespace lynx::node {

namespace {
// Encoded bytes that may wait on the anchor lane: enough to keep any link of ours busy for longer than one page's encoding takes, little enough
// that encoding stays ahead of the wire by pages, not by the whole cache.
constexpr std::size_t kEncodeAheadBytes = std::size_t{1} << 20;

std::string name_of(std::uint64_t request) { return "request " + std::to_string(request); }
}  // namespace

PrefillPeer::PrefillPeer(engine::Engine& engine, PrefillWorker& worker, const base::Clock& clock,
                         std::unique_ptr<transport::Link> link, Options options)
    : engine_(engine),
      worker_(worker),
      clock_(clock),
      link_(std::move(link)),
      options_(std::move(options)),
      session_(options_.session, clock.now()) {}

PrefillPeer::~PrefillPeer() {
    for (const auto& transfer : transfers_) {
        worker_.release(transfer->job);
    }
    link_->close();
}

Status PrefillPeer::run(std::stop_token stop) {
    const std::stop_callback wake(stop, [link = link_] { link->wake(); });
    const Status status = serve_until(stop);
    transport::finish(session_, *link_, clock_, clock_.now() + transport::kLinger);
    return status;
}

Status PrefillPeer::serve_until(const std::stop_token& stop) {
    bool busy = false;
    while (!stop.stop_requested()) {
        const base::Nanos now = clock_.now();
        const base::Nanos deadline = busy ? now : std::min(session_.timeout(), now + std::chrono::seconds(1));
        LYNX_ASSIGN([[maybe_unused]] const std::size_t moved, transport::pump_once(session_, *link_, clock_, deadline));
        LYNX_TRY(handle_events());
        busy = false;
        for (std::size_t i = 0; i < transfers_.size();) {
            Result<bool> queued = serve(*transfers_[i]);
            if (!queued.ok()) {
                abort(*transfers_[i], queued.status());
                continue;  // the next one has moved to i
            }
            busy = busy || queued.value();
            ++i;
        }
    }
    while (!transfers_.empty()) {
        abort(*transfers_.back(), {ErrorCode::cancelled, "the prefill node is stopping"});
    }
    return {};
}

Status PrefillPeer::handle_events() {
    while (std::optional<wire::Event> event = session_.poll_event()) {
        if (const auto* request = std::get_if<wire::Request>(&*event)) {
            start(*request);
        } else if (const auto* abort = std::get_if<wire::Abort>(&*event)) {
            finish(abort->request, abort->generation, "aborted by the peer: " + abort->message);
        } else if (const auto* done = std::get_if<wire::Done>(&*event)) {
            finish(done->request, done->generation, "done");
        }
    }
    return session_.status();
}

void PrefillPeer::start(const wire::Request& request) {
    const auto refuse = [&](const Status& status) {
        session_.abort({request.request, request.generation, status.code(), status.message()}, clock_.now());
        options_.log(name_of(request.request) + " refused: " + status.to_string());
    };
    const Result<codec::CodecParams> params = parse_params(request.codec_params);
    if (!params.ok()) {
        return refuse(params.status());
    }
    Result<std::unique_ptr<codec::Codec>> made = codec::make_codec(request.codec, params.value());
    if (!made.ok()) {
        return refuse(made.status());
    }
    if (made.value()->info().tiers != request.tiers || params.value().page_tokens != request.page_tokens) {
        return refuse({ErrorCode::invalid_argument, "request: tiers or page size do not match codec " + request.codec});
    }
    const speculate::Sampling sampling{.temperature = request.sampler.temperature,
                                       .top_k = request.sampler.top_k,
                                       .top_p = request.sampler.top_p,
                                       .seed = request.sampler.seed};
    if (const Status status = sampling.validate(); !status.ok()) {
        return refuse(status);
    }
    auto transfer = std::make_unique<Transfer>();
    transfer->codec = std::move(made).value();
    transfer->paging = {static_cast<std::uint32_t>(request.prompt.size()), request.page_tokens};
    transfer->payloads.resize(request.tiers);
    transfer->job = std::make_shared<PrefillJob>(request, [link = link_] { link->wake(); });
    if (const Status status = worker_.submit(transfer->job); !status.ok()) {
        return refuse(status);
    }
    options_.log(name_of(request.request) + ": " + std::to_string(request.prompt.size()) + " tokens, codec " + request.codec);
    transfers_.push_back(std::move(transfer));
}

void PrefillPeer::finish(std::uint64_t request, std::uint32_t generation, const std::string& outcome) {
    const auto it = std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& t) {
        return t->job->request().request == request && t->job->request().generation == generation;
    });
    if (it != transfers_.end()) {
        worker_.release((*it)->job);
        transfers_.erase(it);
        options_.log(name_of(request) + ": " + outcome);
    }
}

void PrefillPeer::abort(const Transfer& transfer, const Status& status) {
    const std::uint64_t request = transfer.job->request().request;
    const std::uint32_t generation = transfer.job->request().generation;
    session_.abort({request, generation, status.code(), status.message()}, clock_.now());
    finish(request, generation, status.to_string());
}

Result<bool> PrefillPeer::serve(Transfer& transfer) {
    const wire::Request& request = transfer.job->request();
    const PrefillJob::Snapshot job = transfer.job->snapshot();
    LYNX_TRY(job.failure);
    const base::Nanos now = clock_.now();
    if (job.tokens_final > transfer.progress_sent) {
        session_.progress({request.request, request.generation, job.tokens_final, transfer.paging.tokens, job.prefix_hit}, now);
        transfer.progress_sent = job.tokens_final;
    }
    if (job.first_token && !transfer.first_token_sent) {
        session_.first_token({request.request, request.generation, *job.first_token}, now);
        transfer.first_token_sent = true;
    }
    return encode_next(transfer, job);
}

Result<bool> PrefillPeer::encode_next(Transfer& transfer, const PrefillJob::Snapshot& job) {
    const std::uint32_t page = transfer.next_page;
    if (page == transfer.paging.pages() || session_.queued_bytes(wire::Lane::high) >= kEncodeAheadBytes) {
        return false;
    }
    const std::uint32_t first = transfer.paging.first_token(page);
    const std::uint32_t count = transfer.paging.tokens_in(page);
    if (first + count > job.tokens_final) {
        return false;
    }
    LYNX_ASSIGN(const kv::View view, engine_.kv_view(job.seq, transfer.next_layer, transfer.next_kind));
    std::size_t room = 0;
    for (std::uint8_t tier = 0; tier < transfer.codec->info().tiers; ++tier) {
        room += transfer.codec->encoded_bytes_max(count, view.channels, view.dtype, tier);
    }
    if (session_.send_room() < room) {
        return false;
    }
    LYNX_TRY(transfer.codec->encode(view.slice_tokens(first, count), {first, transfer.paging.tokens}, transfer.payloads));
    const wire::Request& request = transfer.job->request();
    for (std::uint8_t tier = 0; tier < request.tiers; ++tier) {
        const kv::PageKey key{request.request,   request.generation, static_cast<std::uint16_t>(transfer.next_layer),
                              transfer.next_kind, tier,              page,
                              first};
        LYNX_TRY(session_.send_page(key, std::make_shared<const base::Bytes>(std::move(transfer.payloads[tier])), clock_.now()));
    }
    // Page-major: K and V of every layer of this page, then the next page.
    if (transfer.next_kind == kv::Kind::key) {
        transfer.next_kind = kv::Kind::value;
    } else {
        transfer.next_kind = kv::Kind::key;
        if (++transfer.next_layer == engine_.info().geometry.layers.size()) {
            transfer.next_layer = 0;
            ++transfer.next_page;
        }
    }
    if (transfer.next_page == transfer.paging.pages()) {
        worker_.release(transfer.job);  // the cache is no longer read: another prompt may have the slot
    }
    return true;
}

}  // namespace lynx::node
