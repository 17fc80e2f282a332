// What the tests of wire and transport share: a small model, requests, and payloads that know which page they belong
// to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kv/geometry.h"
#include "wire/session.h"

namespace lynx::wire {

inline kv::Geometry test_geometry(std::size_t layers = 3) {
    kv::LayerGeometry layer;
    layer.kv_heads = 2;
    layer.key_dim = layer.value_dim = 16;
    layer.rope = {.dims = 16, .base = 10000.0F, .scale = 1.0F, .interleaved = false};
    return {std::vector(layers, layer)};
}

inline SessionOptions test_options(Role role, std::uint64_t connection_id = 7) {
    SessionOptions o;
    o.hello.role = role;
    o.hello.connection_id = connection_id;
    o.hello.fingerprint.fill(0x5A);
    o.hello.geometry = test_geometry();
    return o;
}

inline Request test_request(std::uint64_t id, std::uint32_t generation, std::size_t tokens,
                            std::uint32_t page_tokens = 32, std::uint8_t tiers = 2) {
    Request r;
    r.request = id;
    r.generation = generation;
    r.codec = "nested44";
    r.page_tokens = page_tokens;
    r.tiers = tiers;
    for (std::size_t t = 0; t < tokens; ++t) {
        r.prompt.push_back(static_cast<std::int32_t>(base::mix64(id * 1000 + t) % 1000));
    }
    return r;
}

/// Every page key of a request on test_geometry(layers), page-major as a prefill makes them.
inline std::vector<kv::PageKey> all_keys(const Request& r, std::size_t layers = 3) {
    const kv::Paging paging{static_cast<std::uint32_t>(r.prompt.size()), r.page_tokens};
    std::vector<kv::PageKey> keys;
    for (std::uint32_t page = 0; page < paging.pages(); ++page) {
        for (std::size_t layer = 0; layer < layers; ++layer) {
            for (const kv::Kind kind : {kv::Kind::key, kv::Kind::value}) {
                for (std::uint8_t tier = 0; tier < r.tiers; ++tier) {
                    keys.push_back({r.request, r.generation, static_cast<std::uint16_t>(layer), kind, tier, page,
                                    paging.first_token(page)});
                }
            }
        }
    }
    return keys;
}

/// Bytes that follow from the key alone, so that a test can tell a payload under the wrong key.
inline SharedPayload test_payload(const kv::PageKey& key, std::size_t bytes) {
    base::Rng rng(base::keyed_bits(key.request * 4096 + key.generation,
                                   key.layer * 4U + static_cast<unsigned>(key.kind), key.page * 8ULL + key.tier));
    auto payload = std::make_shared<base::Bytes>(bytes);
    for (std::byte& b : *payload) {
        b = static_cast<std::byte>(rng() & 0xFF);
    }
    return payload;
}

/// Two sessions joined by nothing but function calls: what one would write, the other receives, at a time of the test's
/// choice.
class SessionPair {
public:
    explicit SessionPair(SessionOptions prefill_options = test_options(Role::prefill),
                         SessionOptions decode_options = test_options(Role::decode))
        : prefill(std::move(prefill_options), now), decode(std::move(decode_options), now) {}

    /// Moves up to `bytes_max` bytes of one lane from one side to the other. Returns how many.
    std::size_t move(Session& from, Session& to, Lane lane, std::size_t bytes_max = SIZE_MAX) {
        const base::ByteView view = from.send_view(lane, now);
        const base::Bytes bytes(view.begin(),
                                view.begin() + static_cast<std::ptrdiff_t>(std::min(view.size(), bytes_max)));
        from.sent(lane, bytes.size(), now);
        static_cast<void>(to.recv(lane, bytes, now));
        return bytes.size();
    }
    /// Moves everything both ways in send order until nothing is left; bounded.
    void settle() {
        for (int i = 0; i < 100000; ++i) {
            const auto from_prefill = prefill.next_lane(now);
            const auto from_decode = decode.next_lane(now);
            if (!from_prefill && !from_decode) {
                return;
            }
            if (from_prefill) {
                move(prefill, decode, *from_prefill);
            }
            if (from_decode) {
                move(decode, prefill, *from_decode);
            }
        }
    }
    /// The handshake and its events.
    void connect() {
        settle();
        events(prefill);
        events(decode);
    }
    /// Connects and makes `request` known on both sides.
    void start(const Request& request) {
        connect();
        static_cast<void>(decode.request(request, now));
        settle();
        events(prefill);
    }
    /// All events that wait; pages are released at once when `release`.
    std::vector<Event> events(Session& session, bool release = true) {
        std::vector<Event> all;
        while (auto event = session.poll_event()) {
            if (const auto* page = std::get_if<PageReceived>(&*event); page != nullptr && release) {
                session.release(*page, now);
            }
            all.push_back(std::move(*event));
        }
        return all;
    }
    template <class T>
    std::vector<T> events_of(Session& session, bool release = true) {
        std::vector<T> some;
        for (Event& event : events(session, release)) {
            if (auto* t = std::get_if<T>(&event)) {
                some.push_back(std::move(*t));
            }
        }
        return some;
    }

    Nanos now{1'000'000};
    Session prefill;
    Session decode;
};

}  // namespace lynx::wire
