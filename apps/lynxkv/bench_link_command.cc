// lynxkv bench link: the link alone, without model and codec; over loopback in one process, or from a source elsewhere.
#include <memory>

#include "bench_commands.h"
#include "child_process.h"
#include "cli_options.h"
#include "lynx/link_bench.h"

namespace lynxkv {

namespace {

struct Arguments {
    lynx::LinkBenchConfig config;
    std::string listen;
    LinkOptions link;
    bool json = false;
};

int run_source(const Arguments& a, const Context& context) {
    const lynx::LinkSourceConfig config{.listen = a.listen,
                                        .security = a.config.security,
                                        .link = a.config.link,
                                        .on_listening = announce_listening(a.listen)};
    return exit_code(lynx::run_link_source(config, context.stop.token()));
}

int run(Arguments& a, const Context& context) {
    if (a.listen.empty() && a.config.connect.empty() &&
        (a.config.security.tls() || a.config.security.allow_plaintext)) {
        return exit_code({lynx::ErrorCode::invalid_argument,
                          "security options go with --connect or --listen: sources of this process use their own"});
    }
    const lynx::Result<lynx::LinkEmulation> link = a.link.parse();
    if (!link.ok()) {
        return exit_code(link.status());
    }
    a.config.link = link.value();
    a.config.on_progress = print_progress;
    return a.listen.empty() ? print_report(lynx::run_link_bench(a.config, context.stop.token()), a.json)
                            : run_source(a, context);
}

}  // namespace

void add_bench_link(CLI::App& bench, Context context) {
    auto a = std::make_shared<Arguments>();
    lynx::LinkBenchConfig& config = a->config;
    CLI::App* command = bench.add_subcommand(
        "link", "goodput, anchors under load, CPU and fairness of the transports, without a model");
    CLI::Option* listen = command->add_option("--listen", a->listen, "HOST:PORT; only be a source, until told to stop");
    CLI::Option* connect =
        command->add_option("--connect", config.connect, "HOST:PORT of a source; default: sources of this process");
    listen->excludes(connect);
    add_security_options(*command, config.security);
    add_link_options(*command, a->link);
    for (const char* emulation : {"--link-rate", "--link-delay"}) {
        command->get_option(emulation)->excludes(connect);  // it is the source that sends
    }
    command->add_option("--peers", config.peers, "connections that share the link")->capture_default_str();
    command->add_option("--requests", config.requests, "per peer, residuals under way at any moment of the load")
        ->capture_default_str();
    command->add_option("--frame-kib", config.frame_kib, "payload of a frame")->capture_default_str();
    command->add_option("--anchor-frames", config.anchor_frames, "of the request whose anchors are timed; even")
        ->capture_default_str();
    command->add_option("--probes", config.probes, "such requests, idle and under load")->capture_default_str();
    command->add_option("--seconds", config.seconds, "of load alone")->capture_default_str();
    command->add_option("--rounds", config.rounds, "of every transport in turn; medians count")->capture_default_str();
    command->add_flag("--json", a->json, "one JSON object instead of the table");
    command->callback([a, context] { context.exit_code = run(*a, context); });
}

}  // namespace lynxkv
