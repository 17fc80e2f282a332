// Once buffers have their capacity, the default codec and its kin allocate nothing per page. A binary of its own, since it
// replaces operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "codec/simd/backend.h"
#include "codec/test_pages.h"

namespace {
std::atomic<std::size_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
    ++allocations;
    void* p = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    return p != nullptr ? p : throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t /*bytes*/) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t /*alignment*/) noexcept { std::free(p); }
void operator delete(void* p, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept { std::free(p); }

namespace lynx::codec {
namespace {

TEST(Allocation, NoneOnceBuffersHaveTheirCapacity) {
    for (const simd::SimdTarget& target : simd::list_targets()) {
        if (!target.runnable) {
            std::fprintf(stderr, "SKIPPED: SIMD target %s: this CPU does not run it\n", target.name.c_str());
            continue;
        }
        for (const std::string_view name : {"nested44", "nested44-mono"}) {
            const auto codec = testing::codec_or_die(name, {}, target.name);
            for (const bool channel_major : {false, true}) {
                testing::Page page(kv::DType::f16, 256, 200, channel_major);
                page.copy_from(testing::random_page(kv::DType::f16, 256, 200, 1));
                std::vector<base::Bytes> out(codec->info().tiers);
                const auto round_trip = [&] {
                    if (!codec->encode(page.view(), {.sequence_tokens = 300}, out).ok()) {
                        return false;
                    }
                    base::ByteView payloads[kTiersMax];
                    for (std::size_t t = 0; t < out.size(); ++t) {
                        payloads[t] = out[t];
                        if (!codec->decode(std::span(payloads).first(t + 1), page.view()).ok()) {
                            return false;
                        }
                    }
                    return true;
                };
                ASSERT_TRUE(round_trip());
                const std::size_t before = allocations;
                EXPECT_GT(before, 0U);  // the counter counts
                ASSERT_TRUE(round_trip());
                EXPECT_EQ(allocations, before) << name << " " << target.name << " channel-major " << channel_major;
            }
        }
    }
}

}  // namespace
}  // namespace lynx::codec
