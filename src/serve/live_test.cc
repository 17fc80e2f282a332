// What the live page and the log rest on: the ring of events, trace contexts, the two forms of a log entry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lynx/serve.h"
#include "serve/event_feed.h"
#include "serve/traceparent.h"

namespace lynx::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
constexpr std::chrono::milliseconds kNow{0};

TEST(EventFeed, GivesEachEventOnceAndFromAnywhere) {
    EventFeed feed;
    EXPECT_EQ(feed.wait(0, kNow).events, "");
    feed.publish("1");
    feed.publish("2");
    const EventFeed::News both = feed.wait(0, kNow);
    EXPECT_EQ(both.events, "id: 1\ndata: 1\n\nid: 2\ndata: 2\n\n");
    EXPECT_EQ(feed.wait(both.next, kNow).events, "");
    EXPECT_EQ(feed.wait(1, kNow).events, "id: 2\ndata: 2\n\n");
    EXPECT_EQ(feed.wait(3, kNow).events, both.events) << "a number of an earlier life starts over";
}

TEST(EventFeed, IsBoundedAndTellsWhatIsMissing) {
    EventFeed feed;
    for (std::size_t i = 0; i < EventFeed::kEventsMax + 5; ++i) {
        feed.publish("x");
    }
    const EventFeed::News late = feed.wait(2, kNow);
    EXPECT_THAT(late.events, StartsWith("data: {\"type\":\"missed\",\"events\":3}\n\nid: 6\n"));
    EXPECT_EQ(late.next, EventFeed::kEventsMax + 5);
    EXPECT_THAT(feed.wait(0, kNow).events, StartsWith("id: 6\n"))
        << "a new watcher misses nothing that it could have seen";
    for (std::size_t i = 0; i < EventFeed::kWatchersMax; ++i) {
        EXPECT_TRUE(feed.add_watcher());
    }
    EXPECT_FALSE(feed.add_watcher());
    feed.remove_watcher();
    EXPECT_TRUE(feed.add_watcher());
}

TEST(Traceparent, OnlyValidOnesAreKept) {
    const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    EXPECT_EQ(checked_traceparent(good), good);
    EXPECT_EQ(checked_traceparent("cc" + good.substr(2) + "-what comes later"), "cc" + good.substr(2));
    for (const std::string& bad : std::vector<std::string>{
             std::string(), good + "-more", good.substr(1), "ff" + good.substr(2), "cc" + good.substr(2) + "more",
             "00-00000000000000000000000000000000-b7ad6b7169203331-01",
             "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
             "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
             "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
             "00-0af7651916cd43dd8448eb211c80319\n-b7ad6b7169203331-01"}) {
        EXPECT_EQ(checked_traceparent(bad), "") << bad;
    }
}

TEST(RequestLog, IsOneLineInBothForms) {
    RequestLog entry{.event = "answered",
                     .id = "cmpl-1",
                     .traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                     .seconds = 1.5,
                     .codec = "nested44",
                     .prompt_tokens = 10,
                     .tokens = 4,
                     .drafted = 3,
                     .accepted = 2,
                     .error = {}};
    EXPECT_EQ(to_text(entry), "cmpl-1 answered: 10 + 4 tokens, 2 of 3 drafts accepted");
    EXPECT_EQ(to_json(entry),
              R"({"event":"answered","request_id":"cmpl-1","trace_id":"0af7651916cd43dd8448eb211c80319c",)"
              R"("parent_id":"b7ad6b7169203331","seconds":1.5,"codec":"nested44","prompt_tokens":10,)"
              R"("tokens":4,"drafted":3,"accepted":2})");
    entry.event = "failed";
    entry.error = {ErrorCode::peer_lost, "gone\nfor good \xff"};
    const std::string json = to_json(entry);
    EXPECT_THAT(json, Not(HasSubstr("\n")));
    EXPECT_EQ(nlohmann::json::parse(json)["code"], "peer_lost");
}

}  // namespace
}  // namespace lynx::serve
