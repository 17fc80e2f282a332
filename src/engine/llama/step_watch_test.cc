// StepWatch on a hand-made graph: it must notice KV that goes anywhere but to its position's cell, which llama.cpp
// never does when all is well.
#include "engine/llama/step_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"

namespace lynx::engine {
namespace {

constexpr std::int64_t kCells = 8;
constexpr std::int64_t kChannels = 4;
constexpr std::uint32_t kStreams = 2;

class StepWatchTest : public testing::Test {
protected:
    void SetUp() override {
        context_ = ggml_init({.mem_size = 64 * ggml_tensor_overhead(), .mem_buffer = nullptr, .no_alloc = true});
        key_ = ggml_new_tensor_3d(context_, GGML_TYPE_F16, kChannels, kCells, kStreams);
        ggml_set_name(key_, "cache_k_l0");
        indices_ = ggml_new_tensor_1d(context_, GGML_TYPE_I64, 3);
        ggml_tensor* rows = ggml_new_tensor_2d(context_, GGML_TYPE_F32, kChannels, 3);
        store_ = ggml_set_rows(context_, ggml_reshape_2d(context_, key_, kChannels, kCells * kStreams), rows, indices_);
        buffer_ = ggml_backend_alloc_ctx_tensors_from_buft(context_, ggml_backend_cpu_buffer_type());
        LayerCache layer;
        layer.key = key_;
        layer.value = key_;
        layer.geometry.kv_heads = 1;
        layer.geometry.key_dim = kChannels;
        layer.geometry.value_dim = kChannels;
        cache_ = LlamaCache({layer}, false, kCells);
        lengths_.set_length(0, 2);
        lengths_.set_length(1, 4);
    }
    void TearDown() override {
        ggml_backend_buffer_free(buffer_);
        ggml_free(context_);
    }

    /// The status of a step of sequence 0's token 2 and sequence 1's tokens 4 and 5, stored in these cells.
    Status status_of(std::array<std::int64_t, 3> cells) {
        ggml_backend_tensor_set(indices_, cells.data(), 0, sizeof cells);
        StepWatch watch(cache_, kStreams);
        const std::vector<Row> rows = {{.seq = 0, .position = 2}, {.seq = 1, .position = 4}, {.seq = 1, .position = 5}};
        watch.begin(rows, lengths_, nullptr);
        const bool stop = watch.on_node(store_, true);
        EXPECT_EQ(stop, watch.failed()) << "stops only when something is wrong";
        return watch.finish();
    }

    ggml_context* context_ = nullptr;
    ggml_backend_buffer* buffer_ = nullptr;
    ggml_tensor* key_ = nullptr;
    ggml_tensor* indices_ = nullptr;
    ggml_tensor* store_ = nullptr;
    LlamaCache cache_;
    Sequences lengths_{{.sequences = kStreams, .context_tokens = kCells, .batch_tokens = kCells, .vocabulary = 1}};
};

TEST_F(StepWatchTest, PositionsInTheirOwnCellsAreFine) { EXPECT_TRUE(status_of({2, kCells + 4, kCells + 5}).ok()); }

TEST_F(StepWatchTest, AnyOtherCellIsAnError) {
    const Status wrong = status_of({3, kCells + 4, kCells + 5});
    EXPECT_EQ(wrong.code(), ErrorCode::corrupt);
    EXPECT_THAT(wrong.message(), testing::HasSubstr("position 2 of sequence 0 went to cell 3"));
    EXPECT_FALSE(status_of({2, kCells + 5, kCells + 4}).ok()) << "swapped";
    EXPECT_FALSE(status_of({2, kCells + 4, 3}).ok()) << "another sequence's stream";
    EXPECT_FALSE(status_of({2, kCells + 4, 2 * kCells + 5}).ok()) << "no such stream";
    EXPECT_FALSE(status_of({-1, kCells + 4, kCells + 5}).ok());
}

TEST_F(StepWatchTest, ALayerThatStoresNothingIsAnError) {
    StepWatch watch(cache_, kStreams);
    const std::vector<Row> rows = {{.seq = 0, .position = 2}};
    watch.begin(rows, lengths_, nullptr);
    EXPECT_EQ(watch.finish().code(), ErrorCode::corrupt);
}

TEST_F(StepWatchTest, CacheNamesAreReadStrictly) {
    EXPECT_EQ(find_cache(store_).tensor, key_);
    for (const char* name : {"cache_k_l", "cache_k_l0x", "cache_r_l0", "cache_k_l99999", "k_l0", "cache_lid_k_l0"}) {
        ggml_set_name(key_, name);
        EXPECT_EQ(find_cache(store_).tensor, nullptr) << name;
    }
    ggml_set_name(key_, "cache_v_l17");
    EXPECT_EQ(find_cache(store_).layer, 17U);
    EXPECT_EQ(find_cache(store_).kind, kv::Kind::value);
}

}  // namespace
}  // namespace lynx::engine
