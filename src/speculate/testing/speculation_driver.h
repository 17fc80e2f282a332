// Test support: runs a Speculation to its finish on virtual time against a backend, as a node would, and checks what every
// caller may rely on. Not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "speculate/speculation.h"

namespace lynx::speculate {

/// The test's way to what Speculation keeps to itself.
struct SpeculationPeer {
    using RatioRule = RatioOutcome (*)(const Distribution&, const Distribution&, Token, double, double) noexcept;
    static void set_ratio_rule(Speculation& s, RatioRule rule) { s.ratio_rule_ = rule; }
    static std::vector<Token> drafts(const Speculation& s) {
        std::vector<Token> tokens;
        for (const auto& draft : s.drafts_) {
            tokens.push_back(draft.token);
        }
        return tokens;
    }
};

namespace testing {

/// What runs the rows: a model whose prompt KV exists in two qualities.
class Backend {
public:
    virtual ~Backend() = default;
    virtual void truncate(std::uint32_t tokens) = 0;
    /// `better`: on the better KV of the prompt; `gated`: which arrives during the step.
    virtual void run(std::span<const engine::Row> rows, bool better, bool gated) = 0;
    [[nodiscard]] virtual std::span<const float> logits(std::size_t row) const = 0;
};

/// A model given by a function of all output tokens so far. Checks that what the better KV computes rests on no draft row.
class TableBackend final : public Backend {
public:
    using Logits = std::function<std::vector<float>(std::span<const Token> output, bool better)>;

    TableBackend(Logits model, std::uint32_t prompt_tokens) : model_(std::move(model)), prompt_tokens_(prompt_tokens) {}

    void truncate(std::uint32_t tokens) override {
        ASSERT_GE(tokens, prompt_tokens_);
        ASSERT_LE(tokens - prompt_tokens_, output_.size());
        output_.resize(tokens - prompt_tokens_);
        quality_.resize(output_.size());
    }
    void run(std::span<const engine::Row> rows, bool better, bool /*gated*/) override {
        logits_.clear();
        for (const engine::Row& row : rows) {
            ASSERT_EQ(row.position, prompt_tokens_ + output_.size());
            output_.push_back(row.token);
            quality_.push_back(better);
            ASSERT_TRUE(!better || std::find(quality_.begin(), quality_.end(), false) == quality_.end());
            logits_.push_back(model_(output_, better));
        }
    }
    [[nodiscard]] std::span<const float> logits(std::size_t row) const override { return logits_.at(row); }

private:
    Logits model_;
    std::uint32_t prompt_tokens_;
    std::vector<Token> output_;
    std::vector<bool> quality_;
    std::vector<std::vector<float>> logits_;
};

/// Virtual times of everything that is not the request's own doing.
struct Schedule {
    Nanos anchor{0};
    Nanos residual{0};
    std::vector<std::pair<Nanos, TransferEstimate>> estimates{};  ///< ascending by the time they are told
    Nanos step{1000};                                             ///< of one row
    Nanos more_row{300};                                          ///< of each further row of a pass
};

/// Any order of events is possible: residual before anchor, estimates that are wrong, late, past or missing.
inline Schedule random_schedule(base::Rng& rng) {
    Schedule s;
    s.anchor = Nanos(static_cast<int>(rng.below(5000)));
    s.residual = Nanos(static_cast<int>(rng.below(8) == 0 ? rng.below(5000) : rng.below(60000)));
    for (std::uint64_t i = rng.below(4); i > 0; --i) {
        const Nanos last(static_cast<int>(rng.below(60000)));
        const Nanos first(static_cast<int>(rng.below(60000)));
        s.estimates.push_back({Nanos(static_cast<int>(rng.below(40000))),
                               {.last_page = rng.below(2) == 0 ? s.residual : last, .first_layer = first}});
    }
    std::sort(s.estimates.begin(), s.estimates.end(), [](auto& a, auto& b) { return a.first < b.first; });
    s.step = Nanos(1 + static_cast<int>(rng.below(3000)));
    s.more_row = Nanos(static_cast<int>(rng.below(1500)));
    return s;
}

/// Tells events on time, runs every action, calls observe after each; `until` is the virtual time at the finish.
class Driver {
public:
    Driver(Speculation& speculation, Backend& backend, Schedule schedule)
        : speculation_(speculation), backend_(backend), schedule_(std::move(schedule)) {}

    std::function<void(const Action&)> observe;
    [[nodiscard]] Nanos now() const { return now_; }

    void run() {
        constexpr int kIterationsMax = 100000;
        for (int i = 0; i < kIterationsMax; ++i) {
            tell();
            const Action action = speculation_.next(now_);
            if (action.kind == ActionKind::finished) {
                return;
            }
            if (action.kind == ActionKind::wait) {
                const std::optional<Nanos> wake = next_wake(action.not_before);
                ASSERT_TRUE(wake.has_value()) << "waits for ever";
                ASSERT_GT(*wake, now_) << "waits for the past";
                now_ = *wake;
            } else {
                ASSERT_NO_FATAL_FAILURE(step(action));
            }
            if (observe) {
                observe(action);
            }
        }
        FAIL() << "no finish";
    }

private:
    void tell() {
        for (; estimate_ < schedule_.estimates.size() && schedule_.estimates[estimate_].first <= now_; ++estimate_) {
            const TransferEstimate& e = schedule_.estimates[estimate_].second;
            speculation_.on_transfer_estimate(e.last_page, e.first_layer);
        }
        if (now_ >= schedule_.anchor) {
            speculation_.on_anchor_ready(now_);
        }
        if (now_ >= schedule_.residual) {
            speculation_.on_residual_ready(now_);
        }
    }

    [[nodiscard]] std::optional<Nanos> next_wake(std::optional<Nanos> not_before) const {
        std::optional<Nanos> wake = not_before;
        const auto consider = [&](Nanos t) {
            if (t > now_ && (!wake || t < *wake)) {
                wake = t;
            }
        };
        consider(schedule_.anchor);
        consider(schedule_.residual);
        if (estimate_ < schedule_.estimates.size()) {
            consider(schedule_.estimates[estimate_].first);
        }
        return wake;
    }

    void step(const Action& action) {
        const bool better = action.kind != ActionKind::draft;
        ASSERT_FALSE(action.rows.empty());
        ASSERT_EQ(action.truncate_to, action.rows.front().position);
        ASSERT_EQ(action.gated, action.kind == ActionKind::verify && now_ < schedule_.residual);
        if (better && !action.gated) {
            ASSERT_GE(now_, schedule_.residual);
        }
        if (action.gated) {
            now_ = std::max(now_, schedule_.residual);
        }
        ASSERT_NO_FATAL_FAILURE(backend_.truncate(action.truncate_to));
        ASSERT_NO_FATAL_FAILURE(backend_.run(action.rows, better, action.gated));
        const Nanos took = schedule_.step + schedule_.more_row * (action.rows.size() - 1);
        now_ += took;
        if (took.count() % 2 == 0) {
            tell();  // events may arrive before the step's result is told, or after
        }
        speculation_.on_step_done(action, [&](std::size_t row) { return backend_.logits(row); }, {.computed = took});
    }

    Speculation& speculation_;
    Backend& backend_;
    Schedule schedule_;
    Nanos now_{0};
    std::size_t estimate_ = 0;
};

/// What plain decoding on the better KV gives: its own few lines, sharing only sample() with the code under test.
inline std::vector<Token> reference_run(Backend& backend, const Options& options, std::uint32_t prompt_tokens,
                                        Token token1) {
    std::vector<Token> tokens{token1};
    std::string text;
    for (;;) {
        const Token last = tokens.back();
        if (std::count(options.end_tokens.begin(), options.end_tokens.end(), last) > 0) {
            return tokens;
        }
        text += options.piece ? options.piece(last) : "";
        const bool stop = std::any_of(options.stop_strings.begin(), options.stop_strings.end(),
                                      [&](const std::string& s) { return text.find(s) != std::string::npos; });
        if (stop || tokens.size() >= options.max_tokens) {
            return tokens;
        }
        const auto held = static_cast<std::uint32_t>(tokens.size()) - 1;
        const engine::Row row{.seq = 0, .token = last, .position = prompt_tokens + held, .logits = true};
        backend.truncate(row.position);
        backend.run({&row, 1}, /*better=*/true, /*gated=*/false);
        tokens.push_back(sample(backend.logits(0), options.sampling, row.position + 1, options.ratio_seed));
    }
}

}  // namespace testing
}  // namespace lynx::speculate
