#include "speculate/speculation.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "speculate/token_logprobs.h"

namespace lynx::speculate {
namespace {

Status validate(const Options& options) {
    if (options.max_tokens == 0) {
        return {ErrorCode::invalid_argument, "max_tokens: expected >= 1, actual 0"};
    }
    if (!options.stop_strings.empty() && !options.piece) {
        return {ErrorCode::invalid_argument, "stop_strings: expected a way to turn tokens into text, actual none"};
    }
    if (options.stop_strings.size() > kStopStringsMax) {
        return {ErrorCode::limit_exceeded, "stop_strings: expected at most " + std::to_string(kStopStringsMax) +
                                               ", actual " + std::to_string(options.stop_strings.size())};
    }
    for (const std::string& stop : options.stop_strings) {
        if (stop.empty()) {
            return {ErrorCode::invalid_argument, "stop_strings: expected no empty string"};
        }
        if (stop.size() > kStopStringBytesMax) {
            return {ErrorCode::limit_exceeded, "stop_strings: expected at most " + std::to_string(kStopStringBytesMax) +
                                                   " bytes, actual " + std::to_string(stop.size())};
        }
    }
    return options.sampling.validate();
}

Action wait_until(std::optional<Nanos> not_before) {
    Action action;
    action.not_before = not_before;
    return action;
}

/// An action whose first row is `token` at `position`.
Action action_from(ActionKind kind, Token token, std::uint32_t position) {
    Action action;
    action.kind = kind;
    action.rows.push_back({.seq = 0, .token = token, .position = position, .logits = true});
    action.truncate_to = position;
    return action;
}

}  // namespace

Result<Speculation> Speculation::create(Options options, std::uint32_t prompt_tokens, Token token1) {
    if (Status status = validate(options); !status.ok()) {
        return status;
    }
    Speculation s(std::move(options), prompt_tokens);
    s.commit(token1, {});
    s.draft_text_ = s.text_;
    return s;
}

Speculation::Speculation(Options options, std::uint32_t prompt_tokens)
    : options_(std::move(options)),
      prompt_tokens_(prompt_tokens),
      cost_(options_.cost),
      acceptance_(options_.acceptance),
      text_(options_.stop_strings) {}

// --- events ---

void Speculation::on_anchor_ready(base::Nanos /*now*/) { anchor_ready_ = true; }

void Speculation::on_residual_ready(base::Nanos /*now*/) {
    anchor_ready_ = true;
    residual_ready_ = true;
}

void Speculation::on_transfer_estimate(base::Nanos last_page, base::Nanos first_layer) {
    estimate_ = TransferEstimate{.last_page = last_page, .first_layer = first_layer};
}

void Speculation::score_token1(std::span<const float> logits) {
    LYNX_CHECK(options_.top_logprobs.has_value());
    logprobs_.front() = logprobs_of(logits, committed_.front(), *options_.top_logprobs);
}

// --- what to run ---

std::uint32_t Speculation::position(std::size_t output_index) const noexcept {
    return prompt_tokens_ + static_cast<std::uint32_t>(output_index);
}

bool Speculation::may_draft(base::Nanos now) const noexcept {
    if (!anchor_ready_ || draft_ends_output_) {
        return false;
    }
    if (residual_ready_ && !options_.window.fixed) {
        return false;
    }
    WindowInputs in{.drafted = static_cast<std::uint32_t>(drafts_.size()),
                    .acceptance = acceptance_.acceptance(),
                    .gated = options_.gated};
    if (estimate_) {
        in.eta = estimate_->last_page;
    }
    return keep_drafting(options_.window, cost_, in, now);
}

Action Speculation::next(base::Nanos now) const {
    if (finish_reason_ != FinishReason::none) {
        Action action;
        action.kind = ActionKind::finished;
        return action;
    }
    if (decoding_) {
        return decode_action();
    }
    if (options_.draft && may_draft(now)) {
        return draft_action();
    }
    if (residual_ready_) {
        return drafts_.empty() ? decode_action() : verify_action(/*gated=*/false);
    }
    if (!options_.draft || !options_.gated || !anchor_ready_ || !estimate_) {
        return wait_until(std::nullopt);
    }
    const Nanos start = gated_start(cost_, static_cast<std::uint32_t>(drafts_.size()) + 1, *estimate_);
    if (now < start) {
        return wait_until(start);
    }
    // Long past its prediction the transfer has stalled: a pass started now could hold the engine at a gate for any time.
    const bool trusted = now <= std::max(estimate_->last_page, estimate_->first_layer) + cost_.tpot();
    return trusted ? verify_action(/*gated=*/true) : wait_until(std::nullopt);
}

Action Speculation::draft_action() const {
    const Token last = drafts_.empty() ? committed_.back() : drafts_.back().token;
    return action_from(ActionKind::draft, last, position(committed_.size() + drafts_.size() - 1));
}

Action Speculation::verify_action(bool gated) const {
    Action action = action_from(ActionKind::verify, committed_.front(), position(0));
    action.gated = gated;
    for (std::size_t i = 0; i < drafts_.size(); ++i) {
        action.rows.push_back({.seq = 0, .token = drafts_[i].token, .position = position(i + 1), .logits = true});
    }
    return action;
}

Action Speculation::decode_action() const {
    // After a verification pass the engine also holds rejected rows: truncate_to drops them.
    return action_from(ActionKind::decode, committed_.back(), position(committed_.size() - 1));
}

// --- what came of it ---

void Speculation::on_step_done(const Action& action, const Logits& logits, const StepTimes& times) {
    LYNX_CHECK(finish_reason_ == FinishReason::none);
    LYNX_CHECK(!action.rows.empty() && action.truncate_to == action.rows.front().position);
    switch (action.kind) {
        case ActionKind::draft:
            LYNX_CHECK(!decoding_ && action.truncate_to == position(drafts_.size()));
            cost_.on_draft_step(times.computed);
            add_draft(logits(0));
            break;
        case ActionKind::verify:
            LYNX_CHECK(!decoding_ && action.rows.size() == drafts_.size() + 1);
            cost_.on_verify_pass(static_cast<std::uint32_t>(action.rows.size()), times.computed);
            if (times.after_last_gate) {
                cost_.on_gated_tail(times.computed, *times.after_last_gate);
            }
            residual_ready_ = true;  // it passed every gate
            decoding_ = true;
            judge_drafts(logits);
            acceptance_.on_pass(counters_.window, counters_.accepted);
            break;
        case ActionKind::decode:
            LYNX_CHECK(residual_ready_ && action.truncate_to == position(committed_.size() - 1));
            if (!std::exchange(decoding_, true) && options_.draft) {
                acceptance_.on_request_without_pass();
            }
            cost_.on_draft_step(times.computed);
            commit(sample(logits(0), options_.sampling, position(committed_.size()), options_.ratio_seed), logits(0));
            break;
        case ActionKind::wait:
        case ActionKind::finished: LYNX_CHECK(false && "an action without a step"); break;
    }
}

FinishReason Speculation::ends(Token token, std::size_t output_tokens, StopText& text) const {
    if (std::find(options_.end_tokens.begin(), options_.end_tokens.end(), token) != options_.end_tokens.end()) {
        return FinishReason::end_token;
    }
    if (options_.piece && text.append(options_.piece(token))) {
        return FinishReason::stop_string;
    }
    return output_tokens >= options_.max_tokens ? FinishReason::length : FinishReason::none;
}

void Speculation::add_draft(std::span<const float> logits) {
    const std::uint32_t at = position(committed_.size() + drafts_.size());
    Draft draft;
    if (options_.sampling.rule() == Rule::ratio) {
        draft.q = distribution(logits, options_.sampling);
        draft.token = draw(draft.q, ratio_uniform(options_.ratio_seed, at, RatioUse::draft));
    } else {
        draft.token = pick(logits, options_.sampling, at);
    }
    const std::size_t output_tokens = committed_.size() + drafts_.size() + 1;
    draft_ends_output_ = ends(draft.token, output_tokens, draft_text_) != FinishReason::none;
    drafts_.push_back(std::move(draft));
    ++counters_.drafted;
}

void Speculation::judge_drafts(const Logits& logits) {
    const std::vector<Draft> drafts = std::exchange(drafts_, {});
    counters_.window = static_cast<std::uint32_t>(drafts.size());
    for (std::size_t i = 0; i < drafts.size() && finish_reason_ == FinishReason::none; ++i) {
        const std::uint32_t at = position(committed_.size());
        RatioOutcome outcome;
        if (options_.sampling.rule() == Rule::ratio) {
            outcome = ratio_rule_(drafts[i].q, distribution(logits(i), options_.sampling), drafts[i].token,
                                  ratio_uniform(options_.ratio_seed, at, RatioUse::accept),
                                  ratio_uniform(options_.ratio_seed, at, RatioUse::residual));
        } else {
            outcome.token = pick(logits(i), options_.sampling, at);
            outcome.accepted = outcome.token == drafts[i].token;
        }
        commit(outcome.token, logits(i));
        if (!outcome.accepted) {
            return;
        }
        ++counters_.accepted;
    }
    counters_.full_accept = !drafts.empty() && counters_.accepted == drafts.size();
    if (finish_reason_ == FinishReason::none) {
        // Every draft held: the last row's logits give one token more.
        const std::span<const float> last = logits(drafts.size());
        commit(sample(last, options_.sampling, position(committed_.size()), options_.ratio_seed), last);
    }
}

void Speculation::commit(Token token, std::span<const float> logits) {
    committed_.push_back(token);
    if (options_.top_logprobs) {
        logprobs_.push_back(logits.empty() ? CommittedLogprobs{.chosen = {token, 0}, .top = {}}
                                           : logprobs_of(logits, token, *options_.top_logprobs));
    }
    finish_reason_ = ends(token, committed_.size(), text_);
}

// --- output ---

Output Speculation::take_output() {
    Output out;
    out.committed.assign(committed_.begin() + static_cast<std::ptrdiff_t>(committed_taken_), committed_.end());
    committed_taken_ = committed_.size();
    if (!out.committed.empty()) {
        const auto [same, _] = std::mismatch(shown_.begin(), shown_.end(), out.committed.begin(), out.committed.end());
        out.confirmed = static_cast<std::uint32_t>(same - shown_.begin());
        out.retracted = static_cast<std::uint32_t>(shown_.end() - same);
        shown_.clear();
    }
    for (std::size_t i = shown_.size(); i < drafts_.size(); ++i) {
        out.provisional.push_back(drafts_[i].token);
        shown_.push_back(drafts_[i].token);
    }
    return out;
}

std::string Speculation::take_text() {
    const std::size_t end = finish_reason_ == FinishReason::none ? text_.safe_bytes() : text_.text().size();
    const std::size_t begin = std::exchange(text_taken_, end);
    return text_.text().substr(begin, end - begin);
}

std::string Speculation::committed_text() const { return text_.text(); }

const std::vector<Token>& Speculation::committed() const noexcept { return committed_; }
FinishReason Speculation::finish_reason() const noexcept { return finish_reason_; }
const Counters& Speculation::counters() const noexcept { return counters_; }
const CostModel& Speculation::cost() const noexcept { return cost_; }
const AcceptanceModel& Speculation::acceptance() const noexcept { return acceptance_; }

}  // namespace lynx::speculate
