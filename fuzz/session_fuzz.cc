// A session against a peer that says anything. Input: byte 0 the role and whether the handshake is done beforehand;
// then records of {op, lane, length, bytes}: op says whether the bytes are raw, a frame whose checksums are repaired,
// or time passing. Invariants: no crash, no hang, queues within bounds, an error is final and one line.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/frame.h"
#include "wire/session.h"
#include "wire/session_state.h"
#include "wire/session_test_util.h"

namespace {

using lynx::base::Bytes;
using lynx::base::ByteView;
using lynx::base::Nanos;
namespace wire = lynx::wire;

constexpr std::size_t kCredit = 20000;

Bytes repaired(ByteView body) {
    // The first bytes are the header's fields, magic and version excepted; the rest is the body.
    Bytes frame(wire::kHeaderBytes);
    const std::uint32_t magic = wire::kMagic;
    std::memcpy(frame.data(), &magic, sizeof magic);
    frame[4] = std::byte{1};
    const std::size_t fields = std::min<std::size_t>(body.size(), wire::kHeaderBytes - 20);
    if (fields > 0) {
        frame[6] = static_cast<std::byte>(1 + static_cast<unsigned>(body[0]) % 11);
        std::memcpy(frame.data() + 20, body.data() + 1, fields - 1);
    }
    frame.insert(frame.end(), body.begin() + static_cast<std::ptrdiff_t>(fields), body.end());
    const auto put = [&frame](std::size_t at, std::uint32_t value) {
        std::memcpy(frame.data() + at, &value, sizeof value);
    };
    const ByteView rest = ByteView(frame).subspan(wire::kHeaderBytes);
    put(16, static_cast<std::uint32_t>(rest.size()));
    put(12, frame[6] == std::byte{8} ? 0 : lynx::base::crc32(rest));
    put(8, lynx::base::crc32(ByteView(frame).first(wire::kHeaderBytes)));
    return frame;
}

void check(const wire::Session& session) {
    for (const wire::Lane lane : {wire::Lane::high, wire::Lane::low}) {
        LYNX_CHECK(session.queued_bytes(lane) <= wire::kControlBytesMax + (std::size_t{1} << 20));
    }
    if (!session.status().ok()) {
        LYNX_CHECK(!session.status().message().empty());
        LYNX_CHECK(session.status().message().find('\n') == std::string::npos);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const bool is_prefill = (data[0] & 1U) != 0;
    const auto options = [](wire::Role role) {
        wire::SessionOptions o = wire::test_options(role);
        o.credit_bytes = kCredit;
        o.payload_bytes_max = kCredit;
        o.requests_max = 4;
        return o;
    };
    wire::SessionPair pair(options(wire::Role::prefill), options(wire::Role::decode));
    wire::Session& session = is_prefill ? pair.prefill : pair.decode;
    if ((data[0] & 2U) != 0) {
        pair.start(wire::test_request(1, 1, 64));
    }
    std::size_t held = 0;
    for (std::size_t at = 1; at + 4 <= size;) {
        const std::uint8_t op = data[at];
        const auto lane = static_cast<wire::Lane>(data[at + 1] & 1U);
        const std::size_t length = std::min<std::size_t>(data[at + 2] | (data[at + 3] & 0x0FU) << 8U, size - at - 4);
        const ByteView bytes(reinterpret_cast<const std::byte*>(data) + at + 4, length);
        at += 4 + length;
        const bool was_dead = !session.status().ok();
        switch (op % 6) {
            case 0: static_cast<void>(session.recv(lane, bytes, pair.now)); break;
            case 1:
            case 2: {
                Bytes frame = repaired(bytes);
                frame[20] = static_cast<std::byte>(lane);
                std::memset(frame.data() + 8, 0, 4);
                const std::uint32_t crc = lynx::base::crc32(ByteView(frame).first(wire::kHeaderBytes));
                std::memcpy(frame.data() + 8, &crc, sizeof crc);
                static_cast<void>(session.recv(lane, frame, pair.now));
                break;
            }
            case 3:
                pair.now += Nanos{static_cast<Nanos::rep>(length) * 10'000'000};
                session.on_timeout(pair.now);
                break;
            case 4:
                for (int i = 0; i < 64; ++i) {
                    const auto next = session.next_lane(pair.now);
                    if (!next) {
                        break;
                    }
                    const ByteView view = session.send_view(*next, pair.now);
                    LYNX_CHECK(!view.empty());
                    session.sent(*next, view.size(), pair.now);
                }
                break;
            case 5:
                session.abort({1, 1, lynx::ErrorCode::cancelled, ""}, pair.now);
                static_cast<void>(
                    session.send_page({1, 1, 0, lynx::kv::Kind::key, 0, 0, 0}, std::make_shared<Bytes>(100), pair.now));
                break;
            default: break;
        }
        LYNX_CHECK(!was_dead || !session.status().ok());
        while (auto event = session.poll_event()) {
            if (const auto* page = std::get_if<wire::PageReceived>(&*event)) {
                held += page->payload.size();
                LYNX_CHECK(page->payload.size() + wire::kHeaderBytes == page->credit);
                session.release(*page, pair.now);
            }
        }
        check(session);
    }
    return held > (std::size_t{1} << 30) ? 1 : 0;
}
