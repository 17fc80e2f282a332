#include "bench/opaque.h"

#include <algorithm>

#include "base/bytes.h"

namespace lynx::bench {

namespace {
constexpr const char* kCodec = "opaque";
}

wire::SessionOptions opaque_session(wire::Role role, std::uint64_t connection_id) {
    wire::SessionOptions options;
    options.hello.role = role;
    options.hello.connection_id = connection_id;
    // No model has this fingerprint: neither side can be taken for a node.
    std::ranges::copy(std::string_view("lynx link bench."), options.hello.fingerprint.begin());
    options.hello.geometry.layers = {{.kv_heads = 1, .key_dim = 1, .value_dim = 1, .rope = {}}};
    return options;
}

wire::Request opaque_request(std::uint64_t id, std::uint32_t pages, const Opaque& opaque) {
    wire::Request request{
        .request = id, .generation = 1, .prompt = {}, .codec = kCodec, .codec_params = {}, .sampler = {}};
    request.prompt.resize(pages);
    request.page_tokens = 1;
    request.tiers = static_cast<std::uint8_t>(opaque.frame_bytes.size());
    base::Writer writer(request.codec_params);
    for (const std::uint32_t bytes : opaque.frame_bytes) {
        writer.put(bytes);
    }
    return request;
}

Result<Opaque> parse_opaque(const wire::Request& request) {
    Opaque opaque;
    base::Reader reader(request.codec_params);
    for (std::uint32_t& bytes : opaque.frame_bytes) {
        bytes = reader.get<std::uint32_t>();
    }
    const bool sizes = std::ranges::all_of(opaque.frame_bytes, [](auto n) { return n <= kOpaqueFrameBytesMax; });
    if (request.codec != kCodec || reader.failed() || reader.remaining() > 0 || !sizes || request.page_tokens != 1 ||
        request.tiers != opaque.frame_bytes.size()) {
        return Status{ErrorCode::invalid_argument, "request: a link benchmark's source sends opaque frames only"};
    }
    return opaque;
}

}  // namespace lynx::bench
