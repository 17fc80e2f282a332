// Test support: the fake engine as a Backend, with the prompt's KV in two qualities. Not part of the library.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"
#include "speculate/testing/speculation_driver.h"

namespace lynx::speculate::testing {

/// One layer's and kind's KV of the prompt, bits of f16, [tokens, channels]; index 2 * layer + kind.
using PromptKv = std::vector<std::vector<std::uint16_t>>;

/// Flips random bits among the lowest `bits` mantissa bits (at most 10) of every element: signs and exponents stay, so all is finite.
inline PromptKv perturbed(const PromptKv& kv, std::uint32_t bits, std::uint64_t seed) {
    PromptKv out = kv;
    base::Rng rng(seed);
    for (auto& plane : out) {
        for (std::uint16_t& element : plane) {
            element = static_cast<std::uint16_t>(element ^ rng.below(std::uint64_t{1} << bits));
        }
    }
    return out;
}

/// Sequence 0 of a fake engine. A gated run writes each layer's better KV at that layer's gate, not before.
class FakeBackend final : public Backend {
public:
    explicit FakeBackend(const engine::FakeOptions& options) : engine_(engine::make_fake(options)) {}

    [[nodiscard]] const engine::ModelInfo& info() const { return engine_->info(); }
    [[nodiscard]] std::string piece(Token token) const { return engine_->piece(token); }

    /// Prefills the prompt, keeps its KV as the better one; returns the last row's logits.
    std::vector<float> prefill(std::span<const Token> prompt) {
        prompt_tokens_ = static_cast<std::uint32_t>(prompt.size());
        EXPECT_TRUE(engine_->clear(0).ok());
        std::vector<engine::Row> rows;
        for (std::uint32_t i = 0; i < prompt_tokens_; ++i) {
            rows.push_back({.seq = 0, .token = prompt[i], .position = i, .logits = i + 1 == prompt_tokens_});
        }
        EXPECT_TRUE(engine_->step(rows, nullptr).ok());
        const auto logits = engine_->logits(rows.size() - 1);
        better_.assign(2 * layers(), {});
        for (std::uint32_t plane = 0; plane < better_.size(); ++plane) {
            visit(plane, [&](std::byte* element, std::size_t) {
                std::uint16_t bits = 0;
                std::memcpy(&bits, element, sizeof(bits));
                better_[plane].push_back(bits);
            });
        }
        return {logits.begin(), logits.end()};
    }
    [[nodiscard]] const PromptKv& better() const { return better_; }

    /// A new request on the prefilled prompt whose drafts run on `anchor`.
    void start(PromptKv anchor) {
        anchor_ = std::move(anchor);
        holds_better_ = false;
        EXPECT_TRUE(engine_->clear(0).ok());
        EXPECT_TRUE(engine_->reserve(0, prompt_tokens_).ok());
        for (std::uint32_t layer = 0; layer < layers(); ++layer) {
            write(anchor_, layer);
        }
    }

    void truncate(std::uint32_t tokens) override { ASSERT_TRUE(engine_->truncate(0, tokens).ok()); }

    void run(std::span<const engine::Row> rows, bool better, bool gated) override {
        ASSERT_TRUE(better || !holds_better_ || !gated);
        Gate gate(*this);
        const bool arrives = better && !holds_better_;
        for (std::uint32_t layer = 0; arrives && !gated && layer < layers(); ++layer) {
            write(better_, layer);
        }
        ASSERT_TRUE(engine_->step(rows, arrives && gated ? &gate : nullptr).ok());
        holds_better_ = holds_better_ || better;
    }
    [[nodiscard]] std::span<const float> logits(std::size_t row) const override { return engine_->logits(row); }

private:
    class Gate final : public engine::LayerGate {
    public:
        explicit Gate(FakeBackend& backend) : backend_(backend) {}
        [[nodiscard]] Status wait(std::uint32_t layer) override {
            backend_.write(backend_.better_, layer);
            return {};
        }

    private:
        FakeBackend& backend_;
    };

    [[nodiscard]] std::uint32_t layers() const {
        return static_cast<std::uint32_t>(engine_->info().geometry.layers.size());
    }

    template <class Visit>
    void visit(std::uint32_t plane, Visit each) {
        const kv::Kind kind = plane % 2 == 0 ? kv::Kind::key : kv::Kind::value;
        const Result<kv::View> view = engine_->kv_view(0, plane / 2, kind);
        ASSERT_TRUE(view.ok());
        std::size_t i = 0;
        for (std::uint32_t t = 0; t < prompt_tokens_; ++t) {
            for (std::uint32_t c = 0; c < view.value().channels; ++c) {
                each(view.value().at(t, c), i++);
            }
        }
    }

    void write(const PromptKv& kv, std::uint32_t layer) {
        for (const std::uint32_t plane : {2 * layer, 2 * layer + 1}) {
            visit(plane, [&](std::byte* element, std::size_t i) {
                std::memcpy(element, &kv[plane][i], sizeof(std::uint16_t));
            });
        }
    }

    std::unique_ptr<engine::Engine> engine_;
    std::uint32_t prompt_tokens_ = 0;
    PromptKv better_, anchor_;
    bool holds_better_ = false;
};

}  // namespace lynx::speculate::testing
