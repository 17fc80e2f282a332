// Random models, options, schedules and moments of taking output: what holds for every request.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "speculate/testing/speculation_driver.h"

namespace lynx::speculate {
namespace {

using testing::Driver;
using testing::TableBackend;

constexpr std::uint32_t kVocabulary = 9;

/// Logits from the last two tokens; the anchor's differ by noise of the given amplitude.
TableBackend::Logits random_model(std::uint64_t seed, double noise) {
    return [seed, noise](std::span<const Token> output, bool better) {
        std::uint64_t context = seed;
        for (const Token t : output.last(std::min<std::size_t>(2, output.size()))) {
            context = base::keyed_bits(context, static_cast<std::uint64_t>(t), 1);
        }
        std::vector<float> logits(kVocabulary);
        for (std::size_t i = 0; i < logits.size(); ++i) {
            const double base = 6 * base::to_unit(base::keyed_bits(context, i, 2));
            const double error = noise * (base::to_unit(base::keyed_bits(context, i, 3)) - 0.5);
            logits[i] = static_cast<float>(better ? base : base + error);
        }
        return logits;
    };
}

/// A client that applies Outputs as speculation.h says.
struct Client {
    std::vector<Token> committed, provisional;
    std::string text;

    void apply(const Output& out) {
        ASSERT_LE(out.retracted, provisional.size());
        provisional.resize(provisional.size() - out.retracted);
        ASSERT_LE(out.confirmed, out.committed.size());
        ASSERT_LE(out.confirmed, provisional.size());
        ASSERT_TRUE(std::equal(out.committed.begin(), out.committed.begin() + out.confirmed, provisional.begin()))
            << "a confirmed token changed in its place";
        provisional.erase(provisional.begin(), provisional.begin() + out.confirmed);
        ASSERT_TRUE(out.committed.size() == out.confirmed || provisional.empty())
            << "a token would be inserted before provisional ones";
        committed.insert(committed.end(), out.committed.begin(), out.committed.end());
        provisional.insert(provisional.end(), out.provisional.begin(), out.provisional.end());
    }
};

Options random_options(base::Rng& rng) {
    Options o;
    o.max_tokens = 1 + static_cast<std::uint32_t>(rng.below(30));
    o.ratio_seed = rng();
    switch (rng.below(3)) {
        case 0: break;
        case 1: o.sampling = {.temperature = 1.0F, .seed = rng()}; break;
        default: o.sampling = {.temperature = 0.8F, .top_k = 6, .top_p = 0.95F}; break;
    }
    if (rng.below(2) == 0) {
        o.end_tokens = {8};
    }
    o.piece = [](Token t) { return std::string(t == 3 ? "" : t == 4 ? "abc" : "x") + static_cast<char>('a' + t % 4); };
    for (std::uint64_t n = rng.below(3); n > 0; --n) {
        std::string stop;
        for (std::uint64_t i = 1 + rng.below(5); i > 0; --i) {
            stop += "abcdx"[rng.below(5)];
        }
        o.stop_strings.push_back(stop);
    }
    constexpr std::uint32_t kWindows[] = {0, 1, 2, 8, 64};
    if (const auto w = rng.below(8); w < 5) {
        o.window.fixed = kWindows[w];
    } else {
        o.window.drafts_max = 1 + static_cast<std::uint32_t>(rng.below(20));
    }
    o.draft = rng.below(10) != 0;
    o.gated = rng.below(4) != 0;
    return o;
}

/// Cut as the whole text says: the match that ends first, of those the one that starts first.
std::string cut_text(const Options& o, const std::vector<Token>& tokens, FinishReason reason) {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        if (reason != FinishReason::end_token || i + 1 < tokens.size()) {
            text += o.piece(tokens[i]);
        }
    }
    std::size_t cut = text.size();
    std::size_t first_end = std::string::npos;
    for (const std::string& stop : o.stop_strings) {
        if (const std::size_t at = text.find(stop);
            at != std::string::npos && (at + stop.size() < first_end || (at + stop.size() == first_end && at < cut))) {
            first_end = at + stop.size();
            cut = at;
        }
    }
    return text.substr(0, cut);
}

TEST(SpeculationProperty, OutputTextAndReferenceHoldForEveryRequest) {
    base::Rng rng(20);
    int confirmed = 0;
    int retracted = 0;
    int finished[4] = {};
    for (int i = 0; i < 20000; ++i) {
        SCOPED_TRACE("case " + std::to_string(i));
        const Options options = random_options(rng);
        const auto prompt = static_cast<std::uint32_t>(rng.below(50));
        const auto token1 = static_cast<Token>(rng.below(kVocabulary));
        const auto model = random_model(rng(), static_cast<double>(rng.below(4)) * 1.5);
        TableBackend backend(model, prompt);
        Result<Speculation> created = Speculation::create(options, prompt, token1);
        ASSERT_TRUE(created.ok());
        Speculation s = std::move(created).value();

        Client client;
        std::vector<Token> committed;
        const std::uint64_t take_one_in = 1 + rng.below(4);
        const auto take = [&] {
            const Output out = s.take_output();
            confirmed += static_cast<int>(out.confirmed);
            retracted += static_cast<int>(out.retracted);
            client.apply(out);
            client.text += s.take_text();
            ASSERT_EQ(client.committed, s.committed());
            ASSERT_EQ(client.provisional, SpeculationPeer::drafts(s));
        };
        Driver driver(s, backend, testing::random_schedule(rng));
        driver.observe = [&](const Action&) {
            ASSERT_LE(committed.size(), s.committed().size());
            ASSERT_TRUE(std::equal(committed.begin(), committed.end(), s.committed().begin())) << "committed changed";
            committed = s.committed();
            if (rng.below(take_one_in) == 0) {
                ASSERT_NO_FATAL_FAILURE(take());
            }
        };
        driver.run();
        ASSERT_FALSE(::testing::Test::HasFatalFailure());
        ASSERT_NO_FATAL_FAILURE(take());
        ASSERT_TRUE(client.provisional.empty());
        ++finished[static_cast<int>(s.finish_reason())];

        ASSERT_LE(s.counters().accepted, s.counters().window);
        ASSERT_EQ(s.counters().drafted, s.counters().window) << "every draft was judged";
        ASSERT_EQ(client.text, s.committed_text());
        ASSERT_EQ(s.committed_text(), cut_text(options, s.committed(), s.finish_reason()));
        if (options.sampling.rule() != Rule::ratio) {
            TableBackend plain(model, prompt);
            ASSERT_EQ(s.committed(), testing::reference_run(plain, options, prompt, token1));
        }
    }
    EXPECT_GT(confirmed, 10000);
    EXPECT_GT(retracted, 10000);
    EXPECT_EQ(finished[static_cast<int>(FinishReason::none)], 0);
    EXPECT_GT(finished[static_cast<int>(FinishReason::length)], 2000);
    EXPECT_GT(finished[static_cast<int>(FinishReason::end_token)], 2000);
    EXPECT_GT(finished[static_cast<int>(FinishReason::stop_string)], 2000);
}

}  // namespace
}  // namespace lynx::speculate
