// lynxkv bench accept: what each tier of each codec is worth in the model's own tokens, against decoding on the original KV.
#include <algorithm>
#include <memory>

#include "base/try.h"
#include "bench/distribution.h"
#include "bench/prompt_kv.h"
#include "bench/statistics.h"
#include "codec/options.h"
#include "node/codec_negotiation.h"
#include "node/model.h"

namespace lynx {

namespace bench {
namespace {

using Tokens = std::vector<engine::Token>;
using Logits = std::vector<std::vector<float>>;  // [row][vocabulary]

engine::Token greedy(std::span<const float> logits) { return speculate::pick(logits, speculate::Sampling{}, 0); }

using Distributions = std::vector<Distribution>;

Distributions distributions(Logits logits) {
    Distributions all;
    all.reserve(logits.size());
    for (std::vector<float>& row : logits) {
        all.emplace_back(std::move(row));
    }
    return all;
}

/// What decoding on some KV says at a place: distributions over the text that follows, and its own greedy continuation.
struct Truth {
    Distributions text;  ///< [tokens]
    Tokens greedy;       ///< token 1, then `tokens` more
};

/// One place's figures, one value per place and figure.
struct Samples {
    std::vector<double> kl, top1, expected_accept, accepted_prefix;

    /// `text`: the tier's distributions over the text; `forced`: its logits over the truth's greedy tokens.
    void add(const Truth& truth, const Distributions& text, const Logits& forced) {
        double divergence = 0;
        double same = 0;
        double overlap = 0;
        for (std::size_t row = 0; row < text.size(); ++row) {
            const Distribution& p = truth.text[row];
            divergence += p.kl(text[row]);
            same += greedy(p.logits()) == greedy(text[row].logits()) ? 1 : 0;
            overlap += p.overlap(text[row]);
        }
        const auto rows = static_cast<double>(text.size());
        kl.push_back(divergence / rows);
        top1.push_back(same / rows);
        expected_accept.push_back(overlap / rows);
        std::size_t held = 0;
        while (held < forced.size() && greedy(forced[held]) == truth.greedy[held + 1]) {
            ++held;
        }
        accepted_prefix.push_back(static_cast<double>(held));
    }

    [[nodiscard]] AcceptFigures figures(std::uint32_t tokens) const {
        const auto all_hold = [&](std::uint32_t n) -> std::optional<PlaceMean> {
            if (n > tokens) {
                return std::nullopt;
            }
            std::vector<double> held;
            for (const double prefix : accepted_prefix) {
                held.push_back(prefix >= n ? 1 : 0);
            }
            return mean_of(held);
        };
        return {mean_of(kl),  mean_of(top1), mean_of(expected_accept), mean_of(accepted_prefix),
                all_hold(10), all_hold(20)};
    }
};

struct TierSamples {
    std::uint64_t bytes = 0;
    std::uint64_t elements = 0;
    Samples original;
    Samples full;
};

/// A place: the KV of a prefix of a text, and the tokens that follow it there.
struct Place {
    PromptKv kv;
    Tokens text;  ///< `tokens` + 1
};

class Accept {
public:
    Accept(const AcceptConfig& config, std::stop_token stop) : config_(config), stop_(std::move(stop)) {}

    Result<AcceptReport> run() {
        LYNX_TRY(plan());
        LYNX_TRY(prefill());
        LYNX_ASSIGN(engine_, node::open_engine(config_.model, true));
        for (const auto& codec : codecs_) {  // a profile must be of this model
            LYNX_TRY(node::make_codec_for(engine_->info(), codec->info().name, codec->params()).status());
        }
        for (std::size_t i = 0; i < texts_.size(); ++i) {
            for (const std::uint32_t prefix : prefixes(texts_[i])) {
                progress(config_.texts[i].name + ": place at token " + std::to_string(prefix));
                report_.prefix_tokens.push_back(prefix);
                LYNX_TRY(measure(place_at(texts_[i], prefix)));
            }
        }
        fill_rows();
        return std::move(report_);
    }

private:
    void progress(const std::string& line) const {
        if (config_.on_progress) {
            config_.on_progress(line);
        }
    }

    Status plan() {
        if (config_.codecs.empty() || config_.texts.empty() || config_.places == 0 || config_.tokens == 0) {
            return {ErrorCode::invalid_argument, "bench accept: at least one codec, text, place and token are needed"};
        }
        for (const CodecOptions& options : config_.codecs) {
            LYNX_ASSIGN(const codec::CodecParams params, codec::to_params(options));
            LYNX_ASSIGN(auto codec, codec::make_codec(options.name, params));
            tiers_.emplace_back(codec->info().tiers);
            codecs_.push_back(std::move(codec));
        }
        return {};
    }

    Status prefill() {
        LYNX_ASSIGN(const std::unique_ptr<engine::Engine> engine, node::open_engine(config_.model, false));
        report_.model = engine->info().name;
        report_.tokens = config_.tokens;
        // Token 1 and the drafts follow the prefix in the cache, and as many tokens of the text, plus one, in the text.
        const std::uint32_t context = config_.model.context_tokens;
        const std::uint32_t behind = config_.tokens + 1;
        const std::uint32_t longest = std::max(context, behind) - behind;
        const std::uint32_t prefix_max =
            config_.prompt_tokens_max == 0 ? longest : std::min(longest, config_.prompt_tokens_max);
        for (const NamedText& text : config_.texts) {
            report_.texts.push_back(text.name);
            Result<Tokens> tokens = tokenize_text(*engine, text.text, prefix_max + behind);
            if (!tokens.ok()) {
                return tokens.status().with_context(text.name);
            }
            const std::uint32_t needed = behind + config_.places;
            if (tokens.value().size() < needed) {
                return {ErrorCode::invalid_argument,
                        text.name + ": " + std::to_string(config_.places) + " places with " +
                            std::to_string(config_.tokens) + " tokens after each: expected at least " +
                            std::to_string(needed) + " tokens (context " + std::to_string(context) + "), actual " +
                            std::to_string(tokens.value().size())};
            }
            progress(text.name + ": prefill of " + std::to_string(tokens.value().size()) + " tokens");
            LYNX_ASSIGN(PromptKv kv, prefill_prompt(*engine, tokens.value()));
            texts_.push_back(std::move(kv));
        }
        return {};
    }

    [[nodiscard]] std::vector<std::uint32_t> prefixes(const PromptKv& text) const {
        const std::uint64_t longest = text.prompt.size() - config_.tokens - 1;
        std::vector<std::uint32_t> all;
        for (std::uint64_t i = 1; i <= config_.places; ++i) {
            all.push_back(static_cast<std::uint32_t>(longest * i / config_.places));
        }
        return all;
    }

    [[nodiscard]] Place place_at(const PromptKv& text, std::uint32_t prefix) const {
        const auto next = text.prompt.begin() + prefix;
        return {prefix_of(text, prefix), Tokens(next, next + config_.tokens + 1)};
    }

    Status measure(Place place) {
        LYNX_ASSIGN(place.kv.logits, last_logits(place.kv));
        Reference reference(*engine_, place.kv);
        LYNX_TRY(load_original(*engine_, place.kv));
        LYNX_ASSIGN(const Truth original, truth(reference, place));
        for (std::size_t i = 0; i < codecs_.size(); ++i) {
            LYNX_TRY(measure_codec(*codecs_[i], tiers_[i], place, reference, original));
        }
        return {};
    }

    /// Logits after the prefix's last token, by the exact engine on the original KV before it.
    Result<std::vector<float>> last_logits(const PromptKv& kv) {
        const auto last = static_cast<std::uint32_t>(kv.prompt.size() - 1);
        LYNX_TRY(load_original(*engine_, kv));
        LYNX_TRY(engine_->truncate(0, last));
        const engine::Row row{0, kv.prompt.back(), last, true};
        LYNX_TRY(engine_->step({&row, 1}, nullptr));
        const std::span<const float> logits = engine_->logits(0);
        return std::vector<float>(logits.begin(), logits.end());
    }

    /// On the KV that is loaded.
    Result<Truth> truth(Reference& reference, const Place& place) {
        Truth t;
        LYNX_ASSIGN(t.greedy, reference.decode(config_.tokens + 1, speculate::Sampling{}));
        LYNX_ASSIGN(Logits text, reference.teacher_forced(place.text));
        t.text = distributions(std::move(text));
        return t;
    }

    Status measure_codec(const codec::Codec& codec, std::vector<TierSamples>& tiers, const Place& place,
                         Reference& reference, const Truth& original) {
        LYNX_ASSIGN(const CodedKv coded, CodedKv::encode(codec, place.kv, engine_->info().geometry));
        Truth full;
        for (std::size_t tier = tiers.size(); tier-- > 0;) {
            if (stop_.stop_requested()) {
                return {ErrorCode::cancelled, "interrupted"};
            }
            TierSamples& samples = tiers[tier];
            LYNX_TRY(coded.load(*engine_, static_cast<std::uint8_t>(tier)));
            for (std::size_t t = 0; t <= tier; ++t) {
                samples.bytes += coded.size().tier_bytes[t];
            }
            samples.elements += coded.size().elements;
            LYNX_ASSIGN(Logits text_logits, reference.teacher_forced(place.text));
            Distributions text = distributions(std::move(text_logits));
            LYNX_ASSIGN(const Logits forced, reference.teacher_forced(original.greedy));
            samples.original.add(original, text, forced);
            if (!config_.against_full) {
                continue;
            }
            if (tier + 1 < tiers.size()) {
                LYNX_ASSIGN(const Logits forced_full, reference.teacher_forced(full.greedy));
                samples.full.add(full, text, forced_full);
            } else if (tier > 0) {
                full.text = std::move(text);
                LYNX_ASSIGN(full.greedy, reference.decode(config_.tokens + 1, speculate::Sampling{}));
            }
        }
        return {};
    }

    void fill_rows() {
        for (std::size_t i = 0; i < codecs_.size(); ++i) {
            for (std::size_t tier = 0; tier < tiers_[i].size(); ++tier) {
                const TierSamples& samples = tiers_[i][tier];
                const bool last = tier + 1 == tiers_[i].size();
                const std::uint8_t full = codec::full_tier(codecs_[i]->info());
                AcceptRow row;
                row.codec = config_.codecs[i];
                row.tier = tier > full    ? "exact"
                           : tier == full ? "full"
                           : tier == 0    ? "anchor"
                                          : std::string("tier") + std::to_string(tier);
                row.bits = 8 * static_cast<double>(samples.bytes) / static_cast<double>(samples.elements);
                row.original = samples.original.figures(config_.tokens);
                if (!last && config_.against_full) {
                    row.full = samples.full.figures(config_.tokens);
                }
                report_.rows.push_back(std::move(row));
            }
        }
    }

    const AcceptConfig& config_;
    std::stop_token stop_;
    std::vector<std::unique_ptr<codec::Codec>> codecs_;
    std::vector<std::vector<TierSamples>> tiers_;  ///< [codec][tier]
    std::vector<PromptKv> texts_;
    std::unique_ptr<engine::Engine> engine_;
    AcceptReport report_;
};

}  // namespace
}  // namespace bench

Result<AcceptReport> run_accept(const AcceptConfig& config, std::stop_token stop) {
    return bench::Accept(config, std::move(stop)).run();
}

}  // namespace lynx
