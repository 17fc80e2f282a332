#include "transport/tcp/tls_stream.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace lynx::transport {
namespace {

/// One record fits many times; exceeded only by a peer that wants answers (to key updates) and does not read them.
constexpr std::size_t kHeldBytesMax = std::size_t{1} << 18;
/// What one call may take from the socket. Messages without bytes for the caller (key updates) have no end of their
/// own, and a listener has other peers and a deadline.
constexpr std::size_t kReceiveBytesMax = std::size_t{1} << 16;

/// The socket and the sealed bytes it had no room for. OpenSSL reads and writes through it.
class Wire {
public:
    explicit Wire(Fd socket) noexcept : socket_(std::move(socket)) {}

    [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
    [[nodiscard]] std::size_t held_bytes() const noexcept { return held_.size() - sent_; }
    [[nodiscard]] int error() const noexcept { return error_; }

    void hold(const char* data, std::size_t size) { held_.insert(held_.end(), data, data + size); }

    void flush() noexcept {
        while (error_ == 0 && sent_ < held_.size()) {
            const ssize_t n = ::send(socket_.get(), held_.data() + sent_, held_.size() - sent_, MSG_NOSIGNAL);
            if (n < 0) {
                if (!would_block(errno)) {
                    fail(errno);
                }
                return;
            }
            sent_ += static_cast<std::size_t>(n);
        }
        held_.clear();
        sent_ = 0;
        if (ending_ && error_ == 0) {
            ::shutdown(socket_.get(), SHUT_WR);
            ending_ = false;
        }
    }
    /// Ends the sending side once everything held has left.
    void end() noexcept {
        ending_ = true;
        flush();
    }
    /// How much receive() may take until the next call; then it would block, as if nothing had come.
    void allow(std::size_t bytes) noexcept { allowed_ = bytes; }
    [[nodiscard]] ssize_t receive(char* data, std::size_t size) noexcept {
        if (allowed_ == 0) {
            errno = EAGAIN;
            return -1;
        }
        const ssize_t n = ::recv(socket_.get(), data, std::min(size, allowed_), 0);
        if (n > 0) {
            allowed_ -= static_cast<std::size_t>(n);
        } else if (n < 0 && !would_block(errno)) {
            fail(errno);
        }
        return n;
    }

private:
    void fail(int error) noexcept {
        error_ = error;
        held_.clear();
        sent_ = 0;
    }

    Fd socket_;
    std::vector<char> held_;
    std::size_t sent_ = 0;
    std::size_t allowed_ = 0;
    int error_ = 0;  ///< errno of the socket's first failure
    bool ending_ = false;
};

Wire& wire_of(BIO* bio) { return *static_cast<Wire*>(BIO_get_data(bio)); }

int bio_write(BIO* bio, const char* data, int size) {
    BIO_clear_retry_flags(bio);
    if (wire_of(bio).error() != 0) {
        return -1;
    }
    wire_of(bio).hold(data, static_cast<std::size_t>(size));
    return size;
}

int bio_read(BIO* bio, char* data, int size) {
    BIO_clear_retry_flags(bio);
    const ssize_t n = wire_of(bio).receive(data, static_cast<std::size_t>(size));
    if (n < 0 && would_block(errno)) {
        BIO_set_retry_read(bio);
    }
    if (n == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    }
    return static_cast<int>(n);
}

long bio_ctrl(BIO* bio, int command, long /*number*/, void* /*pointer*/) {
    switch (command) {
        case BIO_CTRL_FLUSH: return 1;
        case BIO_CTRL_EOF: return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
        default: return 0;
    }
}

const BIO_METHOD* bio_method() {
    // One for the process, never freed: streams may outlive every static.
    static BIO_METHOD* const kMethod = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "lynx socket");
        if (made != nullptr) {
            BIO_meth_set_write(made, bio_write);
            BIO_meth_set_read(made, bio_read);
            BIO_meth_set_ctrl(made, bio_ctrl);
        }
        return made;
    }();
    return kMethod;
}

/// "CN=decode-1 sha256:0011223344556677": enough to tell two certificates of one subject apart.
std::string describe(const X509* certificate) {
    std::string text;
    BIO* out = BIO_new(BIO_s_mem());
    if (out != nullptr && X509_NAME_print_ex(out, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) >= 0) {
        char* data = nullptr;
        const long size = BIO_get_mem_data(out, &data);
        text.assign(data, static_cast<std::size_t>(std::max(size, 0L)));
    }
    BIO_free(out);
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (X509_digest(certificate, EVP_sha256(), digest, &size) == 1) {
        text += " sha256:";
        for (unsigned int i = 0; i < std::min(size, 8U); ++i) {
            char hex[3];
            std::snprintf(hex, sizeof hex, "%02x", digest[i]);
            text += hex;
        }
    }
    return text;
}

class TlsStream final : public Stream {
public:
    TlsStream(TlsConnection connection, Fd socket)
        : wire_(std::move(socket)),
          context_(std::move(connection.context)),
          ssl_(std::move(connection.ssl)),
          keyed_(connection.keyed),
          bytes_per_key_(connection.bytes_per_key) {}

    Status attach() {
        BIO* bio = bio_method() == nullptr ? nullptr : BIO_new(bio_method());
        if (bio == nullptr) {
            return {ErrorCode::io, "TLS: " + openssl_error()};
        }
        BIO_set_data(bio, &wire_);
        BIO_set_init(bio, 1);
        SSL_set_bio(ssl_.get(), bio, bio);
        SSL_set_read_ahead(ssl_.get(), 1);
        SSL_set_default_read_buffer_len(ssl_.get(), kReceiveBytesMax);
        return {};
    }

    Result<bool> prove() override {
        if (proven_) {
            return true;
        }
        if (!failure_.ok()) {
            return failure_;
        }
        ERR_clear_error();
        wire_.allow(kReceiveBytesMax);
        const int done = SSL_do_handshake(ssl_.get());
        if (done != 1) {
            const Result<std::size_t> failed = outcome(done);
            wire_.flush();
            return failed.ok() ? Result<bool>(false) : failed.status();
        }
        wire_.flush();
        // A handshake that OpenSSL lets through without the proof that was asked for must not count, whatever the cause.
        if (keyed_
                ? SSL_session_reused(ssl_.get()) != 1
                : SSL_get0_peer_certificate(ssl_.get()) == nullptr || SSL_get_verify_result(ssl_.get()) != X509_V_OK) {
            return failure_ = Status{ErrorCode::unauthenticated, "TLS: the peer did not prove who it is"};
        }
        proven_ = true;
        return true;
    }

    Result<std::size_t> write(base::ByteView bytes) override {
        const Result<bool> ready = prove();
        if (!ready.ok()) {
            return ready.status();
        }
        wire_.flush();
        if (wire_.error() != 0) {
            return socket_error(wire_.error());
        }
        if (!failure_.ok()) {
            return failure_;
        }
        if (!ready.value() || bytes.empty() || wire_.held_bytes() > 0) {
            return std::size_t{0};
        }
        if (sealed_bytes_ >= bytes_per_key_) {
            SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
            sealed_bytes_ = 0;
        }
        ERR_clear_error();
        // It cannot block: whatever it seals is taken by hold().
        const auto size = std::min<std::uint64_t>({bytes.size(), kSealBytes, bytes_per_key_ - sealed_bytes_});
        const int n = SSL_write(ssl_.get(), bytes.data(), static_cast<int>(size));
        if (n <= 0) {
            return outcome(n);
        }
        sealed_bytes_ += static_cast<std::uint64_t>(n);
        wire_.flush();
        return static_cast<std::size_t>(n);
    }

    Result<std::size_t> read(std::span<std::byte> buffer) override {
        const Result<bool> ready = prove();
        if (!ready.ok()) {
            return ready.status();
        }
        may_hold_input_ = false;
        if (!failure_.ok()) {
            return failure_;
        }
        if (!ready.value() || buffer.empty()) {
            return std::size_t{0};
        }
        if (wire_.held_bytes() > kHeldBytesMax) {
            return failure_ = Status{ErrorCode::limit_exceeded, "TLS: the peer asks for new keys and reads no answer"};
        }
        ERR_clear_error();
        wire_.allow(kReceiveBytesMax);
        const int n =
            SSL_read(ssl_.get(), buffer.data(), static_cast<int>(std::min(buffer.size(), std::size_t{1} << 30)));
        wire_.flush();  // reading may have answered: a key update, an alert
        if (n <= 0) {
            return outcome(n);
        }
        may_hold_input_ = true;
        return static_cast<std::size_t>(n);
    }

    void shutdown() noexcept override {
        // A second call of SSL_shutdown would read, and lose what the peer still says.
        if (proven_ && failure_.ok() && (SSL_get_shutdown(ssl_.get()) & SSL_SENT_SHUTDOWN) == 0) {
            ERR_clear_error();
            static_cast<void>(SSL_shutdown(ssl_.get()));
        }
        wire_.end();
    }

    void flush() noexcept override { wire_.flush(); }
    [[nodiscard]] std::size_t held_bytes() const noexcept override { return wire_.held_bytes(); }
    [[nodiscard]] bool may_hold_input() const noexcept override {
        return may_hold_input_ && SSL_has_pending(ssl_.get()) == 1;
    }
    [[nodiscard]] int descriptor() const noexcept override { return wire_.descriptor(); }

    [[nodiscard]] std::string identity() const override {
        if (!proven_) {
            return {};
        }
        if (!keyed_) {
            return describe(SSL_get0_peer_certificate(ssl_.get()));
        }
        const char* name = static_cast<const char*>(SSL_get_app_data(ssl_.get()));
        return name == nullptr ? "key" : "key " + std::string(name);
    }

private:
    // Records per system call: one by one, waking the other side costs more than the cipher does.
    static constexpr std::size_t kSealBytes = std::size_t{1} << 16;

    /// What a call of OpenSSL that returned `result` <= 0 means: 0 (would block) or the failure.
    Result<std::size_t> outcome(int result) {
        const int why = SSL_get_error(ssl_.get(), result);
        if (why == SSL_ERROR_WANT_READ) {  // never to write: hold() takes everything
            return std::size_t{0};
        }
        if (why == SSL_ERROR_ZERO_RETURN) {  // one way only: writing goes on
            return Status{ErrorCode::peer_lost, "the peer closed the connection"};
        }
        failure_ = failure(why);
        return failure_;
    }

    Status failure(int why) const {
        const int reason = ERR_GET_REASON(ERR_peek_error());
        const bool ended = why == SSL_ERROR_SSL && reason == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        if (ended || why == SSL_ERROR_SYSCALL) {
            ERR_clear_error();
            if (!proven_) {
                return {ErrorCode::peer_lost, "the peer hung up during the TLS handshake; it may not expect TLS"};
            }
            return ended || wire_.error() == 0
                       ? Status{ErrorCode::peer_lost, "the peer closed the connection without saying so"}
                       : socket_error(wire_.error());
        }
        const long verdict = SSL_get_verify_result(ssl_.get());
        std::string text = "TLS: " + openssl_error();
        if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verdict != X509_V_OK) {
            text += std::string(" (") + X509_verify_cert_error_string(verdict) + ")";
        }
        return {proven_ && !is_refusal(reason) ? ErrorCode::corrupt : ErrorCode::unauthenticated, text};
    }

    /// An alert by which the peer refuses this side. It may come after the handshake: a caller is through with that
    /// before the listener has looked at its certificate.
    static bool is_refusal(int reason) noexcept {
        constexpr std::array kAlerts = {
            SSL_AD_HANDSHAKE_FAILURE,   SSL_AD_BAD_CERTIFICATE,     SSL_AD_UNSUPPORTED_CERTIFICATE,
            SSL_AD_CERTIFICATE_REVOKED, SSL_AD_CERTIFICATE_EXPIRED, SSL_AD_CERTIFICATE_UNKNOWN,
            SSL_AD_ILLEGAL_PARAMETER,   SSL_AD_UNKNOWN_CA,          SSL_AD_ACCESS_DENIED,
            SSL_AD_DECRYPT_ERROR,       SSL_AD_PROTOCOL_VERSION,    SSL_AD_INSUFFICIENT_SECURITY,
            SSL_AD_UNKNOWN_PSK_IDENTITY};
        constexpr int kCertificateRequired = 116;  // OpenSSL 3 has no public name for it
        const int alert = reason - SSL_AD_REASON_OFFSET;
        return alert == kCertificateRequired || std::ranges::find(kAlerts, alert) != kAlerts.end();
    }

    Wire wire_;
    std::shared_ptr<const void> context_;
    std::unique_ptr<SSL, SslFree> ssl_;  ///< its BIO points to wire_
    bool keyed_;
    std::uint64_t bytes_per_key_;
    std::uint64_t sealed_bytes_ = 0;  ///< with the present key
    bool proven_ = false;
    bool may_hold_input_ = false;
    Status failure_;  ///< OpenSSL must not be called again after it
};

}  // namespace

std::string openssl_error() {
    const unsigned long error = ERR_get_error();
    ERR_clear_error();
    if (error == 0) {
        return "unknown error";
    }
    const char* reason = ERR_reason_error_string(error);
    return reason != nullptr ? reason : "error " + std::to_string(ERR_GET_REASON(error));
}

Result<std::unique_ptr<Stream>> tls_stream(TlsConnection connection, Fd socket) {
    auto stream = std::make_unique<TlsStream>(std::move(connection), std::move(socket));
    if (const Status status = stream->attach(); !status.ok()) {
        return status;
    }
    return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace lynx::transport
