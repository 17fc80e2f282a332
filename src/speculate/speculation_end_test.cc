// Everything that ends an output: end tokens, stop strings and max_tokens, in token 1, in the draft and after it. The model counts: after
// token t comes t + 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "speculate/speculation.h"
#include "speculate/testing/speculation_driver.h"

namespace lynx::speculate {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

constexpr std::uint32_t kPrompt = 10;

Speculation make(const Options& options) {
    Result<Speculation> s = Speculation::create(options, kPrompt, 100);
    EXPECT_TRUE(s.ok()) << s.status().to_string();
    return std::move(s).value();
}

Options with_window(std::uint32_t window, std::uint32_t max_tokens = 8) {
    return {.max_tokens = max_tokens, .window = {.fixed = window}};
}

/// Runs `options` to the finish; drafts agree with the better KV except that token `wrong` is drafted as 7.
Speculation run(const Options& options, Token wrong) {
    Speculation s = make(options);
    testing::TableBackend backend(
        [wrong](std::span<const Token> output, bool better) {
            const Token next = output.back() + 1;
            std::vector<float> logits(300, 0);
            logits[static_cast<std::size_t>(!better && next == wrong ? 7 : next)] = 1;
            return logits;
        },
        kPrompt);
    testing::Driver(s, backend, {.residual = 1s}).run();
    return s;
}

TEST(SpeculationEnd, TokenOneMayAlreadyEndTheOutput) {
    Options length = with_window(4, 1);
    EXPECT_EQ(make(length).finish_reason(), FinishReason::length);
    EXPECT_EQ(make(length).next(0ns).kind, ActionKind::finished);
    Options end = with_window(4);
    end.end_tokens = {100};
    end.piece = [](Token) { return std::string("text"); };
    Speculation ended = make(end);
    EXPECT_EQ(ended.finish_reason(), FinishReason::end_token);
    EXPECT_THAT(ended.committed(), ElementsAre(100));
    EXPECT_EQ(ended.committed_text(), "");
    EXPECT_THAT(ended.take_output().committed, ElementsAre(100));
    Options stop = with_window(4);
    stop.stop_strings = {"x"};
    stop.piece = [](Token) { return std::string("abx"); };
    Speculation stopped = make(stop);
    EXPECT_EQ(stopped.finish_reason(), FinishReason::stop_string);
    EXPECT_EQ(stopped.take_text(), "ab");
    stopped.on_residual_ready(0ns);
    EXPECT_EQ(stopped.next(0ns).kind, ActionKind::finished) << "events after the finish change nothing";
}

TEST(SpeculationEnd, EndTokenAtEveryOffsetOfTheDraft) {
    for (Token end = 101; end <= 112; ++end) {
        for (Token wrong = 100; wrong <= 110; ++wrong) {  // 100: none
            Options o = with_window(6, 20);
            o.end_tokens = {end};
            o.piece = [](Token t) { return std::to_string(t) + " "; };
            const Speculation s = run(o, wrong);
            ASSERT_EQ(s.committed().size(), static_cast<std::size_t>(end - 100 + 1));
            ASSERT_EQ(s.committed().back(), end);
            ASSERT_EQ(s.finish_reason(), FinishReason::end_token);
            std::string text;
            for (Token t = 100; t < end; ++t) {
                text += std::to_string(t) + " ";
            }
            ASSERT_EQ(s.committed_text(), text);
            const Token drafted_to = wrong > 100 && wrong <= end ? 106 : std::min(end, 106);
            ASSERT_EQ(s.counters().window, static_cast<std::uint32_t>(drafted_to - 100)) << "drafting stops at the end";
        }
    }
}

TEST(SpeculationEnd, WrongEndTokenInTheDraftDoesNotEndTheOutput) {
    Options o = with_window(6, 10);
    o.end_tokens = {7};
    const Speculation s = run(o, 103);
    EXPECT_EQ(s.counters().window, 3U) << "drafting stopped at it";
    EXPECT_EQ(s.counters().accepted, 2U);
    EXPECT_EQ(s.finish_reason(), FinishReason::length);
    EXPECT_EQ(s.committed().size(), 10U);
}

TEST(SpeculationEnd, StopStringAtEveryOffsetOfTheDraft) {
    // Pieces are two letters: token t is "aA", "bB", ...; stop strings of 1 to 4 letters start at every letter.
    const auto piece = [](Token t) {
        const auto i = static_cast<char>((t - 100) % 26);
        return std::string{static_cast<char>('a' + i), static_cast<char>('A' + i)};
    };
    std::string whole;
    for (Token t = 100; t < 112; ++t) {
        whole += piece(t);
    }
    for (std::size_t at = 0; at + 4 <= whole.size(); ++at) {
        for (std::size_t bytes = 1; bytes <= 4; ++bytes) {
            for (const Token wrong : {100, 103}) {
                Options o = with_window(6, 12);
                o.stop_strings = {"no", whole.substr(at, bytes)};
                o.piece = piece;
                const Speculation s = run(o, wrong);
                ASSERT_EQ(s.finish_reason(), FinishReason::stop_string);
                ASSERT_EQ(s.committed_text(), whole.substr(0, at));
                ASSERT_EQ(s.committed().size(), (at + bytes + 1) / 2) << "the token that completes it is the last";
                if (wrong == 100) {
                    const std::size_t drafts = std::min<std::size_t>(6, s.committed().size() - 1);
                    ASSERT_EQ(s.counters().window, drafts) << "drafting stops there";
                }
            }
        }
    }
}

TEST(SpeculationEnd, DraftsNeverPassMaxTokens) {
    for (std::uint32_t max_tokens = 1; max_tokens < 10; ++max_tokens) {
        const Speculation s = run(with_window(6, max_tokens), 100);
        EXPECT_EQ(s.committed().size(), max_tokens);
        EXPECT_EQ(s.counters().window, std::min(6U, max_tokens - 1));
    }
}

}  // namespace
}  // namespace lynx::speculate
