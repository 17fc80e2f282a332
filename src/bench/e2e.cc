// lynxkv bench e2e: reference first (alone on the machine), then every system over the same emulated link.
#include <memory>

#include "base/try.h"
#include "bench/machine.h"
#include "bench/reference.h"
#include "bench/statistics.h"
#include "codec/options.h"
#include "lynx/bench.h"
#include "node/model.h"
#include "plan/latency_model.h"

namespace lynx {

namespace bench {
namespace {

/// What the reference run says about one codec.
struct CodecReference {
    std::string name;
    CodedSize size;
    std::vector<engine::Token> tokens;
    base::Nanos tpot{0};
    double kl = 0;
    bool drafts = false;

    [[nodiscard]] std::uint64_t bytes() const {
        std::uint64_t total = 0;
        for (const std::uint64_t b : size.tier_bytes) {
            total += b;
        }
        return total;
    }
};

template <class Get>
double median_of(const std::vector<GenerateReport>& runs, Get get) {
    std::vector<double> values;
    values.reserve(runs.size());
    for (const GenerateReport& run : runs) {
        values.push_back(get(run));
    }
    return median(std::move(values));
}

class E2e {
public:
    E2e(const E2eConfig& config, std::stop_token stop) : config_(config), stop_(std::move(stop)) {}

    Result<E2eReport> run() {
        LYNX_TRY(check());
        LYNX_TRY(measure_references());
        LYNX_ASSIGN(const double rate, link_rate());
        E2eReport report;
        report.machine = machine_name();
        report.model = model_name_;
        report.prompt_tokens = static_cast<std::uint32_t>(kv_.prompt.size());
        report.tpot_ms = 1e3 * base::to_seconds(tpot_);
        report.int8_tpots = 8 * static_cast<double>(int8_bytes_) / rate / base::to_seconds(tpot_);
        LYNX_ASSIGN(const std::unique_ptr<DecodeNode> decode_node, start_nodes(rate));
        for (const CodecReference& reference : references_) {
            LYNX_ASSIGN(E2eRow row, measure(*decode_node, reference, rate));
            report.rows.push_back(std::move(row));
        }
        return report;
    }

private:
    void progress(const std::string& line) const {
        if (config_.on_progress) {
            config_.on_progress(line);
        }
    }
    [[nodiscard]] Status interrupted() const {
        return stop_.stop_requested() ? Status{ErrorCode::cancelled, "interrupted"} : Status{};
    }

    Status check() const {
        if (config_.systems.empty() || config_.repeats == 0 || config_.tokens < 65) {
            return {ErrorCode::invalid_argument, "bench: at least one system, one repeat and 65 tokens are needed"};
        }
        if (!config_.link_rate_bits_per_s && config_.int8_tpots <= 0) {
            return {ErrorCode::invalid_argument, "bench: the INT8 transfer must take more than 0 TPOT"};
        }
        return {};
    }

    Result<std::unique_ptr<codec::Codec>> make_codec(const std::string& name) const {
        LYNX_ASSIGN(const codec::CodecParams params, codec::to_params(config_.codec));
        return codec::make_codec(name, params);
    }

    Status measure_references() {
        for (const std::string& name : config_.systems) {
            LYNX_TRY(make_codec(name).status());  // a misspelt codec is told before minutes of work
        }
        progress("reference: prefill in this process");
        {
            LYNX_ASSIGN(const std::unique_ptr<engine::Engine> prefill, node::open_engine(config_.model, false));
            model_name_ = prefill->info().name;
            layers_ = static_cast<std::uint32_t>(prefill->info().geometry.layers.size());
            LYNX_ASSIGN(std::vector<engine::Token> prompt, tokenize(*prefill));
            LYNX_ASSIGN(kv_, prefill_prompt(*prefill, prompt));
        }
        LYNX_ASSIGN(const std::unique_ptr<engine::Engine> exact, node::open_engine(config_.model, true));
        Reference reference(*exact, kv_);
        for (const std::string& name : config_.systems) {
            LYNX_TRY(interrupted());
            progress("reference: " + name);
            LYNX_ASSIGN(const std::unique_ptr<codec::Codec> codec, make_codec(name));
            CodecReference entry;
            entry.name = name;
            const std::uint8_t last = codec->info().tiers - 1;
            entry.drafts = last > 0;
            LYNX_ASSIGN(entry.size, reference.load(*codec, last));
            LYNX_ASSIGN(entry.tokens, reference.decode(config_.tokens, speculate::Sampling{}));
            entry.tpot = reference.tpot();
            if (entry.drafts) {
                LYNX_ASSIGN(const auto full, reference.teacher_forced(entry.tokens));
                LYNX_TRY(reference.load(*codec, 0).status());
                LYNX_ASSIGN(const auto anchor, reference.teacher_forced(entry.tokens));
                entry.kl = mean_kl(full, anchor);
            }
            references_.push_back(std::move(entry));
        }
        std::vector<double> tpots;
        for (const CodecReference& r : references_) {
            tpots.push_back(base::to_seconds(r.tpot));
        }
        tpot_ = base::from_seconds(median(std::move(tpots)));
        LYNX_ASSIGN(const std::unique_ptr<codec::Codec> int8, make_codec("int8"));
        LYNX_ASSIGN(const CodedSize size, reference.load(*int8, 0));
        int8_bytes_ = size.tier_bytes[0];
        return {};
    }

    Result<std::vector<engine::Token>> tokenize(const engine::Engine& engine) const {
        LYNX_ASSIGN(std::vector<engine::Token> prompt, engine.tokenize(config_.prompt, false));
        if (config_.prompt_tokens_max > 0 && prompt.size() > config_.prompt_tokens_max) {
            prompt.resize(config_.prompt_tokens_max);
        }
        if (prompt.empty()) {
            return Status{ErrorCode::invalid_argument, "the prompt is empty"};
        }
        if (prompt.size() + config_.tokens > config_.model.context_tokens) {
            return Status{ErrorCode::invalid_argument, "the prompt (" + std::to_string(prompt.size()) +
                                                           " tokens) and " + std::to_string(config_.tokens) +
                                                           " output tokens do not fit the context of " +
                                                           std::to_string(config_.model.context_tokens)};
        }
        return prompt;
    }

    Result<double> link_rate() const {
        if (config_.link_rate_bits_per_s) {
            return *config_.link_rate_bits_per_s;
        }
        return 8 * static_cast<double>(int8_bytes_) / (config_.int8_tpots * base::to_seconds(tpot_));
    }

    Result<std::unique_ptr<DecodeNode>> start_nodes(double rate) {
        progress("starting the prefill node");
        LYNX_ASSIGN(const std::string address,
                    config_.start_prefill(LinkEmulation{.rate_bits_per_s = rate, .delay_s = config_.link_delay_s}));
        DecodeConfig config;
        config.model = config_.model;
        config.prefill = address;
        config.link.delay_s = config_.link_delay_s;
        LYNX_ASSIGN(std::unique_ptr<DecodeNode> decode_node, DecodeNode::create(config));
        progress("prefill once: from here on the KV is ready at time zero");
        GenerateRequest warm = request_for("f16");
        warm.draft = false;
        warm.max_tokens = 2;
        LYNX_TRY(decode_node->generate(warm, {}, stop_).status());
        return decode_node;
    }

    GenerateRequest request_for(const std::string& codec) const {
        GenerateRequest request;
        request.prompt_tokens = kv_.prompt;
        request.max_tokens = config_.tokens;
        request.ignore_end = true;
        request.codec = config_.codec;
        request.codec.name = codec;
        request.window = config_.window;
        return request;
    }

    Result<E2eRow> measure(DecodeNode& decode_node, const CodecReference& reference, double rate) const {
        std::vector<GenerateReport> runs;
        E2eRow row;
        row.tokens_equal_full = true;
        for (std::uint32_t i = 0; i < config_.repeats; ++i) {
            LYNX_TRY(interrupted());
            progress("measuring " + reference.name + ", run " + std::to_string(i + 1) + " of " +
                     std::to_string(config_.repeats));
            LYNX_ASSIGN(GenerateReport run, decode_node.generate(request_for(reference.name), {}, stop_));
            if (!run.prefix_hit) {
                return Status{ErrorCode::invalid_argument,
                              "bench: the prefill node did not have the prompt's KV ready"};
            }
            row.tokens_equal_full = row.tokens_equal_full && run.tokens == reference.tokens;
            runs.push_back(std::move(run));
        }
        fill(row, runs, reference, rate);
        return row;
    }

    void fill(E2eRow& row, const std::vector<GenerateReport>& runs, const CodecReference& reference,
              double rate) const {
        using R = GenerateReport;
        const auto at = [&](std::size_t token) {
            return median_of(runs, [token](const R& r) { return r.committed_s[token]; });
        };
        row.system = reference.drafts ? "lynx" : "monolithic";
        row.codec = reference.name;
        row.link_mbit = rate * 1e-6;
        row.threads = config_.model.threads;
        const auto bits = [&](std::uint64_t bytes) {
            return 8 * static_cast<double>(bytes) / static_cast<double>(reference.size.elements);
        };
        row.bits_anchor = bits(reference.size.tier_bytes[0]);
        row.bits_full = bits(reference.bytes());
        row.token1_from_prefill_s = median_of(runs, [](const R& r) { return r.token1_s; });
        if (runs.front().first_provisional_s) {
            row.ttft_provisional_s =
                median_of(runs, [](const R& r) { return r.first_provisional_s.value_or(r.committed_s[1]); });
        }
        row.ttft_committed_s = at(1);
        row.tt32t_committed_s = at(32);
        row.tt64t_committed_s = at(64);
        row.tpot_ms = 1e3 * median_of(runs, [](const R& r) { return r.tpot_s; });
        row.tokens = runs.front().tokens;
        row.kl_anchor_vs_full = reference.kl;
        double acceptance = 1;  // of a draft whose predecessors were accepted
        if (reference.drafts) {
            row.verify_ms_per_token = 1e3 * median_of(runs, [](const R& r) { return r.verify_per_token_s; });
            row.verify_exposed_ms =
                1e3 * median_of(runs, [](const R& r) { return r.verified_s.value_or(r.last_tier_s) - r.last_tier_s; });
            row.window = median_of(runs, [](const R& r) { return r.window; });
            row.drafted = median_of(runs, [](const R& r) { return r.drafted; });
            row.accepted = median_of(runs, [](const R& r) { return r.accepted; });
            std::uint64_t drafted = 0;
            std::uint64_t accepted = 0;
            std::uint64_t full = 0;
            for (const R& r : runs) {
                drafted += r.drafted;
                accepted += r.accepted;
                full += r.full_accept ? 1 : 0;
            }
            row.acceptance = drafted > 0 ? static_cast<double>(accepted) / static_cast<double>(drafted) : 0;
            row.p_full_accept = static_cast<double>(full) / static_cast<double>(runs.size());
            acceptance = plan::acceptance_of(accepted, runs.size() - full);
        }
        row.model_tt32t_s = model_tt32t_s(row, reference, rate, acceptance);
    }

    [[nodiscard]] double model_tt32t_s(const E2eRow& row, const CodecReference& reference, double rate,
                                       double acceptance) const;

    const E2eConfig& config_;
    std::stop_token stop_;
    PromptKv kv_;
    std::string model_name_;
    std::uint32_t layers_ = 1;
    std::vector<CodecReference> references_;
    base::Nanos tpot_{0};
    std::uint64_t int8_bytes_ = 0;
};

double E2e::model_tt32t_s(const E2eRow& row, const CodecReference& reference, double rate, double acceptance) const {
    plan::LatencyInputs in;
    in.anchor_bytes = static_cast<double>(reference.size.tier_bytes[0]);
    in.residual_bytes = static_cast<double>(reference.bytes()) - in.anchor_bytes;
    in.link_bytes_per_s = rate / 8;
    in.delay_s = 2 * config_.link_delay_s;  // the request travels too
    in.tpot_s = row.tpot_ms * 1e-3;
    in.verify_base_s = in.tpot_s;
    in.verify_row_s = row.verify_ms_per_token * 1e-3;
    in.acceptance = acceptance;
    in.window.fixed = config_.window;
    in.tokens_max = config_.tokens;
    in.draft = reference.drafts;
    in.layers = layers_;
    return plan::predict(in).tt32t_s();
}

}  // namespace
}  // namespace bench

Result<E2eReport> run_e2e(const E2eConfig& config, std::stop_token stop) {
    return bench::E2e(config, std::move(stop)).run();
}

}  // namespace lynx
