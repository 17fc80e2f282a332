// What this build is.
#pragma once

#include <string>

namespace lynx {

/// {"name", "version", "commit", "formats": {"payload", "file", "wire"}, "codecs": [...], "backends": [...], "transports": [...],
/// "engines": [...]} as one line of JSON.
[[nodiscard]] std::string version_json();
/// "lynxkv 0.1.0 (abcdef0)".
[[nodiscard]] std::string version_line();

}  // namespace lynx
