// A Stream through OpenSSL. What OpenSSL seals lands in a buffer of ours first: a record that the socket has no room
// for stays there, so that the caller is free to offer another frame next.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>

#include "transport/tcp/stream.h"

namespace lynx::transport {

struct SslFree {
    void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
};

struct TlsConnection {
    std::unique_ptr<SSL, SslFree> ssl{};    ///< configured, in its role, without a BIO
    std::shared_ptr<const void> context{};  ///< whatever the callbacks of `ssl` need
    bool keyed = false;                     ///< the peer proves itself by a pre-shared key, not by a certificate
    std::uint64_t bytes_per_key = 0;        ///< what one key may seal
};

/// io when there is no memory for it.
[[nodiscard]] Result<std::unique_ptr<Stream>> tls_stream(TlsConnection connection, Fd socket);

/// The oldest error of OpenSSL's queue as text; empties the queue.
[[nodiscard]] std::string openssl_error();

}  // namespace lynx::transport
