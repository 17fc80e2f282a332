#include "wire/frame.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/rng.h"
#include "wire/session_test_util.h"

namespace lynx::wire {
namespace {

Hello full_hello() {
    Hello m = test_options(Role::decode).hello;
    m.connection_id = 0x0123456789ABCDEF;
    m.credit_bytes = 1 << 20;
    m.payload_bytes_max = 4096;
    m.requests_max = 9;
    m.peer_timeout_ms = 1234;
    m.geometry.layers[1].dtype = kv::DType::bf16;
    m.geometry.layers[1].window = 512;
    m.geometry.layers[2].rope.interleaved = true;
    return m;
}

Request full_request() {
    Request m = test_request(1234567890123, 4, 77);
    m.codec_params = {std::byte{1}, std::byte{0}, std::byte{255}};
    m.profile_hash = 0xFEDCBA9876543210;
    m.sampler = {.temperature = 0.7F, .top_k = 40, .top_p = 0.95F, .seed = 42};
    return m;
}

std::vector<Message> all_messages() {
    return {full_hello(),         Goodbye{ErrorCode::timeout, "too slow"},
            Heartbeat{},          Credit{Lane::low, 4096},
            full_request(),       Progress{5, 6, 7, 8, true},
            FirstToken{5, 6, -1}, Abort{5, 6, ErrorCode::cancelled, "no longer wanted"},
            AbortDone{5, 6},      Done{5, 6}};
}

/// The header of `frame` with one change, checksummed again.
Result<FrameHeader> with_patch(base::Bytes frame, std::size_t at, std::uint8_t value) {
    frame[at] = static_cast<std::byte>(value);
    for (std::size_t i = 8; i < 12; ++i) {
        frame[i] = std::byte{0};
    }
    const std::uint32_t crc = base::crc32(base::ByteView(frame).first(kHeaderBytes));
    std::memcpy(frame.data() + 8, &crc, sizeof crc);
    return decode_header(frame);
}

TEST(Frame, EveryMessageRoundTrips) {
    for (const Message& message : all_messages()) {
        for (const Lane lane : {Lane::high, Lane::low}) {
            const base::Bytes frame = encode_frame(message, lane);
            const auto header = decode_header(frame);
            ASSERT_TRUE(header.ok()) << header.status().to_string();
            EXPECT_EQ(header.value().lane, lane);
            EXPECT_EQ(header.value().body_bytes + kHeaderBytes, frame.size());
            const auto back = decode_body(header.value(), base::ByteView(frame).subspan(kHeaderBytes));
            ASSERT_TRUE(back.ok()) << back.status().to_string();
            EXPECT_EQ(back.value(), message);
        }
    }
}

TEST(Frame, PageHeaderRoundTripsAndHasNoBodyChecksum) {
    const kv::PageKey key{1ULL << 60, 3, 1023, kv::Kind::latent, 7, 1U << 30, 1U << 21};
    const auto header = decode_header(encode_page_header(key, 123456));
    ASSERT_TRUE(header.ok()) << header.status().to_string();
    EXPECT_EQ(header.value().key, key);
    EXPECT_EQ(header.value().type, FrameType::page);
    EXPECT_EQ(header.value().body_bytes, 123456U);
    EXPECT_EQ(header.value().body_crc, 0U);
    EXPECT_EQ(header.value().lane, Lane::low);
}

TEST(Frame, LayoutIsTheDocumentedOne) {
    const kv::PageKey key{0x1122334455667788, 0x99AABBCC, 0x0102, kv::Kind::value, 1, 0x0A0B0C0D, 0x0E0F1011};
    const auto h = encode_page_header(key, 0x00ABCDEF);
    const std::uint8_t expected[kHeaderBytes] = {
        'L',  'Y',  'N',  'X',  1,    0,    8, 0, 0,    0,    0,    0,    0,    0,    0,    0,  // crc filled in below
        0xEF, 0xCD, 0xAB, 0x00, 1,    1,    1, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        0xCC, 0xBB, 0xAA, 0x99, 0x02, 0x01, 0, 0, 0x0D, 0x0C, 0x0B, 0x0A, 0x11, 0x10, 0x0F, 0x0E};
    const std::uint32_t crc = base::crc32(std::as_bytes(std::span(expected)));
    for (std::size_t i = 0; i < kHeaderBytes; ++i) {
        const auto want = i >= 8 && i < 12 ? static_cast<std::uint8_t>(crc >> (8 * (i - 8))) : expected[i];
        EXPECT_EQ(static_cast<std::uint8_t>(h[i]), want) << "offset " << i;
    }
}

TEST(Frame, BodyMaximaAreTheDocumentedOnes) {
    const std::pair<FrameType, std::size_t> maxima[] = {
        {FrameType::hello, 30761},   {FrameType::goodbye, 4101},  {FrameType::heartbeat, 0},
        {FrameType::credit, 9},      {FrameType::progress, 9},    {FrameType::request, (16U << 20) + 8320},
        {FrameType::first_token, 4}, {FrameType::page, 1U << 30}, {FrameType::abort, 4101},
        {FrameType::abort_done, 0},  {FrameType::done, 0}};
    for (const auto& [type, bytes] : maxima) {
        EXPECT_EQ(body_bytes_max(type), bytes) << to_string(type);
    }
}

TEST(Frame, EveryFlippedHeaderBitIsFound) {
    const base::Bytes frame = encode_frame(full_request(), Lane::high);
    for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
        base::Bytes bad = frame;
        bad[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
        EXPECT_EQ(decode_header(bad).status().code(), ErrorCode::corrupt) << "bit " << bit;
    }
}

TEST(Frame, EveryFlippedBodyBitIsFound) {
    for (const Message& message : all_messages()) {
        const base::Bytes frame = encode_frame(message, Lane::high);
        const FrameHeader header = decode_header(frame).value();
        for (std::size_t bit = kHeaderBytes * 8; bit < frame.size() * 8; ++bit) {
            base::Bytes bad = frame;
            bad[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
            EXPECT_EQ(decode_body(header, base::ByteView(bad).subspan(kHeaderBytes)).status().code(),
                      ErrorCode::corrupt);
        }
    }
}

TEST(Frame, EveryPrefixIsTruncated) {
    for (const Message& message : all_messages()) {
        const base::Bytes frame = encode_frame(message, Lane::high);
        const FrameHeader header = decode_header(frame).value();
        for (std::size_t n = 0; n < frame.size(); ++n) {
            const base::ByteView prefix = base::ByteView(frame).first(n);
            const Status status = n < kHeaderBytes ? decode_header(prefix).status()
                                                   : decode_body(header, prefix.subspan(kHeaderBytes)).status();
            EXPECT_EQ(status.code(), ErrorCode::truncated) << n << " of " << frame.size();
        }
    }
}

TEST(Frame, ShorterBodiesWithAGoodChecksumFail) {
    for (const Message& message : all_messages()) {
        const base::Bytes frame = encode_frame(message, Lane::high);
        FrameHeader header = decode_header(frame).value();
        const base::ByteView body = base::ByteView(frame).subspan(kHeaderBytes);
        for (std::size_t n = 0; n < body.size(); ++n) {
            header.body_bytes = static_cast<std::uint32_t>(n);
            header.body_crc = base::crc32(body.first(n));
            EXPECT_FALSE(decode_body(header, body.first(n)).ok()) << to_string(header.type) << " " << n;
        }
        base::Bytes longer(body.begin(), body.end());
        longer.push_back(std::byte{0});
        header.body_bytes = static_cast<std::uint32_t>(longer.size());
        header.body_crc = base::crc32(longer);
        EXPECT_EQ(decode_body(header, longer).status().code(), ErrorCode::corrupt) << to_string(header.type);
    }
}

TEST(Frame, FieldsOutOfRangeBehindAGoodChecksum) {
    const base::Bytes frame = encode_frame(Done{1, 1}, Lane::high);
    const auto page = encode_page_header({1, 1, 0, kv::Kind::key, 0, 0, 0}, 5);
    const base::Bytes page_frame(page.begin(), page.end());
    EXPECT_TRUE(with_patch(frame, 4, 1).ok());
    EXPECT_EQ(with_patch(frame, 4, 2).status().code(), ErrorCode::unsupported_version);
    EXPECT_EQ(with_patch(frame, 4, 2).status().message(), "protocol version: expected 1, actual 2");
    EXPECT_EQ(with_patch(frame, 6, 0).status().code(), ErrorCode::corrupt);        // type
    EXPECT_EQ(with_patch(frame, 6, 12).status().code(), ErrorCode::corrupt);       // type
    EXPECT_EQ(with_patch(frame, 20, 2).status().code(), ErrorCode::corrupt);       // lane
    EXPECT_EQ(with_patch(page_frame, 21, 3).status().code(), ErrorCode::corrupt);  // kind
    EXPECT_EQ(with_patch(page_frame, 12, 1).status().code(), ErrorCode::corrupt);  // a page with a body checksum
    for (const std::size_t reserved : {7U, 23U, 38U, 39U, 48U, 63U}) {
        EXPECT_EQ(with_patch(frame, reserved, 1).status().code(), ErrorCode::corrupt) << reserved;
    }
    for (const std::size_t unused : {21U, 22U, 36U, 40U, 44U}) {
        EXPECT_EQ(with_patch(frame, unused, 1).status().code(), ErrorCode::corrupt) << unused;
    }
    EXPECT_EQ(with_patch(encode_frame(Heartbeat{}, Lane::high), 24, 1).status().code(), ErrorCode::corrupt);
    EXPECT_EQ(with_patch(frame, 16, 1).status().code(), ErrorCode::limit_exceeded);          // done has no body
    EXPECT_EQ(with_patch(page_frame, 19, 0x7F).status().code(), ErrorCode::limit_exceeded);  // 2 GiB page
}

TEST(Frame, HostileRequestsAreRefused) {
    const auto decode = [](const Request& m) {
        const base::Bytes frame = encode_frame(m, Lane::high);
        return decode_body(decode_header(frame).value(), base::ByteView(frame).subspan(kHeaderBytes)).status();
    };
    ASSERT_TRUE(decode(full_request()).ok());
    Request m = full_request();
    m.prompt.clear();
    EXPECT_EQ(decode(m).code(), ErrorCode::limit_exceeded);
    m = full_request();
    m.page_tokens = 0;
    EXPECT_EQ(decode(m).code(), ErrorCode::invalid_argument);
    m.page_tokens = kv::kPageTokensMax + 1;
    EXPECT_EQ(decode(m).code(), ErrorCode::invalid_argument);
    m = full_request();
    m.tiers = kTiersMax + 1;
    EXPECT_EQ(decode(m).code(), ErrorCode::invalid_argument);
    m = full_request();
    m.sampler.temperature = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(decode(m).code(), ErrorCode::invalid_argument);
    m = full_request();
    m.codec.assign(kTextBytesMax + 1, 'x');
    EXPECT_FALSE(decode(m).ok());
}

TEST(Frame, TextsOfAPeerStayOnOneLineAndWithinTheirBound) {
    const base::Bytes frame = encode_frame(Goodbye{ErrorCode::io, "a\nb\x1B[31m" + std::string(5000, 'x')}, Lane::high);
    const auto back = decode_body(decode_header(frame).value(), base::ByteView(frame).subspan(kHeaderBytes));
    ASSERT_TRUE(back.ok()) << back.status().to_string();
    const std::string& text = std::get<Goodbye>(back.value()).message;
    EXPECT_EQ(text.size(), kTextBytesMax);
    EXPECT_EQ(text.substr(0, 8), "a?b?[31m");
}

TEST(Frame, RandomBytesNeverCrash) {
    base::Rng rng(1);
    for (int i = 0; i < 20000; ++i) {
        base::Bytes body(rng.below(200));
        for (std::byte& b : body) {
            b = static_cast<std::byte>(rng() & 0xFF);
        }
        FrameHeader header;
        header.type = static_cast<FrameType>(1 + rng.below(11));
        header.body_bytes = static_cast<std::uint32_t>(body.size());
        header.body_crc = base::crc32(body);
        static_cast<void>(decode_body(header, body));
        static_cast<void>(decode_header(body));
    }
}

}  // namespace
}  // namespace lynx::wire
