#include "node/decode_scheduler.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "base/rng.h"
#include "base/try.h"
#include "codec/options.h"
#include "node/codec_negotiation.h"
#include "node/endpoint.h"
#include "node/model.h"
#include "node/session_options.h"
#include "transport/tcp/tcp.h"

namespace lynx::node {

using speculate::ActionKind;

namespace {

/// A request is sent once: one that failed is not repeated under its id.
constexpr std::uint32_t kGeneration = 1;
/// Longest sleep of the inference thread: stalls are noticed by looking.
constexpr base::Nanos kLookAgain = std::chrono::seconds(1);

}  // namespace

struct DecodeScheduler::Job {
    JobId id = 0;
    GenerateRequest request;
    speculate::Sampling sampling;
    std::vector<engine::Token> prompt;
    std::unique_ptr<codec::Codec> codec;
    Done done;
    std::unique_ptr<RequestObserver> observer;

    // Once it has a sequence.
    engine::SeqId seq = 0;
    std::unique_ptr<DecodeRequest> live;
    bool begun = false;  ///< the peer knows of it
    speculate::Action action;

    [[nodiscard]] kv::Paging paging() const noexcept {
        return {static_cast<std::uint32_t>(prompt.size()), codec->params().page_tokens};
    }
};

Result<std::unique_ptr<DecodeScheduler>> DecodeScheduler::open(const DecodeConfig& config, std::size_t queue_max) {
    std::unique_ptr<DecodeScheduler> scheduler(new DecodeScheduler(config, queue_max));
    LYNX_ASSIGN(scheduler->tcp_options_, tcp_options(config.security));
    LYNX_ASSIGN(scheduler->engine_, open_engine(config.model, true));
    LYNX_TRY(scheduler->connect());
    for (std::uint32_t seq = scheduler->engine_->info().sequences; seq > 0; --seq) {
        scheduler->free_sequences_.push_back(static_cast<engine::SeqId>(seq - 1));
    }
    scheduler->thread_ = std::thread([raw = scheduler.get()] { raw->run(); });
    return scheduler;
}

DecodeScheduler::DecodeScheduler(const DecodeConfig& config, std::size_t queue_max)
    : config_(config), queue_max_(queue_max) {
    std::random_device source;
    seed_ = (std::uint64_t{source()} << 32) | source();
}

DecodeScheduler::~DecodeScheduler() { stop(); }

void DecodeScheduler::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    bell_.ring();
    if (thread_.joinable()) {
        thread_.join();
    }
}

DecodeScheduler::Load DecodeScheduler::load() const {
    const std::lock_guard lock(mutex_);
    return {running_, queue_.size()};
}

Status DecodeScheduler::peer_status() const {
    std::shared_ptr<PeerIo> peer;
    {
        const std::lock_guard lock(mutex_);
        peer = peer_;
    }
    return peer->status();
}

Status DecodeScheduler::connect() {
    connect_again_ = clock_.now() + kLookAgain;
    LYNX_ASSIGN(const Endpoint endpoint, parse_endpoint(config_.prefill));
    LYNX_ASSIGN(std::unique_ptr<transport::Link> link,
                node::connect(endpoint, tcp_options_, config_.link, clock_,
                              clock_.now() + base::from_seconds(config_.connect_timeout_s)));
    wire::SessionOptions options = session_options(engine_->info(), wire::Role::decode, config_.peer_timeout_s);
    options.hello.connection_id = transport::make_connection_id();
    LYNX_ASSIGN(std::shared_ptr<PeerIo> peer, PeerIo::open(std::move(link), std::move(options), clock_));
    const std::lock_guard lock(mutex_);
    peer_.swap(peer);
    return {};
}

Result<std::vector<engine::Token>> DecodeScheduler::tokens_of(const GenerateRequest& request) const {
    std::vector<engine::Token> tokens = request.prompt_tokens;
    if (tokens.empty() && !request.prompt.empty()) {
        std::string text = request.prompt;
        if (request.chat) {
            LYNX_ASSIGN(text, engine_->chat_prompt(std::array{engine::ChatMessage{"user", request.prompt}}));
        }
        LYNX_ASSIGN(tokens, engine_->tokenize(text, request.chat));
    }
    LYNX_TRY(check_context(tokens.size(), request.max_tokens, engine_->info().context_tokens));
    return tokens;
}

Result<std::unique_ptr<DecodeScheduler::Job>> DecodeScheduler::make_job(const GenerateRequest& request) const {
    auto job = std::make_unique<Job>();
    job->request = request;
    LYNX_ASSIGN(job->prompt, tokens_of(request));
    LYNX_ASSIGN(const codec::CodecParams params, codec::to_params(request.codec));
    LYNX_ASSIGN(job->codec, make_codec_for(engine_->info(), request.codec.name, params));
    job->sampling = {request.temperature, request.top_k, request.top_p, request.seed};
    LYNX_TRY(job->sampling.validate());
    if (request.top_logprobs.value_or(0) > kTopLogprobsMax) {
        return Status{ErrorCode::invalid_argument, "top_logprobs: expected at most " + std::to_string(kTopLogprobsMax) +
                                                       ", actual " + std::to_string(*request.top_logprobs)};
    }
    return job;
}

Result<DecodeScheduler::JobId> DecodeScheduler::submit(const GenerateRequest& request, GenerateEvents events,
                                                       Done done) {
    LYNX_ASSIGN(std::unique_ptr<Job> job, make_job(request));
    job->observer = std::make_unique<RequestObserver>(std::move(events), *engine_);
    job->done = std::move(done);
    JobId id = 0;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            return Status{ErrorCode::cancelled, "the decode node is stopping"};
        }
        if (queue_.size() >= queue_max_) {
            return Status{ErrorCode::limit_exceeded,
                          "the queue is full (" + std::to_string(queue_max_) + " requests wait)"};
        }
        id = job->id = ++last_id_;
        queue_.push_back(std::move(job));
    }
    bell_.ring();
    return id;
}

void DecodeScheduler::cancel(JobId id) {
    {
        const std::lock_guard lock(mutex_);
        cancelled_.push_back(id);
    }
    bell_.ring();
}

void DecodeScheduler::run() {
    while (true) {
        const std::uint64_t rings = bell_.rings();
        if (!admit()) {
            break;
        }
        bell_.wait(rings, round());
    }
    const Status stopping(ErrorCode::cancelled, "the decode node is stopping");
    for (const std::unique_ptr<Job>& job : live_) {
        finish(*job, stopping);
    }
    std::deque<std::unique_ptr<Job>> queued;
    {
        const std::lock_guard lock(mutex_);
        queued.swap(queue_);
    }
    for (const std::unique_ptr<Job>& job : queued) {
        job->done(stopping);
    }
}

bool DecodeScheduler::admit() {
    Jobs admitted;
    Jobs dropped;
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            return false;
        }
        for (const JobId id : std::exchange(cancelled_, {})) {
            for (const std::unique_ptr<Job>& job : live_) {
                if (job->id == id) {
                    job->live->fail({ErrorCode::cancelled, "interrupted"});
                }
            }
            const auto queued = std::find_if(queue_.begin(), queue_.end(), [&](const auto& j) { return j->id == id; });
            if (queued != queue_.end()) {
                dropped.push_back(std::move(*queued));
                queue_.erase(queued);
            }
        }
        while (!queue_.empty() && admitted.size() < free_sequences_.size()) {
            admitted.push_back(std::move(queue_.front()));
            queue_.pop_front();
        }
    }
    if (admitted.empty() && live_.empty() && !peer_->status().ok() && clock_.now() >= connect_again_) {
        static_cast<void>(connect());  // peer_status() tells; whoever needs the peer, start() connects
    }
    for (const std::unique_ptr<Job>& job : dropped) {
        job->done(Status{ErrorCode::cancelled, "interrupted"});
    }
    for (std::unique_ptr<Job>& job : admitted) {
        const engine::SeqId seq = free_sequences_.back();
        if (const Status status = start(*job, seq); !status.ok()) {
            job->done(status);
            continue;
        }
        free_sequences_.pop_back();
        live_.push_back(std::move(job));
    }
    const std::lock_guard lock(mutex_);
    running_ = live_.size();
    return true;
}

Status DecodeScheduler::start(Job& job, engine::SeqId seq) {
    if (!peer_->status().ok() && live_.empty()) {
        if (const Status status = connect(); !status.ok()) {  // the last request lost the peer; it may be back
            return {ErrorCode::peer_lost, "the prefill node is gone: " + status.message()};
        }
    }
    const GenerateRequest& request = job.request;
    speculate::Options options;
    options.sampling = job.sampling;
    options.max_tokens = request.max_tokens;
    if (!request.ignore_end) {
        options.end_tokens = engine_->info().end_tokens;
    }
    options.stop_strings = request.stop_strings;
    options.piece = [engine = engine_.get()](engine::Token token) { return engine->piece(token); };
    options.window.fixed = request.window;
    options.top_logprobs = request.top_logprobs;
    options.draft = request.draft && job.codec->info().tiers > 1;  // on complete KV there is nothing to draft for
    options.cost = cost_;
    options.acceptance = acceptance_[job.codec->info().name];
    options.ratio_seed = base::keyed_bits(seed_, job.id, 1);
    job.seq = seq;
    LYNX_ASSIGN(job.live, DecodeRequest::create({.request = job.id,
                                                 .generation = kGeneration,
                                                 .engine = *engine_,
                                                 .seq = seq,
                                                 .clock = clock_,
                                                 .codec = *job.codec,
                                                 .paging = job.paging(),
                                                 .speculation = std::move(options),
                                                 .last_prompt_token = job.prompt.back(),
                                                 .prefill_timeout = base::from_seconds(config_.prefill_timeout_s),
                                                 .stall_timeout = base::from_seconds(config_.stall_timeout_s),
                                                 .on_change = [this] { bell_.ring(); },
                                                 .wait_for_layer = {}}));
    wire::Request message;
    message.request = job.id;
    message.generation = kGeneration;
    message.prompt = job.prompt;
    message.codec = job.codec->info().name;
    message.codec_params = serialize_params(job.codec->params());
    message.profile_hash = job.codec->params().profile;
    message.page_tokens = job.codec->params().page_tokens;
    message.tiers = job.codec->info().tiers;
    message.sampler = {job.sampling.temperature, job.sampling.top_k, job.sampling.top_p, job.sampling.seed};
    LYNX_TRY(peer_->begin(message, *job.live));
    job.begun = true;
    return {};
}

base::Nanos DecodeScheduler::round() {
    base::Nanos longest = kLookAgain;
    std::vector<Job*> parts;
    std::vector<std::pair<Job*, Status>> ended;
    std::size_t rows = 0;
    for (const std::unique_ptr<Job>& job : live_) {
        Result<speculate::Action> action = job->live->next(/*may_gate=*/live_.size() == 1);
        if (!action.ok()) {
            ended.emplace_back(job.get(), action.status());
            continue;
        }
        job->action = std::move(action).value();
        job->observer->on_times(job->live->times(), static_cast<std::uint32_t>(job->prompt.size()));
        if (job->live->speculation() != nullptr && !job->live->score_pending()) {
            job->observer->on_output(*job->live->speculation(), clock_.now());
        }
        job->observer->on_progress(*job->live, job->paging(), clock_.now(), /*last=*/false);
        if (job->action.kind == ActionKind::finished) {
            ended.emplace_back(job.get(), Status{});
        } else if (job->action.kind == ActionKind::wait) {
            if (job->action.not_before) {
                longest = std::min(longest, *job->action.not_before - clock_.now());
            }
        } else if (rows + job->action.rows.size() <= engine_->info().batch_tokens_max) {
            rows += job->action.rows.size();
            parts.push_back(job.get());
        }
    }
    for (const auto& [job, status] : ended) {
        finish(*job, status);
    }
    std::erase_if(live_, [](const std::unique_ptr<Job>& job) { return job->live == nullptr; });
    if (parts.empty()) {
        return ended.empty() ? longest : base::Nanos{0};
    }
    if (const Status status = step_together(parts); !status.ok()) {
        for (Job* job : parts) {
            job->live->fail(status);
        }
    }
    if (live_.size() > 1) {
        std::rotate(live_.begin(), live_.begin() + 1, live_.end());
    }
    return base::Nanos{0};
}

Status DecodeScheduler::step_together(std::vector<Job*>& parts) {
    rows_.clear();
    const base::Nanos start = clock_.now();
    for (Job* job : parts) {
        LYNX_TRY(job->live->prepare(job->action));
        rows_.insert(rows_.end(), job->action.rows.begin(), job->action.rows.end());
    }
    LYNX_TRY(engine_->step(rows_, parts.size() == 1 ? parts.front()->live->gate(parts.front()->action) : nullptr));
    const base::Nanos end = clock_.now();
    std::size_t first = 0;
    for (Job* job : parts) {
        if (const Status status = job->live->complete(job->action, first, start, end); !status.ok()) {
            job->live->fail(status);
        }
        job->observer->on_step(job->action.kind, end - start);
        first += job->action.rows.size();
    }
    return {};
}

void DecodeScheduler::finish(Job& job, const Status& status) {
    job.observer->on_progress(*job.live, job.paging(), clock_.now(), /*last=*/true);
    const bool all_arrived = job.live->times().last_tier.has_value();
    if (job.begun) {
        peer_->end(job.id, kGeneration,
                   status.ok() && !all_arrived ? Status{ErrorCode::cancelled, "the output ended before the transfer"}
                                               : status);
    }
    if (status.ok()) {
        cost_ = job.live->speculation()->cost();
        acceptance_[job.codec->info().name] = job.live->speculation()->acceptance();
        job.done(make_report(*job.live, job.observer->timeline(), *job.codec, engine_->info().geometry, job.paging()));
    } else {
        job.done(status);
    }
    static_cast<void>(engine_->clear(job.seq));
    free_sequences_.push_back(job.seq);
    job.live.reset();
}

}  // namespace lynx::node
