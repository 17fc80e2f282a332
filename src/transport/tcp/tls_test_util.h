// Certificates and keys for tests, made afresh: an authority of its own per test, files in a folder that goes away.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "lynx/security.h"
#include "transport/tcp/tls.h"

namespace lynx::transport {

#define EXPECT_SAYS(status, text) EXPECT_NE((status).message().find(text), std::string::npos) << (status).to_string()

class TestFolder {
public:
    TestFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "lynx-tls-XXXXXX").string();
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
    }
    ~TestFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;

    [[nodiscard]] std::string path(const std::string& name) const { return (path_ / name).string(); }
    [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }

private:
    std::filesystem::path path_;
};

/// Signs certificates. Its own lies in NAME.pem, a node's in NODE.pem and NODE.key.
class TestAuthority {
public:
    TestAuthority(const TestFolder& folder, const std::string& name) : folder_(folder), name_(name) {
        certificate_ = make(name, "", 3600, nullptr);
        write_certificate(name, *certificate_);
    }
    /// PeerSecurity of a node with a fresh key. `names`: "DNS:a,IP:127.0.0.1"; `valid_s`: from now, negative: expired; `usage`:
    /// "serverAuth", "clientAuth", empty: both.
    [[nodiscard]] PeerSecurity issue(const std::string& node, const std::string& names, long valid_s = 3600,
                                     const std::string& usage = "") {
        Key key;
        const Certificate certificate = make(node, names, valid_s, &key, usage);
        write_certificate(node, *certificate);
        std::FILE* file = std::fopen(folder_.path(node + ".key").c_str(), "wb");
        EXPECT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
        std::fclose(file);
        PeerSecurity security;
        security.certificate = folder_.path(node + ".pem");
        security.private_key = folder_.path(node + ".key");
        security.authority = folder_.path(name_ + ".pem");
        return security;
    }

private:
    template <auto Free>
    struct Deleter {
        template <class T>
        void operator()(T* p) const {
            Free(p);
        }
    };
    using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
    using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;

    Certificate make(const std::string& subject, const std::string& names, long valid_s, Key* own,
                     const std::string& usage = "") {
        Key key(EVP_EC_gen("P-256"));
        Certificate made(X509_new());
        X509* c = made.get();
        X509_set_version(c, 2);
        ASN1_INTEGER_set(X509_get_serialNumber(c), ++serial_);
        X509_gmtime_adj(X509_getm_notBefore(c), -7200);
        X509_gmtime_adj(X509_getm_notAfter(c), valid_s);
        X509_NAME* name = X509_get_subject_name(c);
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(subject.c_str()),
                                   -1, -1, 0);
        X509_set_issuer_name(c, own == nullptr ? name : X509_get_subject_name(certificate_.get()));
        X509_set_pubkey(c, key.get());
        const auto extend = [c](int kind, const char* value) {
            X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
            EXPECT_EQ(X509_add_ext(c, extension, -1), 1) << value;
            X509_EXTENSION_free(extension);
        };
        extend(NID_basic_constraints, own == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
        if (!names.empty()) {
            extend(NID_subject_alt_name, names.c_str());
        }
        if (!usage.empty()) {
            extend(NID_ext_key_usage, usage.c_str());
        }
        EXPECT_GT(X509_sign(c, own == nullptr ? key.get() : key_.get(), EVP_sha256()), 0);
        (own == nullptr ? key_ : *own) = std::move(key);
        return made;
    }
    void write_certificate(const std::string& name, X509& certificate) const {
        std::FILE* file = std::fopen(folder_.path(name + ".pem").c_str(), "wb");
        EXPECT_EQ(PEM_write_X509(file, &certificate), 1);
        std::fclose(file);
    }

    const TestFolder& folder_;
    std::string name_;
    Key key_;
    Certificate certificate_;
    long serial_ = 0;
};

/// An authority and a certificate of it for either node.
class TlsNodes : public testing::Test {
protected:
    TestFolder folder_;
    TestAuthority authority_{folder_, "authority"};
    PeerSecurity prefill_ = authority_.issue("prefill-1", "DNS:prefill.test,IP:127.0.0.1");
    PeerSecurity decode_ = authority_.issue("decode-1", "DNS:decode.test");
};

/// A line of a key file; every digit of the key is `digit`.
inline std::string key_line(const std::string& name, char digit) { return name + ":" + std::string(64, digit) + "\n"; }

inline std::shared_ptr<const TlsContext> load_tls(const PeerSecurity& security) {
    auto context = TlsContext::load(security);
    EXPECT_TRUE(context.ok()) << context.status().to_string();
    return context.ok() ? context.value() : nullptr;
}

}  // namespace lynx::transport
