#include "node/decode_request.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/try.h"
#include "wire/frame.h"

namespace lynx::node {

using speculate::ActionKind;

DecodeRequest::DecodeRequest(Setup setup) : setup_(std::move(setup)) {}

Result<std::unique_ptr<DecodeRequest>> DecodeRequest::create(Setup setup) {
    engine::Engine& engine = setup.engine;
    const kv::Geometry& geometry = engine.info().geometry;
    LYNX_TRY(engine.clear(setup.seq));
    LYNX_TRY(engine.reserve(setup.seq, setup.paging.tokens));
    std::vector<LayerViews> views;
    for (std::uint32_t l = 0; l < geometry.layers.size(); ++l) {
        LYNX_ASSIGN(const kv::View key, engine.kv_view(setup.seq, l, kv::Kind::key));
        LYNX_ASSIGN(const kv::View value, engine.kv_view(setup.seq, l, kv::Kind::value));
        views.push_back({key, value});
    }
    std::unique_ptr<DecodeRequest> request(new DecodeRequest(std::move(setup)));
    const Setup& own = request->setup_;
    request->assembly_ = std::make_unique<KvAssembly>(own.codec, geometry, own.paging, std::move(views));
    request->estimate_.emplace(own.codec.info().tiers, request->assembly_->pages_total(), 2 * own.paging.pages());
    request->times_.tiers.resize(own.codec.info().tiers);
    request->times_.start = request->now();
    request->last_arrival_ = request->times_.start;
    request->layers_applied_ = own.codec.info().tiers == 1 ? request->layers() : 0;  // of one tier nothing is staged
    return request;
}

void DecodeRequest::arrived(base::Nanos now) {
    last_arrival_ = now;
    changed_.notify_all();
    if (setup_.on_change) {
        setup_.on_change();
    }
}

void DecodeRequest::on_event(wire::Event event) {
    const auto concerns = [this](std::uint64_t request, std::uint32_t generation) {
        return request == setup_.request && generation == setup_.generation;
    };
    if (auto* page = std::get_if<wire::PageReceived>(&event)) {
        if (concerns(page->key.request, page->key.generation)) {
            on_page(std::move(*page));
        }
    } else if (const auto* progress = std::get_if<wire::Progress>(&event)) {
        if (concerns(progress->request, progress->generation)) {
            on_progress(*progress);
        }
    } else if (const auto* first = std::get_if<wire::FirstToken>(&event)) {
        if (concerns(first->request, first->generation)) {
            on_first_token(first->token);
        }
    } else if (const auto* abort = std::get_if<wire::Abort>(&event)) {
        if (concerns(abort->request, abort->generation)) {
            fail(Status{abort->code, abort->message}.with_context("the prefill node ended the request"));
        }
    }
}

void DecodeRequest::on_progress(const wire::Progress& progress) {
    const base::Nanos t = now();
    const std::lock_guard lock(mutex_);
    times_.prefill_done = progress.tokens_done;
    times_.prefix_hit = progress.prefix_hit;
    if (progress.tokens_done == setup_.paging.tokens && !times_.prefilled) {
        times_.prefilled = t;
    }
    arrived(t);
}

void DecodeRequest::on_first_token(engine::Token token) {
    const base::Nanos t = now();
    const std::lock_guard lock(mutex_);
    if (token < 0 || static_cast<std::uint32_t>(token) >= setup_.engine.info().vocabulary) {
        fail_locked(
            {ErrorCode::corrupt, "token 1 from the prefill node is outside the vocabulary: " + std::to_string(token)});
    } else if (!token1_) {
        token1_ = token;
        times_.token1 = t;
    }
    arrived(t);
}

void DecodeRequest::on_page(wire::PageReceived page) {
    const std::size_t bytes = page.payload.size() + wire::kHeaderBytes;
    const base::Nanos received = now();
    // Outside the lock: decoding is the expensive part, and only this thread touches the assembly's receive side.
    const Status decoded = assembly_->accept(page.key, std::move(page.payload));
    const std::lock_guard lock(mutex_);
    if (!decoded.ok()) {
        fail_locked(decoded);
        return;
    }
    RequestTimes::Tier& tier = times_.tiers[page.key.tier];
    tier.bytes += bytes;
    tier.first = tier.first.value_or(received);
    if (assembly_->pages_arrived(page.key.tier) == assembly_->pages_total()) {
        tier.last = received;
    }
    estimate_->on_page(page.key.tier, bytes, received);
    if (assembly_->anchor_complete() && !anchor_complete_) {
        anchor_complete_ = true;
        times_.anchor_complete = now();
    }
    if (assembly_->full_complete() && !full_complete_) {
        full_complete_ = true;
        times_.last_tier = received;
    }
    arrived(received);
}

void DecodeRequest::fail(Status status) {
    const std::lock_guard lock(mutex_);
    fail_locked(std::move(status));
}

void DecodeRequest::fail_locked(Status status) {
    if (status_.ok()) {
        status_ = std::move(status);
    }
    arrived(now());
}

Status DecodeRequest::status() const {
    const std::lock_guard lock(mutex_);
    return status_;
}

RequestTimes DecodeRequest::times() const {
    const std::lock_guard lock(mutex_);
    return times_;
}

Status DecodeRequest::check_alive(base::Nanos now) const {
    LYNX_TRY(status_);
    if (full_complete_ && token1_) {
        return {};
    }
    const base::Nanos limit = times_.prefilled ? setup_.stall_timeout : setup_.prefill_timeout;
    if (now - last_arrival_ > limit) {
        return {ErrorCode::timeout, std::string(times_.prefilled ? "the transfer" : "the prefill") +
                                        " stalled: nothing arrived for " + std::to_string(base::to_seconds(limit)) +
                                        " s"};
    }
    return {};
}

Result<speculate::Action> DecodeRequest::next(bool may_gate) {
    const base::Nanos t = now();
    bool anchor = false;
    bool full = false;
    std::optional<speculate::TransferEstimate> eta;
    std::optional<engine::Token> token1;
    {
        const std::lock_guard lock(mutex_);
        LYNX_TRY(check_alive(t));
        anchor = anchor_complete_;
        full = full_complete_;
        token1 = token1_;
        eta = estimate_->eta();
    }
    if (!speculation_) {
        if (!token1) {
            return speculate::Action{};
        }
        LYNX_ASSIGN(speculation_, speculate::Speculation::create(setup_.speculation, setup_.paging.tokens, *token1));
    }
    if (anchor && !told_anchor_) {
        told_anchor_ = true;
        speculation_->on_anchor_ready(t);
    }
    if (full && !told_full_) {
        told_full_ = true;
        speculation_->on_residual_ready(t);
    }
    if (!full && eta) {
        speculation_->on_transfer_estimate(eta->last_page, eta->first_layer);
    }
    if (score_pending()) {
        return full ? score_action() : speculate::Action{};
    }
    speculation_->allow_gating(may_gate);
    speculate::Action action = speculation_->next(t);
    for (engine::Row& row : action.rows) {
        row.seq = setup_.seq;
    }
    return action;
}

std::uint32_t DecodeRequest::layers() const noexcept {
    return static_cast<std::uint32_t>(setup_.engine.info().geometry.layers.size());
}

void DecodeRequest::apply_staged_layers() {
    while (layers_applied_ < layers() && assembly_->layer_staged(layers_applied_)) {
        assembly_->apply_layer(layers_applied_++);
    }
}

speculate::Action DecodeRequest::score_action() const {
    const std::uint32_t position = setup_.paging.tokens - 1;
    speculate::Action action;
    action.kind = ActionKind::decode;
    action.rows = {{.seq = setup_.seq, .token = setup_.last_prompt_token, .position = position, .logits = true}};
    action.truncate_to = position;
    return action;
}

Status DecodeRequest::prepare(const speculate::Action& action) {
    // Before a draft too: the later drafts then attend to the full KV of the layers that are there, and hold more often.
    apply_staged_layers();
    // Nothing is committed from partial KV.
    LYNX_CHECK(action.kind == ActionKind::draft || action.gated || layers_applied_ == layers());
    if (score_pending()) {
        LYNX_ASSIGN(last_prompt_row_, KvRow::read(setup_.engine, setup_.seq, action.truncate_to));
    }
    LYNX_TRY(setup_.engine.truncate(setup_.seq, action.truncate_to));
    const std::lock_guard lock(mutex_);
    waited_before_ = times_.verify_waited;
    if (action.kind == ActionKind::verify) {
        times_.verify_start = now();
    }
    return {};
}

Status DecodeRequest::complete(const speculate::Action& action, std::size_t first_row, base::Nanos start,
                               base::Nanos end) {
    LYNX_CHECK(action.kind == ActionKind::draft || layers_applied_ == layers());
    speculate::StepTimes times;
    {
        const std::lock_guard lock(mutex_);
        times.computed = end - start - (times_.verify_waited - waited_before_);
        if (action.kind == ActionKind::verify) {
            times_.verified = end;
        }
        // A page may have failed to decode while the step ran: then its result must not be used.
        LYNX_TRY(status_);
    }
    if (last_prompt_row_) {
        speculation_->score_token1(setup_.engine.logits(first_row));
        LYNX_TRY(last_prompt_row_->write(setup_.engine, setup_.seq));
        last_prompt_row_.reset();
        scored_ = true;
        return {};
    }
    if (action.gated) {
        times.after_last_gate = end - last_gate_;
    }
    const auto logits = [&](std::size_t row) { return setup_.engine.logits(first_row + row); };
    speculation_->on_step_done(action, logits, times);
    return {};
}

Status DecodeRequest::wait(std::uint32_t layer) {
    last_gate_ = now();
    if (layer < layers_applied_) {
        return {};
    }
    const base::Nanos start = last_gate_;
    if (!assembly_->layer_staged(layer)) {
        if (setup_.wait_for_layer) {
            LYNX_TRY(setup_.wait_for_layer(*this, layer));
        } else {
            std::unique_lock lock(mutex_);
            while (!assembly_->layer_staged(layer)) {
                LYNX_TRY(check_alive(now()));
                changed_.wait_for(lock, std::chrono::milliseconds(100));
            }
        }
    }
    last_gate_ = now();
    LYNX_CHECK(layer == layers_applied_);
    assembly_->apply_layer(layer);
    ++layers_applied_;
    const std::lock_guard lock(mutex_);
    times_.verify_waited += last_gate_ - start;
    return {};
}

}  // namespace lynx::node
