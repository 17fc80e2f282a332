// The decode node: joins a model, a connection and a request into generate().
#include <algorithm>
#include <random>
#include <utility>

#include "base/rng.h"
#include "base/try.h"
#include "codec/options.h"
#include "engine/engine.h"
#include "lynx/node.h"
#include "node/codec_negotiation.h"
#include "node/decode_request.h"
#include "node/endpoint.h"
#include "node/model.h"
#include "node/peer_io.h"
#include "node/report.h"
#include "node/session_options.h"
#include "transport/tcp/tcp.h"

namespace lynx {

namespace node {
namespace {

/// Shows a request's progress and output to the caller and keeps the times the report needs.
class Observer {
public:
    Observer(const GenerateEvents& events, const engine::Engine& engine) : events_(events), engine_(engine) {}

    void on_times(const RequestTimes& times, std::uint32_t prompt_tokens) {
        if (events_.on_prefill && times.prefill_done > prefill_seen_) {
            prefill_seen_ = times.prefill_done;
            events_.on_prefill(times.prefill_done, prompt_tokens, times.prefix_hit);
        }
    }

    void on_step(const speculate::Action& action, base::Nanos took) {
        if (action.kind == speculate::ActionKind::decode) {
            timeline_.decode_time += took;
            ++timeline_.decode_steps;
        } else if (action.kind == speculate::ActionKind::draft) {
            timeline_.draft_time += took;
            ++timeline_.draft_steps;
        }
    }

    void on_output(speculate::Speculation& speculation, base::Nanos now) {
        const speculate::Output output = speculation.take_output();
        timeline_.committed_at.insert(timeline_.committed_at.end(), output.committed.size(), now);
        if (!output.provisional.empty() && !timeline_.first_provisional) {
            timeline_.first_provisional = now;
        }
        provisional_.erase(provisional_.begin(), provisional_.begin() + output.confirmed);
        provisional_.resize(provisional_.size() - output.retracted);
        provisional_.insert(provisional_.end(), output.provisional.begin(), output.provisional.end());
        if (!events_.on_text || (output.committed.empty() && output.provisional.empty() && output.retracted == 0)) {
            return;
        }
        const std::string committed = speculation.take_text();
        std::string provisional;
        for (const engine::Token token : provisional_) {
            provisional += engine_.piece(token);
        }
        events_.on_text({committed, provisional, output.retracted});
    }

    [[nodiscard]] const StepTimeline& timeline() const noexcept { return timeline_; }

private:
    const GenerateEvents& events_;
    const engine::Engine& engine_;
    std::uint32_t prefill_seen_ = 0;
    std::vector<engine::Token> provisional_;
    StepTimeline timeline_;
};

class DecodeNodeImpl final : public DecodeNode {
public:
    static Result<std::unique_ptr<DecodeNode>> open(const DecodeConfig& config) {
        std::unique_ptr<DecodeNodeImpl> decode_node(new DecodeNodeImpl(config));
        LYNX_ASSIGN(decode_node->engine_, open_engine(config.model, true));
        LYNX_TRY(decode_node->connect());
        return std::unique_ptr<DecodeNode>(std::move(decode_node));
    }

    Result<GenerateReport> generate(const GenerateRequest& request, const GenerateEvents& events,
                                    std::stop_token stop) override {
        LYNX_ASSIGN(const std::vector<engine::Token> prompt, tokens_of(request));
        LYNX_ASSIGN(const codec::CodecParams params, codec::to_params(request.codec));
        LYNX_ASSIGN(const std::unique_ptr<codec::Codec> codec, make_codec_for(engine_->info(), request.codec.name, params));
        const kv::Paging paging{static_cast<std::uint32_t>(prompt.size()), params.page_tokens};
        LYNX_ASSIGN(speculate::Options speculation, speculation_options(request));
        speculation.draft = request.draft && codec->info().tiers > 1;  // on complete KV there is nothing to draft for
        LYNX_TRY(speculation.sampling.validate());
        if (!peer_->status().ok()) {
            LYNX_TRY(connect());  // the last request lost the peer; it may be back
        }
        LYNX_ASSIGN(const std::unique_ptr<DecodeRequest> live,
                    DecodeRequest::create({.request = ++requests_,
                                           .generation = 1,
                                           .engine = *engine_,
                                           .seq = 0,
                                           .clock = clock_,
                                           .codec = *codec,
                                           .paging = paging,
                                           .speculation = std::move(speculation),
                                           .stall_timeout = base::from_seconds(config_.stall_timeout_s),
                                           .wait_for_layer = {}}));
        LYNX_TRY(peer_->begin(wire_request(request, prompt, *codec), *live));
        const std::stop_callback cancel(stop, [&] { live->fail({ErrorCode::cancelled, "interrupted"}); });
        Observer observer(events, *engine_);
        const Status status = drive(*live, observer, paging.tokens);
        const bool all_arrived = live->times().last_tier.has_value();
        peer_->end(status.ok() && !all_arrived ? Status{ErrorCode::cancelled, "the output ended before the transfer"}
                                               : status);
        LYNX_TRY(status);
        cost_ = live->speculation()->cost();
        return make_report(*live, observer.timeline(), *codec, engine_->info().geometry, paging);
    }

private:
    explicit DecodeNodeImpl(const DecodeConfig& config) : config_(config) {
        std::random_device source;
        seed_ = (std::uint64_t{source()} << 32) | source();
    }

    Status connect() {
        peer_.reset();
        LYNX_ASSIGN(const Endpoint endpoint, parse_endpoint(config_.prefill));
        LYNX_ASSIGN(std::unique_ptr<transport::Link> link,
                    node::connect(endpoint, config_.link, clock_,
                                  clock_.now() + base::from_seconds(config_.connect_timeout_s)));
        wire::SessionOptions options = session_options(engine_->info(), wire::Role::decode, config_.peer_timeout_s);
        options.hello.connection_id = transport::make_connection_id();
        LYNX_ASSIGN(peer_, PeerIo::open(std::move(link), std::move(options), clock_));
        return {};
    }

    Result<std::vector<engine::Token>> tokens_of(const GenerateRequest& request) const {
        std::vector<engine::Token> tokens = request.prompt_tokens;
        if (tokens.empty() && !request.prompt.empty()) {
            std::string text = request.prompt;
            if (request.chat) {
                LYNX_ASSIGN(text, engine_->chat_prompt(request.prompt));
            }
            LYNX_ASSIGN(tokens, engine_->tokenize(text, request.chat));
        }
        if (tokens.empty()) {
            return Status{ErrorCode::invalid_argument, "the prompt is empty"};
        }
        if (request.max_tokens == 0) {
            return Status{ErrorCode::invalid_argument, "max tokens must be at least 1"};
        }
        const std::uint64_t needed = tokens.size() + std::uint64_t{request.max_tokens};
        if (needed > engine_->info().context_tokens) {
            return Status{ErrorCode::invalid_argument, "the prompt (" + std::to_string(tokens.size()) +
                                                           " tokens) and " + std::to_string(request.max_tokens) +
                                                           " output tokens do not fit the context of " +
                                                           std::to_string(engine_->info().context_tokens) + " tokens"};
        }
        return tokens;
    }

    Result<speculate::Options> speculation_options(const GenerateRequest& request) {
        speculate::Options options;
        options.sampling = {request.temperature, request.top_k, request.top_p, request.seed};
        options.max_tokens = request.max_tokens;
        if (!request.ignore_end) {
            options.end_tokens = engine_->info().end_tokens;
        }
        options.stop_strings = request.stop_strings;
        options.piece = [engine = engine_.get()](engine::Token token) { return engine->piece(token); };
        options.window.fixed = request.window;
        options.cost = cost_;
        options.ratio_seed = base::keyed_bits(seed_, requests_, 1);
        return options;
    }

    wire::Request wire_request(const GenerateRequest& request, const std::vector<engine::Token>& prompt,
                               const codec::Codec& codec) {
        wire::Request message;
        message.request = requests_;
        message.generation = 1;
        message.prompt = prompt;
        message.codec = codec.info().name;
        message.codec_params = serialize_params(codec.params());
        message.profile_hash = codec.params().profile;
        message.page_tokens = codec.params().page_tokens;
        message.tiers = codec.info().tiers;
        message.sampler = {request.temperature, request.top_k, request.top_p, request.seed};
        return message;
    }

    /// Until the output is complete.
    Status drive(DecodeRequest& live, Observer& observer, std::uint32_t prompt_tokens) {
        while (true) {
            LYNX_ASSIGN(const speculate::Action action, live.next());
            observer.on_times(live.times(), prompt_tokens);
            if (live.speculation() != nullptr) {
                observer.on_output(*live.speculation(), clock_.now());
            }
            if (action.kind == speculate::ActionKind::finished) {
                return {};
            }
            if (action.kind == speculate::ActionKind::wait) {
                live.wait(action.not_before);
                continue;
            }
            const base::Nanos start = clock_.now();
            LYNX_TRY(live.run(action));
            observer.on_step(action, clock_.now() - start);
        }
    }

    DecodeConfig config_;
    base::SteadyClock clock_;
    std::unique_ptr<engine::Engine> engine_;
    std::unique_ptr<PeerIo> peer_;
    speculate::CostModel cost_;
    std::uint64_t seed_ = 0;
    std::uint64_t requests_ = 0;
};

}  // namespace
}  // namespace node

Result<std::unique_ptr<DecodeNode>> DecodeNode::create(const DecodeConfig& config) {
    return node::DecodeNodeImpl::open(config);
}

}  // namespace lynx
