// lynxkv decode: one request against a prefill node that runs elsewhere.
#include <cstdio>
#include <memory>

#include "commands.h"
#include "decode_options.h"
#include "exit_codes.h"
#include "lynx/bench.h"
#include "terminal.h"

namespace lynxkv {

void DecodeOptions::add(CLI::App& app) {
    add_prompt_options(app, prompt);
    app.add_flag("--chat", request.chat, "wrap the prompt in the model's chat template");
    add_codec_options(app, request.codec);
    add_sampling_options(app, request);
    app.add_option("--prefill-timeout", config.prefill_timeout_s,
                   "seconds without news of the prefill after which the request fails")
        ->capture_default_str();
    app.add_option("--stall-timeout", config.stall_timeout_s,
                   "seconds without any arrival, once the prefill is done, after which the request fails")
        ->capture_default_str();
    app.add_flag("--provisional", provisional,
                 "show drafts (dimmed) before they are verified, and withdraw them visibly");
    app.add_flag("--json", json, "print one JSON object instead of the text and the timeline");
}

namespace {

int run(DecodeOptions& a, const Context& context) {
    const lynx::Result<std::string> prompt = a.prompt.read();
    if (!prompt.ok()) {
        return exit_code(prompt.status());
    }
    const lynx::Result<lynx::LinkEmulation> link = a.link.parse();
    if (!link.ok()) {
        return exit_code(link.status());
    }
    a.request.prompt = prompt.value();
    a.config.link = link.value();
    lynx::Result<std::unique_ptr<lynx::DecodeNode>> node = lynx::DecodeNode::create(a.config);
    if (!node.ok()) {
        return exit_code(node.status());
    }
    Terminal terminal({.show_text = !a.json, .show_provisional = a.provisional});
    const lynx::Result<lynx::GenerateReport> report =
        node.value()->generate(a.request, terminal.events(), context.stop.token());
    terminal.finish();
    if (!report.ok()) {
        return exit_code(report.status());
    }
    if (a.json) {
        std::printf("%s\n", lynx::to_json(report.value()).c_str());
    } else {
        std::fprintf(stderr, "\n%s", lynx::to_timeline(report.value()).c_str());
    }
    return kExitOk;
}

}  // namespace

void add_decode_command(CLI::App& app, Context context) {
    auto a = std::make_shared<DecodeOptions>();
    CLI::App* command =
        app.add_subcommand("decode", "answer one prompt: KV from a prefill node, drafts while it arrives");
    command->add_option("--prefill", a->config.prefill, "HOST:PORT of the prefill node")->required();
    add_model_options(*command, a->config.model);
    add_link_options(*command, a->link);
    add_security_options(*command, a->config.security);
    command->add_option("--connect-timeout", a->config.connect_timeout_s, "seconds to wait for the prefill node")
        ->capture_default_str();
    command
        ->add_option("--peer-timeout", a->config.peer_timeout_s,
                     "seconds of silence after which the prefill node is dead")
        ->capture_default_str();
    a->add(*command);
    command->callback([a, context] { context.exit_code = run(*a, context); });
}

}  // namespace lynxkv
