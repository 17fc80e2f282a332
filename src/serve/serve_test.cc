// The server's parts that need no socket: requests from JSON, characters out of bytes, the metrics' text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "serve/api_request.h"
#include "serve/api_response.h"
#include "serve/metrics.h"
#include "serve/utf8_stream.h"

namespace lynx::serve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::variant<ApiRequest, ApiError> parse(Endpoint endpoint, const std::string& body) {
    return parse_request(endpoint, body, "m", {});
}

TEST(ApiRequest, DefaultsAreTheApis) {
    const auto parsed = parse(Endpoint::completions, R"({"prompt": "hello"})");
    const auto& request = std::get<ApiRequest>(parsed);
    EXPECT_EQ(request.generate.prompt, "hello");
    EXPECT_EQ(request.generate.max_tokens, 16U);
    EXPECT_EQ(request.generate.temperature, 1.0F);
    EXPECT_FALSE(request.generate.seed);
    EXPECT_FALSE(request.stream);
    EXPECT_FALSE(request.provisional);
}

TEST(ApiRequest, EveryFieldArrives) {
    const auto parsed =
        parse(Endpoint::chat, R"({"model": "m", "messages": [{"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        "max_completion_tokens": 9, "max_tokens": 8, "temperature": 0.5, "top_p": 0.25, "top_k": 7, "seed": -1, "stop": "end",
        "stream": true, "stream_options": {"include_usage": true}, "n": 1, "tools": [], "logprobs": true, "top_logprobs": 4, "unknown": [1],
        "lynx": {"provisional": true, "codec": "int8", "window": 3}})");
    const auto& request = std::get<ApiRequest>(parsed);
    ASSERT_EQ(request.messages.size(), 2U);
    EXPECT_EQ(request.messages[0].role, "system");
    EXPECT_EQ(request.messages[1].content, "ab");
    EXPECT_EQ(request.generate.max_tokens, 9U);
    EXPECT_EQ(request.generate.top_k, 7U);
    EXPECT_EQ(request.generate.seed, ~std::uint64_t{0});
    EXPECT_EQ(request.generate.stop_strings, std::vector<std::string>{"end"});
    EXPECT_TRUE(request.stream && request.include_usage && request.provisional);
    EXPECT_EQ(request.generate.top_logprobs, 4U);
    EXPECT_EQ(request.generate.codec.name, "int8");
    EXPECT_EQ(request.generate.window, 3U);
}

TEST(ApiRequest, WhatItDoesNotDoIsRefusedByName) {
    for (const auto& [body, param] : std::vector<std::pair<std::string, std::string>>{
             {R"({"messages": []})", "messages"},
             {R"({"messages": [{"role": "tool", "content": "x"}]})", "messages[0].role"},
             {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
             {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", "messages[0].content"},
             {R"({"messages": [{"role": "user", "content": "x"}], "tools": [{}]})", "tools"},
             {R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}})",
              "response_format"},
             {R"({"messages": [{"role": "user", "content": "x"}], "frequency_penalty": 1})", "frequency_penalty"},
             {R"({"messages": [{"role": "user", "content": "x"}], "seed": 18446744073709551615})", "seed"},
             {R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1e30})", "max_tokens"}}) {
        const auto parsed = parse(Endpoint::chat, body);
        ASSERT_TRUE(std::holds_alternative<ApiError>(parsed)) << body;
        EXPECT_EQ(std::get<ApiError>(parsed).param, param) << body;
        EXPECT_EQ(std::get<ApiError>(parsed).http_status, 400);
    }
}

TEST(ApiRequest, AnyBytesGiveARequestOrAnError) {
    const std::string good =
        R"({"prompt": ["x"], "max_tokens": 3, "stop": ["a", "b"], "stream": true, "lynx": {"window": 2}, "seed": 5})";
    base::Rng rng(3);
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string body = good;
        for (std::uint64_t n = rng.below(4); n > 0; --n) {
            body[rng.below(body.size())] = static_cast<char>(rng.below(256));
        }
        body.resize(rng.below(8) == 0 ? rng.below(body.size()) : body.size());
        accepted += std::holds_alternative<ApiRequest>(parse(Endpoint::completions, body)) ? 1 : 0;
    }
    EXPECT_GT(accepted, 1000);
    EXPECT_LT(accepted, 19000);
}

TEST(ApiResponse, TextThatIsNoUtf8IsStillJson) {
    const AnswerHead head{.endpoint = Endpoint::chat, .id = "i", .model = "m", .created = 1};
    const std::string event = text_event(head, "a\xff\xc3", true, nullptr);
    ASSERT_THAT(event, HasSubstr("data: {"));
    const Json json = Json::parse(event.substr(6));
    EXPECT_EQ(json["choices"][0]["delta"]["role"], "assistant");
}

TEST(Utf8Stream, CutsWhereCharactersEnd) {
    const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";  // 1, 2, 3 and 4 bytes
    for (std::size_t step = 1; step < text.size(); ++step) {
        Utf8Stream stream;
        std::string out;
        for (std::size_t at = 0; at < text.size(); at += step) {
            const std::string part = stream.take(text.substr(at, step));
            EXPECT_EQ(unfinished_bytes(part), 0U);
            EXPECT_NO_THROW(static_cast<void>(Json(part).dump()));
            out += part;
        }
        EXPECT_EQ(out + stream.rest(), text);
    }
    Utf8Stream stream;
    EXPECT_EQ(stream.take("\x80\x80\x80\x80"), "\x80\x80\x80\x80") << "no character: passed on, not kept";
    EXPECT_EQ(stream.take("x\xF0\x9F"), "x");
    EXPECT_EQ(stream.rest(), "\xF0\x9F");
}

TEST(Metrics, TextFormat) {
    Metrics metrics;
    metrics.declare("a_total", Metrics::Kind::counter, "Counts.");
    metrics.declare("b", Metrics::Kind::gauge, "Is.");
    metrics.declare("c_seconds", Metrics::Kind::histogram, "Takes.");
    EXPECT_THAT(metrics.text(), HasSubstr("a_total 0\n")) << "a counter exists before its first event";
    metrics.add("a_total", 2, "code=\"x\"");
    metrics.add("a_total", 1, "code=\"x\"");
    metrics.set("b", 0.5);
    metrics.observe("c_seconds", 0.03);
    metrics.observe("c_seconds", 1000);
    const std::string text = metrics.text();
    EXPECT_THAT(text, HasSubstr("# TYPE a_total counter\na_total{code=\"x\"} 3\n"));
    EXPECT_THAT(text, HasSubstr("b 0.5\n"));
    EXPECT_THAT(text, HasSubstr("c_seconds_bucket{le=\"0.02\"} 0\nc_seconds_bucket{le=\"0.04\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("c_seconds_bucket{le=\"+Inf\"} 2\nc_seconds_sum 1000.03\nc_seconds_count 2\n"));
}

}  // namespace
}  // namespace lynx::serve
