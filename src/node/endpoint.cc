#include "node/endpoint.h"

#include <charconv>

#include "base/try.h"
#include "base/units.h"
#include "transport/emulated_link.h"
#include "transport/tcp/tls.h"

namespace lynx {

Result<double> parse_link_rate(std::string_view text) { return base::parse_rate(text); }
Result<double> parse_link_delay(std::string_view text) {
    LYNX_ASSIGN(const base::Nanos delay, base::parse_duration(text));
    return base::to_seconds(delay);
}

namespace node {

Result<Endpoint> parse_endpoint(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    Endpoint endpoint;
    if (colon != std::string::npos && colon > 0) {
        endpoint.host = text.substr(0, colon);
        if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
            endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
        }
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
        if (error == std::errc{} && stop == end) {
            return endpoint;
        }
    }
    return Status{ErrorCode::invalid_argument, "address: expected HOST:PORT, actual '" + text + "'"};
}

std::unique_ptr<transport::Link> shape(std::unique_ptr<transport::Link> link, const LinkEmulation& emulation,
                                       const base::Clock& clock) {
    if (!emulation.active()) {
        return link;
    }
    return std::make_unique<transport::EmulatedLink>(
        std::move(link),
        transport::Emulation{.rate_bits_per_s = emulation.rate_bits_per_s,
                             .delay = base::from_seconds(emulation.delay_s)},
        clock);
}

Result<transport::TcpOptions> tcp_options(const PeerSecurity& security) {
    transport::TcpOptions options;
    if (security.tls()) {
        LYNX_ASSIGN(options.tls, transport::TlsContext::load(security));
    }
    options.allow_plaintext = security.allow_plaintext;
    return options;
}

Result<std::unique_ptr<transport::Link>> connect(const Endpoint& endpoint, const transport::TcpOptions& options,
                                                 const LinkEmulation& emulation, const base::Clock& clock,
                                                 base::Nanos deadline) {
    LYNX_ASSIGN(std::unique_ptr<transport::Link> link,
                transport::tcp_connect(endpoint.host, endpoint.port, options, deadline));
    return shape(std::move(link), emulation, clock);
}

}  // namespace node
}  // namespace lynx
