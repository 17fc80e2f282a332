// lynxkv bench e2e: the same KV over the same emulated link for every system.
#include <memory>
#include <optional>

#include "bench_commands.h"
#include "child_process.h"
#include "cli_options.h"
#include "exit_codes.h"
#include "lynx/bench.h"

namespace lynxkv {

namespace {

struct Arguments {
    lynx::E2eConfig config;
    LinkOptions link;
    PromptOptions prompt;
    bool json = false;
};

int run(Arguments& a, const Context& context) {
    const lynx::Result<std::string> prompt = a.prompt.read();
    if (!prompt.ok()) {
        return exit_code(prompt.status());
    }
    const lynx::Result<lynx::LinkEmulation> link = a.link.parse();
    if (!link.ok()) {
        return exit_code(link.status());
    }
    a.config.prompt = prompt.value();
    a.config.link_delay_s = link.value().delay_s;
    if (link.value().rate_bits_per_s > 0) {
        a.config.link_rate_bits_per_s = link.value().rate_bits_per_s;
    }
    std::optional<PrefillChild> prefill;  // lives until every row is measured
    a.config.start_prefill = [&](lynx::LinkEmulation emulation) -> lynx::Result<std::string> {
        std::vector<std::string> arguments = model_arguments(a.config.model);
        arguments.insert(arguments.end(), {"--sequences", "1"});
        LinkOptions shaped = a.link;
        shaped.rate = std::to_string(static_cast<unsigned long long>(emulation.rate_bits_per_s));
        const std::vector<std::string> more = shaped.arguments();
        arguments.insert(arguments.end(), more.begin(), more.end());
        std::optional<PrefillChild> child = start_prefill_child(arguments);
        if (!child) {
            return lynx::Status{lynx::ErrorCode::peer_lost, "no prefill node"};
        }
        prefill.emplace(std::move(*child));
        return prefill->address;
    };
    a.config.on_progress = print_progress;
    return print_report(lynx::run_e2e(a.config, context.stop.token()), a.json);
}

}  // namespace

void add_bench_e2e(CLI::App& bench, Context context) {
    auto a = std::make_shared<Arguments>();
    a->config.systems = {"f16", "int8", "int8-split", "alg1", "lynx44", "nested44-mono", "nested44"};
    CLI::App* command =
        bench.add_subcommand("e2e", "the same KV over the same emulated link for every system, KV ready at time zero");
    add_model_options(*command, a->config.model);
    add_prompt_options(*command, a->prompt);
    add_link_options(*command, a->link);
    command
        ->add_option("--int8-tpots", a->config.int8_tpots,
                     "without --link-rate: the INT8 transfer takes this many TPOT")
        ->capture_default_str();
    command->add_option("--prompt-tokens", a->config.prompt_tokens_max, "cut the prompt to this many tokens; 0: all")
        ->capture_default_str();
    command->add_option("--systems", a->config.systems, "codecs to measure; a progressive one drafts")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--tokens", a->config.tokens, "output tokens, the prefill node's first one included")
        ->capture_default_str();
    command->add_option("--repeats", a->config.repeats, "runs per system; medians are printed")->capture_default_str();
    command->add_option("--window", a->config.window, "draft exactly this many tokens; default: adaptive");
    add_codec_parameter_options(*command, a->config.codec);
    command->add_flag("--json", a->json, "one JSON object instead of the table");
    command->callback([a, context] { context.exit_code = run(*a, context); });
}

}  // namespace lynxkv
