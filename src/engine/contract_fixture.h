// What the engine contract suite (engine_contract.h) stands on: engines, one prefilled prompt, and ways to move and
// compare KV.
//
// The prompt is prefilled once per engine kind (it is the slow part); most tests then import its KV into a sequence.
// Engines are cached, and each test starts from empty sequences. All comparisons of logits and KV are bitwise.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <span>
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
            differing += std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]) ? 1U : 0U;
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

    /// The first `count` tokens of `seq` in the target hold the prompt's KV.
    void expect_prompt_kv(SeqId seq, std::uint32_t count) {
        const Kv got = read_kv(target(), seq, 0, count);
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_TRUE(std::equal(got[i].begin(), got[i].end(), rig().kv[i].begin())) << "layer " << i / 2;
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

}  // namespace lynx::engine
