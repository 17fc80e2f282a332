#include "lynx/version.h"

#include <nlohmann/json.hpp>

#include "codec/codec.h"
#include "codec/format.h"
#include "lynx_build.h"
#include "wire/message.h"

namespace lynx {

std::string version_line() { return std::string("lynxkv ") + kBuildVersion + " (" + kBuildCommit + ")"; }

std::string version_json() {
    nlohmann::ordered_json codecs = nlohmann::ordered_json::array();
    for (const codec::CodecInfo& info : codec::list_codecs()) {
        codecs.push_back(info.name);
    }
    return nlohmann::ordered_json{
        {"name", "lynxkv"},
        {"version", kBuildVersion},
        {"commit", kBuildCommit},
        {"formats", {{"payload", codec::kPayloadVersion}, {"container", codec::kContainerVersion}, {"wire", wire::kProtocolVersion}}},
        {"codecs", codecs},
        {"backends", {"scalar"}},
        {"transports", {"tcp", "sim"}},
        {"engines", {"llama", "fake"}}}
        .dump();
}

}  // namespace lynx
