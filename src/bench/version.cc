#include "lynx/version.h"

#include <nlohmann/json.hpp>

#include "codec/codec.h"
#include "codec/container.h"
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
    nlohmann::ordered_json backends = nlohmann::ordered_json::array();
    for (const codec::BackendInfo& backend : codec::list_backends()) {
        if (backend.runnable) {
            backends.push_back(backend.name);
        }
    }
    nlohmann::ordered_json json;
    json["name"] = "lynxkv";
    json["version"] = kBuildVersion;
    json["commit"] = kBuildCommit;
    json["formats"] = {
        {"payload", codec::kPayloadVersion}, {"file", codec::kFileVersion}, {"wire", wire::kProtocolVersion}};
    json["codecs"] = codecs;
    json["backends"] = backends;
    json["transports"] = {"tcp", "sim"};
    json["engines"] = {"llama", "fake"};
    return json.dump();
}

}  // namespace lynx
