#include "wire/requests.h"

#include <gtest/gtest.h>

#include "wire/session_test_util.h"

namespace lynx::wire {
namespace {

class Requests : public testing::Test {
protected:
    kv::Geometry geometry = test_geometry();
    RequestTable table{geometry, true};
    Request request = test_request(5, 2, 100, 32, 2);  // pages 0..3, the last one partial

    [[nodiscard]] ErrorCode admit(const kv::PageKey& key) {
        const auto result = table.admit(key);
        return result.ok() ? ErrorCode::ok : result.status().code();
    }
};

TEST_F(Requests, EveryPageOnceAndOnlyOnce) {
    ASSERT_TRUE(table.add(request, 4).ok());
    const auto keys = all_keys(request);
    EXPECT_EQ(keys.size(), 4U * 3 * 2 * 2);
    for (const kv::PageKey& key : keys) {
        const auto admitted = table.admit(key);
        ASSERT_TRUE(admitted.ok()) << admitted.status().to_string();
        EXPECT_EQ(admitted.value(), Admission::accept);
    }
    for (const kv::PageKey& key : keys) {
        const auto again = table.admit(key);
        EXPECT_EQ(again.status().code(), ErrorCode::corrupt);
        EXPECT_NE(again.status().message().find("came before"), std::string::npos) << again.status().to_string();
    }
}

TEST_F(Requests, EachWrongFieldIsCorrupt) {
    ASSERT_TRUE(table.add(request, 4).ok());
    const kv::PageKey good{5, 2, 1, kv::Kind::value, 1, 3, 96};
    for (const auto& [what, change] : std::initializer_list<std::pair<const char*, void (*)(kv::PageKey&)>>{
             {"request", [](kv::PageKey& k) { k.request = 6; }},
             {"older generation", [](kv::PageKey& k) { k.generation = 1; }},
             {"newer generation", [](kv::PageKey& k) { k.generation = 3; }},
             {"layer", [](kv::PageKey& k) { k.layer = 3; }},
             {"kind", [](kv::PageKey& k) { k.kind = kv::Kind::latent; }},
             {"tier", [](kv::PageKey& k) { k.tier = 2; }},
             {"page",
              [](kv::PageKey& k) {
                  k.page = 4;
                  k.first_token = 128;
              }},
             {"huge page",
              [](kv::PageKey& k) {
                  k.page = 0xFFFFFFFF;
                  k.first_token = 0xFFFFFFE0;
              }},
             {"first token", [](kv::PageKey& k) { k.first_token = 95; }},
         }) {
        kv::PageKey key = good;
        change(key);
        EXPECT_EQ(admit(key), ErrorCode::corrupt) << what;
    }
    EXPECT_EQ(admit(good), ErrorCode::ok);
}

TEST_F(Requests, PagesOfAnEndedRequestAreLateUntilItIsErased) {
    ASSERT_TRUE(table.add(request, 4).ok());
    RequestRecord* record = table.find(5, 2);
    ASSERT_NE(record, nullptr);
    record->live = false;
    const kv::PageKey key{5, 2, 0, kv::Kind::key, 0, 0, 0};
    EXPECT_EQ(table.admit(key).value(), Admission::drop_late);
    EXPECT_EQ(admit(key), ErrorCode::corrupt) << "a late page comes once, too";
    table.erase(*record);
    EXPECT_EQ(admit({5, 2, 1, kv::Kind::key, 0, 0, 0}), ErrorCode::corrupt);
}

TEST_F(Requests, GenerationsFence) {
    ASSERT_TRUE(table.add(request, 8).ok());
    EXPECT_EQ(table.add(request, 8).code(), ErrorCode::invalid_argument);
    request.generation = 3;
    EXPECT_EQ(table.add(request, 8).code(), ErrorCode::invalid_argument) << "generation 2 is live";
    table.find(5, 2)->live = false;
    EXPECT_TRUE(table.add(request, 8).ok());
    request.generation = 1;
    table.find(5, 3)->live = false;
    EXPECT_EQ(table.add(request, 8).code(), ErrorCode::invalid_argument) << "older than one still known";
    EXPECT_EQ(table.admit({5, 2, 0, kv::Kind::key, 0, 0, 0}).value(), Admission::drop_late);
}

TEST_F(Requests, Bounds) {
    for (std::uint64_t id = 0; id < 4; ++id) {
        request.request = id;
        ASSERT_TRUE(table.add(request, 4).ok());
    }
    request.request = 99;
    EXPECT_EQ(table.add(request, 4).code(), ErrorCode::limit_exceeded);
    geometry.layers.resize(kv::kLayersMax, geometry.layers[0]);
    Request huge = test_request(100, 1, 1 << 16, 1, 8);
    EXPECT_EQ(table.add(huge, 8).code(), ErrorCode::limit_exceeded) << "2^16 pages x 1024 layers x 2 x 8";
}

}  // namespace
}  // namespace lynx::wire
