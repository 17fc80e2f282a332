#include "transport/tcp/tls.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "base/try.h"
#include "transport/tcp/key_file.h"
#include "transport/tcp/tls_stream.h"

namespace lynx::transport {
namespace {

struct ContextFree {
    void operator()(SSL_CTX* context) const noexcept { SSL_CTX_free(context); }
};

bool is_address(const std::string& name) {
    unsigned char bytes[16];
    return ::inet_pton(AF_INET, name.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

/// Whoever verifies peers must name a context, and takes pre-shared keys only of the same.
constexpr unsigned char kSessionContext[] = {'l', 'y', 'n', 'x'};

/// RFC 8446, 4.2.11: an external pre-shared key is bound to one hash; SHA-256, which every such suite of ours uses.
SSL_SESSION* session_of(const NamedKey& key, SSL* ssl) {
    constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256);
    SSL_SESSION* session = SSL_SESSION_new();
    const bool good = cipher != nullptr && session != nullptr &&
                      SSL_SESSION_set1_master_key(session, key.secret.data(), key.secret.size()) == 1 &&
                      SSL_SESSION_set1_id_context(session, kSessionContext, sizeof kSessionContext) == 1 &&
                      SSL_SESSION_set_cipher(session, cipher) == 1 &&
                      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
    if (!good) {
        SSL_SESSION_free(session);
        return nullptr;
    }
    return session;
}

class OpenSslContext final : public TlsContext, public std::enable_shared_from_this<OpenSslContext> {
public:
    OpenSslContext(const PeerSecurity& security, std::uint64_t bytes_per_key)
        : security_(security), bytes_per_key_(bytes_per_key) {}

    Status load() {
        context_.reset(SSL_CTX_new(TLS_method()));
        SSL_CTX* c = context_.get();
        if (c == nullptr || SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION) != 1) {
            return {ErrorCode::io, "TLS: " + openssl_error()};
        }
        SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
        SSL_CTX_set_num_tickets(c, 0);
        SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
        // An encrypted private key is an error, not a question on the terminal.
        SSL_CTX_set_default_passwd_cb(c, [](char*, int, int, void*) { return -1; });
        SSL_CTX_set_session_id_context(c, kSessionContext, sizeof kSessionContext);
        return security_.key_file.empty() ? load_certificates() : load_keys();
    }

    Result<std::unique_ptr<Stream>> connecting(Fd socket, const std::string& host) const override {
        return stream(std::move(socket), true, security_.peer_name.empty() ? host : security_.peer_name);
    }
    Result<std::unique_ptr<Stream>> accepting(Fd socket) const override {
        return stream(std::move(socket), false, security_.peer_name);
    }

private:
    Status load_certificates() {
        if (security_.certificate.empty() || security_.private_key.empty() || security_.authority.empty()) {
            return {ErrorCode::invalid_argument, "TLS: a certificate, its private key and an authority go together"};
        }
        for (const std::string* path : {&security_.certificate, &security_.private_key, &security_.authority}) {
            std::error_code ignored;  // what is not there OpenSSL tells better
            if (std::filesystem::exists(*path, ignored) && !std::filesystem::is_regular_file(*path, ignored)) {
                return {ErrorCode::invalid_argument, "TLS: " + *path + ": expected a regular file"};
            }
        }
        SSL_CTX* c = context_.get();
        const auto failed = [](const std::string& what, const std::string& path) {
            return Status{ErrorCode::invalid_argument, "TLS: " + what + " " + path + ": " + openssl_error()};
        };
        if (SSL_CTX_use_certificate_chain_file(c, security_.certificate.c_str()) != 1) {
            return failed("certificate", security_.certificate);
        }
        if (SSL_CTX_use_PrivateKey_file(c, security_.private_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
            SSL_CTX_check_private_key(c) != 1) {
            return failed("private key", security_.private_key);
        }
        if (SSL_CTX_load_verify_locations(c, security_.authority.c_str(), nullptr) != 1) {
            return failed("authority", security_.authority);
        }
        return {};
    }

    Status load_keys() {
        if (!security_.certificate.empty() || !security_.private_key.empty() || !security_.authority.empty() ||
            !security_.peer_name.empty()) {
            return {ErrorCode::invalid_argument, "TLS: a key file and certificates exclude each other"};
        }
        LYNX_ASSIGN(keys_, read_key_file(security_.key_file));
        SSL_CTX* c = context_.get();
        if (SSL_CTX_set_ciphersuites(c, "TLS_AES_128_GCM_SHA256") != 1) {
            return {ErrorCode::io, "TLS: " + openssl_error()};
        }
        SSL_CTX_set_app_data(c, this);
        SSL_CTX_set_psk_use_session_callback(c, offer_key);
        SSL_CTX_set_psk_find_session_callback(c, find_key);
        return {};
    }

    [[nodiscard]] Result<std::unique_ptr<Stream>> stream(Fd socket, bool connecting, const std::string& name) const {
        TlsConnection connection{.ssl = std::unique_ptr<SSL, SslFree>(SSL_new(context_.get())),
                                 .context = shared_from_this(),
                                 .keyed = !keys_.empty(),
                                 .bytes_per_key = bytes_per_key_};
        SSL* ssl = connection.ssl.get();
        bool good = ssl != nullptr;
        if (good && connecting) {
            SSL_set_connect_state(ssl);
        } else if (good) {
            SSL_set_accept_state(ssl);
        }
        if (good && keys_.empty() && !name.empty()) {
            X509_VERIFY_PARAM* check = SSL_get0_param(ssl);
            X509_VERIFY_PARAM_set_hostflags(check,
                                            X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
            good = is_address(name) ? X509_VERIFY_PARAM_set1_ip_asc(check, name.c_str()) == 1
                                    : X509_VERIFY_PARAM_set1_host(check, name.c_str(), name.size()) == 1;
        }
        if (!good) {
            return Status{ErrorCode::io, "TLS: " + openssl_error()};
        }
        return tls_stream(std::move(connection), std::move(socket));
    }

    static const OpenSslContext& of(SSL* ssl) {
        return *static_cast<const OpenSslContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    }
    static void remember(SSL* ssl, const NamedKey& key) { SSL_set_app_data(ssl, const_cast<char*>(key.name.c_str())); }

    static int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* size,
                         SSL_SESSION** session) {
        const NamedKey& key = of(ssl).keys_.front();
        *session = digest == nullptr || EVP_MD_is_a(digest, "SHA256") == 1 ? session_of(key, ssl) : nullptr;
        *id = reinterpret_cast<const unsigned char*>(key.name.data());
        *size = key.name.size();
        remember(ssl, key);
        return *session != nullptr ? 1 : 0;
    }
    /// No session: the handshake goes on without a key and fails for want of a certificate, as it must.
    static int find_key(SSL* ssl, const unsigned char* id, std::size_t size, SSL_SESSION** session) {
        *session = nullptr;
        const std::string_view name(reinterpret_cast<const char*>(id), size);
        for (const NamedKey& key : of(ssl).keys_) {
            if (key.name == name) {
                *session = session_of(key, ssl);
                remember(ssl, key);
                return *session != nullptr ? 1 : 0;
            }
        }
        return 1;
    }

    PeerSecurity security_;
    std::uint64_t bytes_per_key_;
    std::unique_ptr<SSL_CTX, ContextFree> context_;
    std::vector<NamedKey> keys_;
};

}  // namespace

Result<std::shared_ptr<const TlsContext>> TlsContext::load(const PeerSecurity& security, std::uint64_t bytes_per_key) {
    auto context = std::make_shared<OpenSslContext>(security, bytes_per_key);
    LYNX_TRY(context->load());
    return std::shared_ptr<const TlsContext>(std::move(context));
}

}  // namespace lynx::transport
