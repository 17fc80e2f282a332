#include "transport/tcp/key_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/try.h"
#include "transport/tcp/socket.h"

namespace lynx::transport {
namespace {

bool good_name(std::string_view name) {
    const auto good = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    };
    return !name.empty() && name.size() <= kKeyNameBytesMax && std::ranges::all_of(name, good);
}

bool parse_hex(std::string_view hex, std::array<unsigned char, kKeyBytes>& out) {
    if (hex.size() != 2 * kKeyBytes) {
        return false;
    }
    for (std::size_t i = 0; i < kKeyBytes; ++i) {
        const char* first = hex.data() + 2 * i;
        const auto [stop, error] = std::from_chars(first, first + 2, out[i], 16);
        if (error != std::errc{} || stop != first + 2) {
            return false;
        }
    }
    return true;
}

}  // namespace

Result<std::vector<NamedKey>> parse_keys(std::string_view text) {
    std::vector<NamedKey> keys;
    std::size_t number = 0;
    while (!text.empty()) {
        ++number;
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        if (line.empty() || line.front() == '#') {
            continue;
        }
        const auto wrong = [number](const char* what) {
            return Status{ErrorCode::invalid_argument, "line " + std::to_string(number) + ": " + what};
        };
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) {
            return wrong("expected NAME:HEX");
        }
        NamedKey key;
        key.name = line.substr(0, colon);
        if (!good_name(key.name)) {
            return wrong("a name is 1 to 64 letters, digits, '.', '_' or '-'");
        }
        if (!parse_hex(line.substr(colon + 1), key.secret)) {
            return wrong("a key is 64 hexadecimal digits");
        }
        if (std::ranges::any_of(keys, [&](const NamedKey& other) { return other.name == key.name; })) {
            return wrong("the name was there before");
        }
        if (keys.size() == kKeysMax) {
            return Status{ErrorCode::limit_exceeded, "more than " + std::to_string(kKeysMax) + " keys"};
        }
        keys.push_back(std::move(key));
    }
    if (keys.empty()) {
        return Status{ErrorCode::invalid_argument, "no key in it"};
    }
    return keys;
}

Result<std::vector<NamedKey>> read_key_file(const std::string& path) {
    const std::string what = "key file " + path;
    // Non-blocking: to open a pipe that nobody writes would be to wait for somebody who does.
    const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    struct stat about {};
    if (!file.valid() || ::fstat(file.get(), &about) != 0) {
        return os_error(what, errno);
    }
    if (!S_ISREG(about.st_mode)) {
        return Status{ErrorCode::invalid_argument, what + ": expected a regular file"};
    }
    std::string text(kKeyFileBytesMax + 1, '\0');
    std::size_t have = 0;
    for (ssize_t n = 1; n > 0 && have < text.size(); have += static_cast<std::size_t>(n)) {
        n = ::read(file.get(), text.data() + have, text.size() - have);
        if (n < 0) {
            return os_error(what, errno);
        }
    }
    text.resize(have);
    if (text.size() > kKeyFileBytesMax) {
        return Status{ErrorCode::limit_exceeded, what + ": more than " + std::to_string(kKeyFileBytesMax) + " bytes"};
    }
    Result<std::vector<NamedKey>> keys = parse_keys(text);
    return keys.ok() ? std::move(keys) : keys.status().with_context(what);
}

}  // namespace lynx::transport
