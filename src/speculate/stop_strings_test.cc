#include "speculate/stop_strings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"

namespace lynx::speculate {
namespace {

/// The meaning of the header, byte by byte: the match that ends first, of those the longest.
std::string cut_ref(const std::string& text, const std::vector<std::string>& stops) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const std::string& stop : stops) {
            if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
                longest = std::max(longest, stop.size());
            }
        }
        if (longest > 0) {
            return text.substr(0, end - longest);
        }
    }
    return text;
}

TEST(StopText, CutsBeforeTheMatchInsideAPiece) {
    StopText t({"END"});
    EXPECT_FALSE(t.append("abc"));
    EXPECT_TRUE(t.append("xENDy"));
    EXPECT_EQ(t.text(), "abcx");
    EXPECT_TRUE(t.stopped());
    EXPECT_TRUE(t.append("more"));
    EXPECT_EQ(t.text(), "abcx") << "takes nothing more";
}

TEST(StopText, MatchesAcrossPieces) {
    StopText t({"\n\nUser:"});
    EXPECT_FALSE(t.append("hi\n"));
    EXPECT_FALSE(t.append("\nUs"));
    EXPECT_FALSE(t.append("er"));
    EXPECT_EQ(t.safe_bytes(), 2U);
    EXPECT_TRUE(t.append(":"));
    EXPECT_EQ(t.text(), "hi");
    EXPECT_EQ(t.safe_bytes(), 2U);
}

TEST(StopText, WithholdsAPossibleStartAndReleasesIt) {
    StopText t({"abcabd"});
    (void)t.append("xabcab");
    EXPECT_EQ(t.safe_bytes(), 1U);
    (void)t.append("c");  // "abcabc": the later "abc" may still begin a match
    EXPECT_EQ(t.safe_bytes(), 4U);
    (void)t.append("z");
    EXPECT_EQ(t.safe_bytes(), 8U);
}

TEST(StopText, MultiByteCharactersSplitOverPieces) {
    StopText t({"\u00e9\u4e16"});  // c3 a9 e4 b8 96
    EXPECT_FALSE(t.append("a\xc3"));
    EXPECT_EQ(t.safe_bytes(), 1U);
    EXPECT_FALSE(t.append("\xa9\xe4"));
    EXPECT_FALSE(t.append("\xb8"));
    EXPECT_TRUE(t.append("\x96q"));
    EXPECT_EQ(t.text(), "a");
}

TEST(StopText, FirstToEndWinsThenTheLongest) {
    StopText early({"abcd", "c"});
    EXPECT_TRUE(early.append("xabcd"));
    EXPECT_EQ(early.text(), "xab");
    StopText together({"b", "ab"});
    EXPECT_TRUE(together.append("xab"));
    EXPECT_EQ(together.text(), "x");
}

TEST(StopText, WithoutStopStringsEverythingIsSafe) {
    StopText t;
    EXPECT_FALSE(t.append("anything"));
    EXPECT_FALSE(t.append(""));
    EXPECT_EQ(t.safe_bytes(), t.text().size());
}

TEST(StopText, RandomTextsInRandomPiecesMatchTheByteByByteMeaning) {
    base::Rng rng(1);
    int stopped = 0;
    for (int i = 0; i < 20000; ++i) {
        const auto letters = [&](std::size_t n) {
            std::string s;
            for (std::size_t j = 0; j < n; ++j) {
                s += static_cast<char>('a' + rng.below(2));  // two letters: self-overlapping stop strings are common
            }
            return s;
        };
        std::vector<std::string> stops;
        for (std::uint64_t n = rng.below(4); n > 0; --n) {
            stops.push_back(letters(1 + rng.below(7)));
        }
        const std::string text = letters(rng.below(30));
        const std::string expected = cut_ref(text, stops);
        StopText t(stops);
        std::size_t safe = 0;
        for (std::size_t at = 0; at < text.size() && !t.stopped();) {
            const std::size_t n = 1 + rng.below(5);
            (void)t.append(std::string_view(text).substr(at, n));
            at += n;
            ASSERT_GE(t.safe_bytes(), safe) << "never shrinks";
            safe = t.safe_bytes();
            ASSERT_LE(safe, expected.size()) << "showed part of a stop string";
            ASSERT_EQ(t.text().substr(0, safe), expected.substr(0, safe));
        }
        ASSERT_EQ(t.text(), expected);
        ASSERT_EQ(t.stopped(), expected != text);
        stopped += t.stopped() ? 1 : 0;
        if (!t.stopped()) {
            // Withheld is no more than needed: it is the start of some stop string.
            const std::string tail = text.substr(safe);
            ASSERT_TRUE(tail.empty() || std::any_of(stops.begin(), stops.end(), [&](const std::string& s) {
                            return s.compare(0, tail.size(), tail) == 0;
                        }));
        }
    }
    EXPECT_GT(stopped, 5000);
}

}  // namespace
}  // namespace lynx::speculate
