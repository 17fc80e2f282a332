// Greedy and coupled output is the reference run's, token for token, whatever the anchor's error, the window and the order of arrival:
// on the fake engine, with the prompt's KV perturbed in place for drafting and restored, also behind layer gates, for verification.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "speculate/testing/fake_backend.h"
#include "speculate/testing/speculation_driver.h"

namespace lynx::speculate {
namespace {

using testing::Driver;
using testing::FakeBackend;

TEST(SpeculationExact, GreedyAndCoupledEqualTheReferenceRun) {
    constexpr int kPrompts = 12;
    constexpr int kReferences = 12;  // per prompt
    constexpr std::uint32_t kMaxTokens = 20;
    FakeBackend backend({.vocabulary = 24, .layers = 2, .kv_heads = 2, .head_dim = 8, .context_tokens = 64, .seed = 3});
    base::Rng rng(7);
    int cases = 0;
    std::uint32_t drafted = 0;
    std::uint32_t accepted = 0;
    for (int p = 0; p < kPrompts; ++p) {
        std::vector<Token> prompt(1 + rng.below(20));
        for (Token& t : prompt) {
            t = static_cast<Token>(rng.below(23));
        }
        const auto prompt_tokens = static_cast<std::uint32_t>(prompt.size());
        const std::vector<float> last = backend.prefill(prompt);
        for (int r = 0; r < kReferences; ++r) {
            Options options;
            options.max_tokens = kMaxTokens;
            options.end_tokens = backend.info().end_tokens;
            options.piece = [&](Token t) { return backend.piece(t); };
            if (r % 3 != 0) {
                options.sampling = {.temperature = static_cast<float>(0.3 + rng.unit()), .seed = rng()};
                options.sampling.top_k = r % 2 == 0 ? 0 : 5;
                options.sampling.top_p = r % 4 == 0 ? 1.0F : 0.9F;
            }
            const Token token1 = pick(last, options.sampling, prompt_tokens);
            backend.start(backend.better());
            const std::vector<Token> reference = testing::reference_run(backend, options, prompt_tokens, token1);
            for (const std::uint32_t window : {1U, 2U, 8U, 64U, 0U}) {  // 0: adaptive
                options.window.fixed = window == 0 ? std::nullopt : std::optional(window);
                for (const std::uint32_t bits : {0U, 4U, 7U, 10U}) {
                    SCOPED_TRACE("case " + std::to_string(cases++));
                    backend.start(testing::perturbed(backend.better(), bits, rng()));
                    Result<Speculation> s = Speculation::create(options, prompt_tokens, token1);
                    ASSERT_TRUE(s.ok());
                    Driver driver(s.value(), backend, testing::random_schedule(rng));
                    driver.run();
                    ASSERT_FALSE(::testing::Test::HasFatalFailure());
                    ASSERT_EQ(s.value().committed(), reference);
                    drafted += s.value().counters().drafted;
                    accepted += s.value().counters().accepted;
                    if (bits == 0) {
                        ASSERT_EQ(s.value().counters().accepted, s.value().counters().window) << "the same KV";
                    }
                }
            }
        }
    }
    std::printf("%d cases, %u drafts, %u accepted\n", cases, drafted, accepted);
    EXPECT_GE(cases, 2000);
    EXPECT_GT(accepted, drafted / 4) << "acceptance is exercised";
    EXPECT_LT(accepted, drafted * 9 / 10) << "rejection is exercised";
}

}  // namespace
}  // namespace lynx::speculate
