// "HOST:PORT" and the connection a decode node makes to it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "lynx/node.h"
#include "lynx/status.h"
#include "transport/link.h"

namespace lynx::node {

struct Endpoint {
    std::string host;
    std::uint16_t port = 0;
};

/// invalid_argument with the text when it is not HOST:PORT with a port of 0..65535.
[[nodiscard]] Result<Endpoint> parse_endpoint(const std::string& text);

/// Connects both lanes, behind the emulated link when there is one.
[[nodiscard]] Result<std::unique_ptr<transport::Link>> connect(const Endpoint& endpoint, const LinkEmulation& emulation,
                                                               const base::Clock& clock, base::Nanos deadline);

/// `link` itself, or an emulated link in front of it.
[[nodiscard]] std::unique_ptr<transport::Link> shape(std::unique_ptr<transport::Link> link,
                                                     const LinkEmulation& emulation, const base::Clock& clock);

}  // namespace lynx::node
