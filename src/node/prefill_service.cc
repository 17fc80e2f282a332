#include "node/prefill_service.h"

#include <algorithm>
#include <variant>

#include "base/try.h"
#include "node/codec_negotiation.h"

namespace lynx::node {

namespace {
// Encoded bytes that may wait on the anchor lane: enough to keep any link of ours busy for longer than one page's encoding takes, little enough
// that encoding stays ahead of the wire by pages, not by the whole cache.
constexpr std::size_t kEncodeAheadBytes = std::size_t{1} << 20;

std::string name_of(std::uint64_t request) { return "request " + std::to_string(request); }
}  // namespace

PrefillService::PrefillService(engine::Engine& engine, PrefillWorker& worker, Options options)
    : engine_(engine), worker_(worker), options_(std::move(options)) {}

PrefillService::~PrefillService() {
    for (const auto& transfer : transfers_) {
        worker_.release(transfer->job);
    }
}

Result<bool> PrefillService::step(wire::Session& session, base::Nanos now) {
    while (std::optional<wire::Event> event = session.poll_event()) {
        if (const auto* request = std::get_if<wire::Request>(&*event)) {
            start(session, *request, now);
        } else if (const auto* abort = std::get_if<wire::Abort>(&*event)) {
            finish(abort->request, abort->generation, "aborted by the peer: " + abort->message);
        } else if (const auto* done = std::get_if<wire::Done>(&*event)) {
            finish(done->request, done->generation, "done");
        }
    }
    LYNX_TRY(session.status());
    bool more = false;
    for (std::size_t i = 0; i < transfers_.size();) {
        const Result<bool> queued = serve(session, *transfers_[i], now);
        if (!queued.ok()) {
            abort(session, *transfers_[i], queued.status(), now);
            continue;  // the next one has moved to i
        }
        more = more || queued.value();
        ++i;
    }
    return more;
}

bool PrefillService::prefilling() const {
    return std::any_of(transfers_.begin(), transfers_.end(), [](const auto& t) { return !t->first_token_sent; });
}

void PrefillService::abort_all(wire::Session& session, const Status& reason, base::Nanos now) {
    while (!transfers_.empty()) {
        abort(session, *transfers_.back(), reason, now);
    }
}

void PrefillService::start(wire::Session& session, const wire::Request& request, base::Nanos now) {
    Result<std::unique_ptr<Transfer>> admitted = admit(request);
    if (!admitted.ok()) {
        const Status& status = admitted.status();
        session.abort({request.request, request.generation, status.code(), status.message()}, now);
        options_.log(name_of(request.request) + " refused: " + status.to_string());
        return;
    }
    options_.log(name_of(request.request) + ": " + std::to_string(request.prompt.size()) + " tokens, codec " +
                 request.codec);
    transfers_.push_back(std::move(admitted).value());
}

Result<std::unique_ptr<PrefillService::Transfer>> PrefillService::admit(const wire::Request& request) {
    LYNX_ASSIGN(codec::CodecParams params, parse_params(request.codec_params));
    params.profile = request.profile_hash;
    auto transfer = std::make_unique<Transfer>();
    LYNX_ASSIGN(transfer->codec, make_codec_for(engine_.info(), request.codec, params));
    if (transfer->codec->info().tiers != request.tiers || params.page_tokens != request.page_tokens) {
        return Status{ErrorCode::invalid_argument, "request: tiers or page size do not match codec " + request.codec};
    }
    LYNX_TRY(sampling_of(request).validate());
    transfer->paging = {static_cast<std::uint32_t>(request.prompt.size()), request.page_tokens};
    transfer->payloads.resize(request.tiers);
    transfer->job = std::make_shared<PrefillJob>(request, options_.notify);
    LYNX_TRY(worker_.submit(transfer->job));
    return transfer;
}

void PrefillService::finish(std::uint64_t request, std::uint32_t generation, const std::string& outcome) {
    const auto it = std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& t) {
        return t->job->request().request == request && t->job->request().generation == generation;
    });
    if (it != transfers_.end()) {
        worker_.release((*it)->job);
        transfers_.erase(it);
        options_.log(name_of(request) + ": " + outcome);
    }
}

void PrefillService::abort(wire::Session& session, const Transfer& transfer, const Status& reason, base::Nanos now) {
    const std::uint64_t request = transfer.job->request().request;
    const std::uint32_t generation = transfer.job->request().generation;
    session.abort({request, generation, reason.code(), reason.message()}, now);
    finish(request, generation, reason.to_string());
}

Result<bool> PrefillService::serve(wire::Session& session, Transfer& transfer, base::Nanos now) {
    const wire::Request& request = transfer.job->request();
    const PrefillJob::Snapshot job = transfer.job->snapshot();
    LYNX_TRY(job.failure);
    if (job.tokens_final > transfer.progress_sent) {
        session.progress(
            {request.request, request.generation, job.tokens_final, transfer.paging.tokens, job.prefix_hit}, now);
        transfer.progress_sent = job.tokens_final;
    }
    if (job.first_token && !transfer.first_token_sent) {
        session.first_token({request.request, request.generation, *job.first_token}, now);
        transfer.first_token_sent = true;
    }
    return encode_next(session, transfer, job, now);
}

Result<bool> PrefillService::encode_next(wire::Session& session, Transfer& transfer, const PrefillJob::Snapshot& job,
                                         base::Nanos now) {
    const std::uint32_t page = transfer.next_page;
    if (page == transfer.paging.pages() || session.queued_bytes(wire::Lane::high) >= kEncodeAheadBytes) {
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
    if (session.send_room() < room) {
        return false;
    }
    const codec::PageContext context =
        codec::page_context(engine_.info().geometry, transfer.next_layer, transfer.next_kind, transfer.paging, page);
    LYNX_TRY(transfer.codec->encode(view.slice_tokens(first, count), context, transfer.payloads));
    const wire::Request& request = transfer.job->request();
    for (std::uint8_t tier = 0; tier < request.tiers; ++tier) {
        const kv::PageKey key{request.request,
                              request.generation,
                              static_cast<std::uint16_t>(transfer.next_layer),
                              transfer.next_kind,
                              tier,
                              page,
                              first};
        LYNX_TRY(session.send_page(key, std::make_shared<const base::Bytes>(std::move(transfer.payloads[tier])), now));
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
