// TLS 1.3, both sides proven: by certificates of one authority, or by a pre-shared key. No session tickets, no
// renegotiation, no early data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lynx/security.h"
#include "lynx/status.h"
#include "transport/tcp/stream.h"

namespace lynx::transport {

/// RFC 8446, 5.5: an AES-GCM key may seal 2^24.5 full records; this is an eighth of that.
inline constexpr std::uint64_t kBytesPerKey = std::uint64_t{1} << 35;

/// What a node shows and trusts. Immutable once loaded: any number of connections and threads may share it.
class TlsContext {
public:
    /// Reads the files. invalid_argument: incomplete, both ways at once, or not what they should be; io: unreadable.
    /// A new key seals what follows after `bytes_per_key`.
    [[nodiscard]] static Result<std::shared_ptr<const TlsContext>> load(const PeerSecurity& security,
                                                                        std::uint64_t bytes_per_key = kBytesPerKey);
    virtual ~TlsContext() = default;

    /// The stream of a connected socket. `host`: whom it was connected to, the name that a peer's certificate must
    /// carry unless PeerSecurity::peer_name says another.
    [[nodiscard]] virtual Result<std::unique_ptr<Stream>> connecting(Fd socket, const std::string& host) const = 0;
    [[nodiscard]] virtual Result<std::unique_ptr<Stream>> accepting(Fd socket) const = 0;
};

}  // namespace lynx::transport
