// lynxkv prefill: a prefill node until it is told to stop.
#include <cstdio>
#include <memory>

#include "child_process.h"
#include "cli_options.h"
#include "commands.h"
#include "exit_codes.h"
#include "lynx/node.h"

namespace lynxkv {

namespace {
struct Arguments {
    lynx::PrefillConfig config;
    LinkOptions link;
    bool quiet = false;
};

int run(Arguments& a, const Context& context) {
    const lynx::Result<lynx::LinkEmulation> link = a.link.parse();
    if (!link.ok()) {
        return exit_code(link.status());
    }
    a.config.link = link.value();
    a.config.on_listening = announce_listening(a.config.listen);
    if (!a.quiet) {
        a.config.on_log = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    }
    return exit_code(lynx::run_prefill_node(a.config, context.stop.token()));
}
}  // namespace

void add_prefill_command(CLI::App& app, Context context) {
    auto a = std::make_shared<Arguments>();
    CLI::App* command =
        app.add_subcommand("prefill", "run a prefill node: computes KV and sends it, coarse tiers first");
    a->config.listen = "127.0.0.1:7070";
    a->config.model.sequences = 2;
    add_model_options(*command, a->config.model);
    add_link_options(*command, a->link);
    add_security_options(*command, a->config.security);
    command
        ->add_option("--listen", a->config.listen, "HOST:PORT; port 0 picks a free one; beyond loopback TLS is needed")
        ->capture_default_str();
    command->add_option("--sequences", a->config.model.sequences, "prompts whose KV is kept")->capture_default_str();
    command->add_option("--peer-timeout", a->config.peer_timeout_s, "seconds of silence after which a peer is dead")
        ->capture_default_str();
    add_profile_option(*command, [](const std::string&) {});  // requests name it
    command->add_flag("--quiet", a->quiet, "no line per request on stderr");
    command->callback([a, context] { context.exit_code = run(*a, context); });
}

}  // namespace lynxkv
