#include "bench/link_source.h"

#include <array>
#include <map>

#include "base/try.h"
#include "bench/opaque.h"
#include "lynx/link_bench.h"
#include "transport/pump.h"

namespace lynx {

namespace bench {
namespace {

static_assert(kLinkPeersMax <= node::kPeersMax);

constexpr std::size_t kFramesPerStep = 64;

/// What one sink asked for and has not got yet.
class OpaqueService {
public:
    /// Takes requests, queues frames. True: call again at once, there is more to queue.
    [[nodiscard]] Result<bool> step(wire::Session& session, base::Nanos now) {
        while (std::optional<wire::Event> event = session.poll_event()) {
            if (const auto* request = std::get_if<wire::Request>(&*event)) {
                start(session, *request, now);
            } else if (const auto* aborted = std::get_if<wire::Abort>(&*event)) {
                transfers_.erase(aborted->request);
            } else if (const auto* done = std::get_if<wire::Done>(&*event)) {
                transfers_.erase(done->request);
            }
        }
        std::size_t room = kFramesPerStep;
        for (auto& [_, transfer] : transfers_) {
            for (; room > 0 && transfer.left(); --room) {
                const Status sent = session.send_page(transfer.key(), transfer.payload(), now);
                if (sent.code() == ErrorCode::limit_exceeded) {
                    return false;  // until the queue has drained: the pump wakes up for that
                }
                LYNX_TRY(sent);
                ++transfer.at;
            }
        }
        return room == 0;
    }

private:
    struct Transfer {
        std::uint64_t request = 0;
        std::uint32_t generation = 0;
        std::uint64_t frames = 0;  ///< per tier
        std::array<wire::SharedPayload, 2> payloads;
        std::uint64_t at = 0;  ///< next frame: tier, page, kind

        [[nodiscard]] std::size_t tier() const { return at / frames; }
        [[nodiscard]] bool left() {
            while (tier() < payloads.size() && payloads[tier()] == nullptr) {
                at += frames;
            }
            return tier() < payloads.size();
        }
        [[nodiscard]] kv::PageKey key() const {
            const auto page = static_cast<std::uint32_t>(at % frames / kFramesPerPage);
            return {.request = request,
                    .generation = generation,
                    .layer = 0,
                    .kind = at % kFramesPerPage == 0 ? kv::Kind::key : kv::Kind::value,
                    .tier = static_cast<std::uint8_t>(tier()),
                    .page = page,
                    .first_token = page};
        }
        [[nodiscard]] wire::SharedPayload payload() const { return payloads[tier()]; }
    };

    void start(wire::Session& session, const wire::Request& request, base::Nanos now) {
        const Result<Opaque> opaque = parse_opaque(request);
        if (!opaque.ok()) {
            session.abort({request.request, request.generation, opaque.status().code(), opaque.status().message()},
                          now);
            return;
        }
        Transfer& transfer = transfers_[request.request];
        transfer = {.request = request.request,
                    .generation = request.generation,
                    .frames = std::uint64_t{kFramesPerPage} * request.prompt.size(),
                    .payloads = {}};
        for (std::size_t tier = 0; tier < transfer.payloads.size(); ++tier) {
            if (const std::uint32_t bytes = opaque.value().frame_bytes[tier]; bytes > 0) {
                transfer.payloads[tier] = std::make_shared<const base::Bytes>(bytes);
            }
        }
    }

    std::map<std::uint64_t, Transfer> transfers_;  // bounded by SessionOptions::requests_max
};

void serve_sink(const node::Peer& peer, const std::stop_token& stop) {
    const base::SteadyClock clock;
    wire::Session session(opaque_session(wire::Role::prefill, peer.connection_id), clock.now());
    OpaqueService service;
    const Status status = node::serve_session(session, *peer.link, clock, stop,
                                              [&](base::Nanos now) { return service.step(session, now); });
    session.close(status, clock.now());
    transport::finish(session, *peer.link, clock, clock.now() + transport::kLinger);
}

}  // namespace

Status serve_sinks(node::PeerServer& server, const LinkEmulation& link, const std::stop_token& stop) {
    return server.run(link, serve_sink, stop);
}

}  // namespace bench

Status run_link_source(const LinkSourceConfig& config, std::stop_token stop) {
    LYNX_ASSIGN(const auto server, node::PeerServer::listen(config.listen, config.security, {}));
    if (config.on_listening) {
        config.on_listening(server->port());
    }
    return bench::serve_sinks(*server, config.link, stop);
}

}  // namespace lynx
