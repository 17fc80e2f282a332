// The options of one request, shared by `decode` and `generate`.
#pragma once

#include "cli_options.h"
#include "lynx/node.h"

namespace lynxkv {

struct DecodeOptions {
    lynx::DecodeConfig config;
    lynx::GenerateRequest request;
    LinkOptions link;
    PromptOptions prompt;
    bool provisional = false;
    bool json = false;

    /// Everything but model, link and peer.
    void add(CLI::App& app);
};

}  // namespace lynxkv
