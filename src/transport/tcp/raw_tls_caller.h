// For tests: the calling side of TLS, in memory and without a node around it.
#pragma once

#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "lynx/security.h"
#include "transport/tcp/tls_stream.h"

namespace lynx::transport {

/// A calling peer that does with TLS what no node does. What it seals gathers in `sealed`, which the test sends on.
class RawCaller {
public:
    explicit RawCaller(const PeerSecurity& security) : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free) {
        SSL_CTX_use_certificate_chain_file(context_.get(), security.certificate.c_str());
        SSL_CTX_use_PrivateKey_file(context_.get(), security.private_key.c_str(), SSL_FILETYPE_PEM);
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_connect_state(ssl_.get());
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    }
    /// True once it is through with the handshake.
    bool prove(std::string_view heard) {
        if (!heard.empty()) {
            EXPECT_GT(BIO_write(SSL_get_rbio(ssl_.get()), heard.data(), static_cast<int>(heard.size())), 0);
        }
        return SSL_do_handshake(ssl_.get()) == 1;
    }
    void write(base::ByteView bytes) {
        EXPECT_EQ(SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())), static_cast<int>(bytes.size()));
    }
    /// `type`: SSL_KEY_UPDATE_REQUESTED or SSL_KEY_UPDATE_NOT_REQUESTED.
    void change_keys(int type) {
        EXPECT_EQ(SSL_key_update(ssl_.get(), type), 1);
        EXPECT_EQ(SSL_do_handshake(ssl_.get()), 1);
    }
    [[nodiscard]] std::string sealed() {
        std::string bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), '\0');
        if (!bytes.empty()) {
            EXPECT_EQ(BIO_read(SSL_get_wbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size())),
                      static_cast<int>(bytes.size()));
        }
        return bytes;
    }

private:
    std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
    std::unique_ptr<SSL, SslFree> ssl_;
};

}  // namespace lynx::transport
