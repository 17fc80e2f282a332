// The contract suite over TCP, TLS and the simulator, some also behind an emulated link.
#include "transport/link_contract.h"

#include "transport/emulated_link.h"
#include "transport/sim/sim_network.h"
#include "transport/tcp/tcp_test_util.h"
#include "transport/tcp/tls_test_util.h"

namespace lynx::transport {
namespace {

constexpr Emulation kShape{.rate_bits_per_s = 400e6, .delay = std::chrono::milliseconds(1)};

LinkPair behind_emulation(LinkPair pair) {
    pair.a = emulate(std::move(pair.a), kShape, *pair.clock);
    pair.b = emulate(std::move(pair.b), kShape, *pair.clock);
    return pair;
}

LinkPair make_tcp() {
    TcpPair tcp = make_tcp_pair();
    return {nullptr, std::make_shared<base::SteadyClock>(), std::move(tcp.client), std::move(tcp.server)};
}

LinkPair make_tls(const PeerSecurity& client, const PeerSecurity& server) {
    TcpOptions client_options;
    TcpOptions server_options;
    client_options.tls = load_tls(client);
    server_options.tls = load_tls(server);
    TcpPair tcp = make_tcp_pair(client_options, server_options);
    return {nullptr, std::make_shared<base::SteadyClock>(), std::move(tcp.client), std::move(tcp.server)};
}

LinkPair make_tls_certificates() {
    const TestFolder folder;
    TestAuthority authority(folder, "authority");
    return make_tls(authority.issue("decode", ""), authority.issue("prefill", "IP:127.0.0.1"));
}

LinkPair make_tls_keys() {
    const TestFolder folder;
    PeerSecurity security;
    security.key_file = folder.write("keys", key_line("node", '7'));
    return make_tls(security, security);
}

LinkPair make_sim() {
    auto clock = std::make_shared<base::VirtualClock>();
    auto network = std::make_shared<SimNetwork>(
        *clock, SimOptions{.seed = 3, .rate_bits_per_s = 1e9, .delay = std::chrono::milliseconds(1)});
    return {network, clock, network->end(0), network->end(1)};
}

INSTANTIATE_TEST_SUITE_P(Links, LinkContract,
                         testing::Values(LinkFactory{"tcp", make_tcp}, LinkFactory{"sim", make_sim},
                                         LinkFactory{"tcp_emulated", [] { return behind_emulation(make_tcp()); }},
                                         LinkFactory{"tls_certificates", make_tls_certificates},
                                         LinkFactory{"tls_keys", make_tls_keys},
                                         LinkFactory{"tls_emulated", [] { return behind_emulation(make_tls_keys()); }}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lynx::transport
