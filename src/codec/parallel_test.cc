#include "codec/parallel.h"

#include <gtest/gtest.h>

#include <limits>

#include "codec/test_pages.h"

namespace lynx::codec {
namespace {

using testing::codec_or_die;
using testing::Page;
using testing::random_page;

struct Pages {
    explicit Pages(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            memory.push_back(random_page(kv::DType::f16, 32, 70, i));
        }
        for (const Page& p : memory) {
            inputs.push_back({p.view(), {}});
        }
    }
    std::vector<Page> memory;
    std::vector<PageToEncode> inputs;
};

TEST(Parallel, BytesDoNotDependOnTheNumberOfThreads) {
    const auto codec = codec_or_die("nested44");
    const Pages pages(37);
    std::vector<base::Bytes> one(pages.inputs.size() * 2);
    ASSERT_TRUE(encode_pages(*codec, pages.inputs, 1, one).ok());
    for (const unsigned threads : {2U, 5U, 64U}) {
        std::vector<base::Bytes> many(one.size());
        ASSERT_TRUE(encode_pages(*codec, pages.inputs, threads, many).ok());
        EXPECT_EQ(many, one) << threads;

        std::vector<Page> decoded;
        std::vector<base::ByteView> payloads(one.begin(), one.end());
        std::vector<PageToDecode> outputs;
        for (std::size_t i = 0; i < pages.memory.size(); ++i) {
            decoded.emplace_back(kv::DType::f16, 32, 70);
        }
        for (std::size_t i = 0; i < decoded.size(); ++i) {
            outputs.push_back({std::span(payloads).subspan(2 * i, 2), decoded[i].view()});
        }
        ASSERT_TRUE(decode_pages(*codec, outputs, threads).ok());
        for (std::size_t i = 0; i < decoded.size(); ++i) {
            Page alone(kv::DType::f16, 32, 70);
            ASSERT_TRUE(codec->decode(outputs[i].payloads, alone.view()).ok());
            EXPECT_TRUE(decoded[i].same_elements(alone)) << i;
        }
    }
}

TEST(Parallel, TheFirstBadPageIsNamed) {
    const auto codec = codec_or_die("nested44");
    Pages pages(40);
    for (const std::size_t bad : {33U, 17U, 25U}) {
        pages.memory[bad].set(1, 2, std::numeric_limits<float>::infinity());
    }
    std::vector<base::Bytes> out(pages.inputs.size() * 2);
    for (const unsigned threads : {1U, 2U, 8U}) {
        const Status s = encode_pages(*codec, pages.inputs, threads, out);
        EXPECT_EQ(s.code(), ErrorCode::invalid_argument);
        EXPECT_NE(s.message().find("page 17: "), std::string::npos) << s.message();
    }
}

TEST(Parallel, WrongCallsAreInvalidArguments) {
    const auto codec = codec_or_die("nested44");
    const Pages pages(2);
    std::vector<base::Bytes> out(3);
    EXPECT_EQ(encode_pages(*codec, pages.inputs, 1, out).code(), ErrorCode::invalid_argument);
    out.resize(4);
    EXPECT_EQ(encode_pages(*codec, pages.inputs, 0, out).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(encode_pages(*codec, pages.inputs, 100000, out).code(), ErrorCode::invalid_argument);
    EXPECT_TRUE(encode_pages(*codec, {}, 3, {}).ok());
}

}  // namespace
}  // namespace lynx::codec
