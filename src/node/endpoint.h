// "HOST:PORT", what a node needs to listen or connect there, and the connection a decode node makes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "lynx/node.h"
#include "lynx/status.h"
#include "transport/link.h"
#include "transport/tcp/tcp.h"

namespace lynx::node {

struct Endpoint {
    std::string host;
    std::uint16_t port = 0;
};

/// "HOST:PORT", "[IPv6]:PORT". invalid_argument with the text when it is not, with a port of 0..65535.
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& text);

/// Reads the certificates or keys, if there are any. As TlsContext::load.
[[nodiscard]] Result<transport::TcpOptions> tcp_options(const PeerSecurity& security);

/// Connects both lanes, behind the emulated link when there is one.
[[nodiscard]] Result<std::unique_ptr<transport::Link>> connect(const Endpoint& endpoint,
                                                               const transport::TcpOptions& options,
                                                               const LinkEmulation& emulation, const base::Clock& clock,
                                                               base::Nanos deadline);

/// `link` itself, or an emulated link in front of it.
[[nodiscard]] std::unique_ptr<transport::Link> shape(std::unique_ptr<transport::Link> link,
                                                     const LinkEmulation& emulation, const base::Clock& clock);

}  // namespace lynx::node
