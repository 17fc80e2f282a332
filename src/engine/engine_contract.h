// The suite every engine passes, parameterised by a way to make engines. Include it in one test file and instantiate
// EngineContract.
//
// One prompt is prefilled once per engine kind (it is the slow part); most tests then import its KV into a sequence.
// Engines are cached, and each test starts from empty sequences. All comparisons of logits and KV are bitwise:
// engines under test are in exact mode.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace lynx::engine {

struct ContractCase {
    std::string name;
    /// A new engine with kSequences sequences, kContextTokens of context and kBatchTokens per step, exact; always the
    /// same weights.
    std::function<Result<std::unique_ptr<Engine>>()> make;
};
inline void PrintTo(const ContractCase& c, std::ostream* out) { *out << c.name; }

class EngineContract : public testing::TestWithParam<ContractCase> {
public:
    static constexpr std::uint32_t kSequences = 3;
    static constexpr std::uint32_t kContextTokens = 1024;
    static constexpr std::uint32_t kBatchTokens = 128;

protected:
    static constexpr std::uint32_t kPromptTokens = 721;
    static constexpr std::uint32_t kSteps = 20;

    using Matrix = std::vector<std::uint16_t>;  // [tokens, channels] of one layer and kind
    using Kv = std::vector<Matrix>;             // [layer * 2 + kind]
    using Logits = std::vector<float>;

    /// What one engine said about one prompt: its KV, the greedy continuation, and the logits of every single step on
    /// the way.
    struct Rig {
        std::unique_ptr<Engine> source;  // holds the prompt, computed by itself, in sequence 0 when made
        std::unique_ptr<Engine> target;  // has only seen imports
        std::vector<Token> prompt;
        Kv kv_early;             // read as each step of the prefill returned
        Kv kv;                   // read after the whole prefill
        std::vector<Row> steps;  // sequence 0; the first is the prompt's last token
        std::vector<Logits> logits;
    };

    void SetUp() override {
        std::unique_ptr<Rig>& cached = rigs()[GetParam().name];
        if (cached == nullptr) {
            ASSERT_NO_FATAL_FAILURE(cached = make_rig());
        }
        rig_ = cached.get();
        ASSERT_NE(rig_, nullptr);
        for (Engine* e : {rig_->source.get(), rig_->target.get()}) {
            for (SeqId s = 0; s < SeqId{kSequences}; ++s) {
                ASSERT_TRUE(e->clear(s).ok());
            }
        }
    }

    static std::vector<Row> prompt_rows(SeqId seq, std::span<const Token> tokens, std::uint32_t first,
                                        std::uint32_t count) {
        std::vector<Row> rows;
        for (std::uint32_t i = first; i < first + count; ++i) {
            rows.push_back({.seq = seq, .token = tokens[i], .position = i, .logits = false});
        }
        return rows;
    }

    static Kv read_kv(Engine& e, SeqId seq, std::uint32_t first, std::uint32_t count) {
        Kv kv;
        for_each_view(e, seq, [&](const kv::View& view) {
            Matrix m;
            for (std::uint32_t t = first; t < first + count; ++t) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    m.push_back(0);
                    std::memcpy(&m.back(), view.at(t, c), sizeof(std::uint16_t));
                }
            }
            kv.push_back(std::move(m));
        });
        return kv;
    }

    /// Writes the first `count` tokens of `kv`, in one layer or (kAllLayers) all.
    static constexpr std::uint32_t kAllLayers = ~0U;
    static void write_kv(Engine& e, SeqId seq, const Kv& kv, std::uint32_t count,
                         std::uint32_t only_layer = kAllLayers) {
        std::size_t i = 0;
        for_each_view(e, seq, [&](const kv::View& view) {
            const Matrix& m = kv[i];
            if (only_layer == kAllLayers || i / 2 == only_layer) {
                for (std::uint32_t t = 0; t < count; ++t) {
                    for (std::uint32_t c = 0; c < view.channels; ++c) {
                        std::memcpy(view.at(t, c), &m[std::size_t{t} * view.channels + c], sizeof(std::uint16_t));
                    }
                }
            }
            ++i;
        });
    }

    static void fill_kv(Engine& e, SeqId seq, std::uint32_t first, std::uint32_t count, std::uint16_t half) {
        for_each_view(e, seq, [&](const kv::View& view) {
            for (std::uint32_t t = first; t < first + count; ++t) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    std::memcpy(view.at(t, c), &half, sizeof half);
                }
            }
        });
    }

    /// Reserves `seq` in the target and writes the prompt's KV there (all but its last token, which is the first
    /// step's).
    void import_prompt(SeqId seq) {
        ASSERT_TRUE(target().reserve(seq, prompt_held()).ok());
        write_kv(target(), seq, rig_->kv, prompt_held());
    }

    [[nodiscard]] std::vector<Row> steps_on(SeqId seq) const {
        std::vector<Row> rows = rig_->steps;
        for (Row& row : rows) {
            row.seq = seq;
        }
        return rows;
    }

    static testing::AssertionResult same(std::span<const float> a, std::span<const float> b) {
        if (a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0) {
            return testing::AssertionSuccess();
        }
        std::size_t differing = 0;
        for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
            differing += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1U : 0U;
        }
        return testing::AssertionFailure() << differing << " of " << a.size() << " logits differ";
    }

    /// One parallel pass over the recorded steps equals the recorded single steps.
    void expect_parallel_pass(Engine& e, SeqId seq, LayerGate* gate = nullptr) {
        const std::vector<Row> rows = steps_on(seq);
        const Status status = e.step(rows, gate);
        ASSERT_TRUE(status.ok()) << status.to_string();
        for (std::size_t i = 0; i < rows.size(); ++i) {
            ASSERT_TRUE(same(e.logits(i), rig_->logits[i])) << "row " << i;
        }
    }

    [[nodiscard]] std::uint32_t prompt_held() const { return kPromptTokens - 1; }
    [[nodiscard]] std::uint32_t layers() const {
        return static_cast<std::uint32_t>(rig_->target->info().geometry.layers.size());
    }
    [[nodiscard]] Engine& target() const { return *rig_->target; }
    [[nodiscard]] Engine& source() const { return *rig_->source; }
    [[nodiscard]] const Rig& rig() const { return *rig_; }

    static Token argmax(std::span<const float> logits) {
        return static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    }

private:
    template <class F>
    static void for_each_view(Engine& e, SeqId seq, F f) {
        for (std::uint32_t l = 0; l < e.info().geometry.layers.size(); ++l) {
            for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                Result<kv::View> view = e.kv_view(seq, l, kind);
                ASSERT_TRUE(view.ok()) << view.status().to_string();
                f(view.value());
            }
        }
    }

    static std::map<std::string, std::unique_ptr<Rig>>& rigs() {
        static std::map<std::string, std::unique_ptr<Rig>> all;
        return all;
    }

    static std::unique_ptr<Rig> make_rig() {
        auto rig = std::make_unique<Rig>();
        for (std::unique_ptr<Engine>* e : {&rig->source, &rig->target}) {
            Result<std::unique_ptr<Engine>> made = GetParam().make();
            if (!made.ok()) {
                ADD_FAILURE() << made.status().to_string();
                return nullptr;
            }
            *e = std::move(made).value();
        }
        record(*rig);
        return testing::Test::HasFatalFailure() ? nullptr : std::move(rig);
    }

    static void record(Rig& rig) {
        Engine& e = *rig.source;
        std::string text;
        while (rig.prompt.size() < kPromptTokens) {
            text += "The node " + std::to_string(rig.prompt.size()) + " keeps what it was told; others may forget it. ";
            Result<std::vector<Token>> tokens = e.tokenize(text, false);
            ASSERT_TRUE(tokens.ok());
            rig.prompt = tokens.value();
        }
        rig.prompt.resize(kPromptTokens);
        const std::uint32_t held = kPromptTokens - 1;
        rig.kv_early.resize(2 * e.info().geometry.layers.size());
        for (std::uint32_t first = 0; first < held; first += kBatchTokens) {
            const std::uint32_t count = std::min(kBatchTokens, held - first);
            const Status status = e.step(prompt_rows(0, rig.prompt, first, count), nullptr);
            ASSERT_TRUE(status.ok()) << status.to_string();
            const Kv page = read_kv(e, 0, first, count);
            for (std::size_t i = 0; i < page.size(); ++i) {
                rig.kv_early[i].insert(rig.kv_early[i].end(), page[i].begin(), page[i].end());
            }
        }
        rig.kv = read_kv(e, 0, 0, held);
        Token token = rig.prompt.back();
        for (std::uint32_t i = 0; i < kSteps; ++i) {
            rig.steps.push_back({.seq = 0, .token = token, .position = held + i, .logits = true});
            ASSERT_TRUE(e.step({&rig.steps.back(), 1}, nullptr).ok());
            const std::span<const float> logits = e.logits(0);
            rig.logits.emplace_back(logits.begin(), logits.end());
            token = argmax(logits);
        }
    }

    Rig* rig_ = nullptr;
};

/// Counts its calls and runs `action` in each.
class RecordingGate final : public LayerGate {
public:
    explicit RecordingGate(std::function<Status(std::uint32_t)> action) : action_(std::move(action)) {}
    [[nodiscard]] Status wait(std::uint32_t layer) override {
        calls.push_back(layer);
        return action_(layer);
    }
    std::vector<std::uint32_t> calls;

private:
    std::function<Status(std::uint32_t)> action_;
};

TEST_P(EngineContract, TwoEnginesOfOneModelAgreeOnIdentityAndGeometry) {
    EXPECT_EQ(source().info().fingerprint, target().info().fingerprint);
    EXPECT_EQ(source().info().geometry, target().info().geometry);
    EXPECT_TRUE(source().info().geometry.validate().ok());
    EXPECT_EQ(target().info().sequences, kSequences);
    EXPECT_EQ(target().info().context_tokens, kContextTokens);
    EXPECT_EQ(target().info().batch_tokens_max, kBatchTokens);
}

TEST_P(EngineContract, PagesAreFinalWhenTheirStepReturns) { EXPECT_EQ(rig().kv_early, rig().kv); }

TEST_P(EngineContract, ExportThenImportContinuesBitwise) {
    import_prompt(1);
    EXPECT_EQ(read_kv(target(), 1, 0, prompt_held()), rig().kv);
    const std::vector<Row> rows = steps_on(1);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_TRUE(target().step({&rows[i], 1}, nullptr).ok());
        ASSERT_TRUE(same(target().logits(0), rig().logits[i])) << "step " << i;
    }
}

TEST_P(EngineContract, AParallelPassEqualsSingleSteps) {
    import_prompt(0);
    expect_parallel_pass(target(), 0);
}

TEST_P(EngineContract, NeighboursInABatchChangeNothing) {
    import_prompt(1);
    const std::vector<Row> rows = steps_on(1);
    std::uint32_t others = 0;  // tokens that sequences 0 and 2 hold
    for (; others < 40; others += 40) {
        std::vector<Row> batch = prompt_rows(0, rig().prompt, 0, 40);
        const std::vector<Row> third = prompt_rows(2, rig().prompt, 0, 40);
        batch.insert(batch.end(), third.begin(), third.end());
        ASSERT_TRUE(target().step(batch, nullptr).ok());
    }
    const auto neighbour = [&](SeqId seq, std::uint32_t at) {
        return Row{.seq = seq, .token = rig().prompt[at], .position = at, .logits = true};
    };
    for (std::size_t i = 0; i < rows.size() / 2; ++i, ++others) {
        const std::vector<Row> batch = {neighbour(0, others), rows[i], neighbour(2, others)};
        ASSERT_TRUE(target().step(batch, nullptr).ok());
        ASSERT_TRUE(same(target().logits(1), rig().logits[i])) << "step " << i;
        ASSERT_TRUE(same(target().logits(0), target().logits(2))) << "equal neighbours, step " << i;
    }
    ASSERT_TRUE(target().truncate(1, prompt_held()).ok());
    std::vector<Row> batch = {neighbour(0, others)};
    batch.insert(batch.end(), rows.begin(), rows.end());
    batch.push_back(neighbour(2, others));
    ASSERT_TRUE(target().step(batch, nullptr).ok());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        ASSERT_TRUE(same(target().logits(i + 1), rig().logits[i])) << "row " << i;
    }
}

TEST_P(EngineContract, PrefillChunksMayBeCutAnywhere) {
    ASSERT_TRUE(target().reserve(2, 40).ok());
    write_kv(target(), 2, rig().kv, 40);
    for (const auto& [first, count] : {std::pair{40U, 3U}, {43U, 1U}, {44U, 30U}}) {
        ASSERT_TRUE(target().step(prompt_rows(2, rig().prompt, first, count), nullptr).ok());
    }
    const Kv got = read_kv(target(), 2, 0, 74);
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(std::equal(got[i].begin(), got[i].end(), rig().kv[i].begin())) << "layer " << i / 2;
    }
}

TEST_P(EngineContract, TruncateAndRedo) {
    import_prompt(0);
    for (int cycle = 0; cycle < 3; ++cycle) {
        ASSERT_NO_FATAL_FAILURE(expect_parallel_pass(target(), 0));
        ASSERT_TRUE(target().truncate(0, prompt_held() + 7).ok());
        const std::vector<Row> rows = steps_on(0);
        ASSERT_TRUE(target().step(std::span(rows).subspan(7, 1), nullptr).ok());
        ASSERT_TRUE(same(target().logits(0), rig().logits[7]));
        ASSERT_TRUE(target().truncate(0, prompt_held() - 5).ok());
        ASSERT_TRUE(target().step(prompt_rows(0, rig().prompt, prompt_held() - 5, 5), nullptr).ok());
        ASSERT_EQ(read_kv(target(), 0, 0, prompt_held()), rig().kv) << "cells moved";
    }
    expect_parallel_pass(target(), 0);
}

TEST_P(EngineContract, ClearAndReserveAnotherLength) {
    for (const std::uint32_t tokens : {3U, 500U, 1U, kContextTokens, 257U}) {
        ASSERT_TRUE(target().reserve(1, tokens).ok());
        fill_kv(target(), 1, 0, tokens, 0x4200);
        ASSERT_TRUE(target().clear(1).ok());
    }
    ASSERT_TRUE(target().reserve(1, 0).ok());
    import_prompt(1);
    expect_parallel_pass(target(), 1);
}

TEST_P(EngineContract, GivenUpKvDoesNotLeak) {
    constexpr std::uint16_t kNan = 0x7E00;
    ASSERT_TRUE(target().reserve(0, kContextTokens).ok());
    fill_kv(target(), 0, 0, kContextTokens, kNan);
    ASSERT_TRUE(target().clear(0).ok());
    ASSERT_TRUE(target().reserve(2, 900).ok());
    fill_kv(target(), 2, 0, 900, kNan);
    ASSERT_TRUE(target().truncate(2, 10).ok());
    import_prompt(0);
    expect_parallel_pass(target(), 0);
    ASSERT_TRUE(target().clear(2).ok());
    ASSERT_TRUE(target().step(prompt_rows(2, rig().prompt, 0, 20), nullptr).ok());
    const Kv got = read_kv(target(), 2, 0, 20);
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_TRUE(std::equal(got[i].begin(), got[i].end(), rig().kv[i].begin())) << "layer " << i / 2;
    }
}

TEST_P(EngineContract, EveryLayerOfThePastMatters) {
    import_prompt(0);
    const std::vector<Row> rows = steps_on(0);
    for (const std::uint32_t layer : {0U, layers() / 2, layers() - 1}) {
        for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
            const kv::View view = target().kv_view(0, layer, kind).value();
            for (std::uint32_t t = 600; t < prompt_held(); ++t) {
                for (std::uint32_t c = 0; c < view.channels; ++c) {
                    std::memset(view.at(t, c), 0, sizeof(std::uint16_t));
                }
            }
            ASSERT_TRUE(target().step({rows.data(), 1}, nullptr).ok());
            EXPECT_FALSE(same(target().logits(0), rig().logits[0])) << "layer " << layer;
            ASSERT_TRUE(target().truncate(0, prompt_held()).ok());
            write_kv(target(), 0, rig().kv, prompt_held(), layer);
        }
    }
    expect_parallel_pass(target(), 0);
}

TEST_P(EngineContract, TheGateOpensOncePerLayerInOrder) {
    import_prompt(1);
    RecordingGate gate([](std::uint32_t) { return Status{}; });
    ASSERT_NO_FATAL_FAILURE(expect_parallel_pass(target(), 1, &gate));
    ASSERT_EQ(gate.calls.size(), layers());
    for (std::uint32_t l = 0; l < layers(); ++l) {
        EXPECT_EQ(gate.calls[l], l);
    }
    // A mixed batch, which an engine may compute in several parts.
    gate.calls.clear();
    std::vector<Row> batch = prompt_rows(0, rig().prompt, 0, 1);
    const std::vector<Row> more = prompt_rows(2, rig().prompt, 0, 9);
    batch.insert(batch.end(), more.begin(), more.end());
    ASSERT_TRUE(target().step(batch, &gate).ok());
    EXPECT_EQ(gate.calls.size(), layers());
}

TEST_P(EngineContract, WhatTheGateWritesIsWhatTheLayerReads) {
    import_prompt(0);
    fill_kv(target(), 0, 0, prompt_held(), 0x4800);
    RecordingGate gate([&](std::uint32_t layer) {
        write_kv(target(), 0, rig().kv, prompt_held(), layer);
        return Status{};
    });
    expect_parallel_pass(target(), 0, &gate);
}

TEST_P(EngineContract, AGateErrorEndsTheStepAndLeavesTheEngineUsable) {
    import_prompt(1);
    for (const std::uint32_t failing : {0U, layers() / 2, layers() - 1}) {
        RecordingGate gate([&](std::uint32_t layer) {
            return layer == failing ? Status{ErrorCode::peer_lost, "the tier never came"} : Status{};
        });
        std::vector<Row> rows = steps_on(1);
        rows.push_back({.seq = 0, .token = rig().prompt[0], .position = 0, .logits = false});
        const Status status = target().step(rows, &gate);
        EXPECT_EQ(status.code(), ErrorCode::peer_lost);
        EXPECT_EQ(status.message(), "the tier never came");
        EXPECT_EQ(gate.calls.size(), failing + 1);
        ASSERT_NO_FATAL_FAILURE(expect_parallel_pass(target(), 1)) << "no row of the failed step stayed";
        ASSERT_TRUE(target().truncate(1, prompt_held()).ok());
    }
}

TEST_P(EngineContract, GreedyIsDeterministic) {
    const auto generate = [&](Engine& e, SeqId seq) {
        std::vector<Token> out;
        std::vector<Row> rows = prompt_rows(seq, rig().prompt, 0, 30);
        rows.back().logits = true;
        for (std::uint32_t i = 0; i < 12; ++i) {
            EXPECT_TRUE(e.step(rows, nullptr).ok());
            out.push_back(argmax(e.logits(rows.size() - 1)));
            rows = {{.seq = seq, .token = out.back(), .position = 30 + i, .logits = true}};
        }
        return out;
    };
    const std::vector<Token> first = generate(source(), 1);
    EXPECT_EQ(generate(source(), 2), first);
    EXPECT_EQ(generate(target(), 0), first);
}

TEST_P(EngineContract, WhatDoesNotFitIsRefusedAndChangesNothing) {
    Engine& e = target();
    const Token token = rig().prompt[0];
    const auto step_code = [&](std::vector<Row> rows) { return e.step(rows, nullptr).code(); };
    EXPECT_EQ(step_code({}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = token, .position = 1}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = token, .position = 0}, {.seq = 0, .token = token, .position = 2}}),
              ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = SeqId{kSequences}, .token = token}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = -1, .token = token}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = static_cast<Token>(e.info().vocabulary)}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code({{.seq = 0, .token = -1}}), ErrorCode::invalid_argument);
    EXPECT_EQ(step_code(prompt_rows(0, rig().prompt, 0, kBatchTokens + 1)), ErrorCode::limit_exceeded);
    EXPECT_EQ(e.reserve(0, kContextTokens + 1).code(), ErrorCode::limit_exceeded);
    EXPECT_EQ(e.reserve(-1, 1).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.truncate(0, 1).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.truncate(SeqId{kSequences}, 0).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.clear(SeqId{kSequences}).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.kv_view(SeqId{kSequences}, 0, kv::Kind::key).status().code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.kv_view(0, layers(), kv::Kind::key).status().code(), ErrorCode::invalid_argument);
    EXPECT_EQ(e.kv_view(0, 0, kv::Kind::latent).status().code(), ErrorCode::invalid_argument);

    ASSERT_TRUE(e.reserve(0, kContextTokens - 1).ok());
    EXPECT_EQ(e.reserve(0, 1).code(), ErrorCode::invalid_argument) << "not empty";
    const Row last{.seq = 0, .token = token, .position = kContextTokens - 1, .logits = true};
    EXPECT_EQ(step_code({last, {.seq = 0, .token = token, .position = kContextTokens}}), ErrorCode::limit_exceeded);
    EXPECT_TRUE(e.step({&last, 1}, nullptr).ok()) << "the last cell can be used";
    EXPECT_EQ(step_code({{.seq = 0, .token = token, .position = kContextTokens}}), ErrorCode::limit_exceeded);
    import_prompt(1);
    expect_parallel_pass(e, 1);
}

}  // namespace lynx::engine
