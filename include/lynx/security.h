// How two nodes prove to each other who they are. Standard types only.
#pragma once

#include <string>

namespace lynx {

/// Either certificates (certificate, private_key and authority) or pre-shared keys (key_file), for TLS 1.3 both ways.
/// None: plaintext, which only loopback permits unless allow_plaintext does.
struct PeerSecurity {
    std::string certificate;  ///< PEM file: this node's certificate, then what links it to the authority
    std::string private_key;  ///< PEM file
    std::string authority;    ///< PEM file: whoever signs the peers' certificates
    /// DNS name or IP address that the peer's certificate must carry as a subjectAltName. Empty: of a listening node
    /// the host it was called by; of a calling one any.
    std::string peer_name;
    std::string key_file;  ///< lines of NAME:HEX (32 bytes); a calling node uses the first, a listening one takes any
    bool allow_plaintext = false;  ///< anybody on the way can read and change everything

    [[nodiscard]] bool tls() const noexcept {
        return !(certificate.empty() && private_key.empty() && authority.empty() && peer_name.empty() &&
                 key_file.empty());
    }
};

}  // namespace lynx
