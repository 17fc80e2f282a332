// lynxkv bench codec: speed, size and error of every codec on a model's real KV.
#include <algorithm>
#include <memory>
#include <thread>

#include "bench_commands.h"
#include "cli_options.h"

namespace lynxkv {

namespace {

struct Arguments {
    lynx::CodecBenchConfig config;
    PromptOptions prompt;
    std::uint64_t working_set_mib = 1024;
    bool json = false;
};

int run(Arguments& a, const Context& context) {
    const lynx::Result<std::string> prompt = a.prompt.read();
    if (!prompt.ok()) {
        return exit_code(prompt.status());
    }
    a.config.prompt = prompt.value();
    a.config.working_set_bytes = a.working_set_mib << 20;
    a.config.on_progress = print_progress;
    return print_report(lynx::run_codec_bench(a.config, context.stop.token()), a.json);
}

}  // namespace

void add_bench_codec(CLI::App& bench, Context context) {
    constexpr std::uint64_t kWorkingSetMibMax = std::uint64_t{1} << 24;
    auto a = std::make_shared<Arguments>();
    a->config.prompt_tokens_max = 2048;
    if (const unsigned cores = std::thread::hardware_concurrency(); cores > 1) {
        a->config.threads.push_back(cores);
    }
    CLI::App* command = bench.add_subcommand("codec", "speed, size and error of every codec on a model's real KV");
    add_model_file_options(*command, a->config.model);
    add_prompt_options(*command, a->prompt);
    command->add_option("--prompt-tokens", a->config.prompt_tokens_max, "cut the prompt to this many tokens; 0: all")
        ->capture_default_str();
    command->add_option("--codecs", a->config.codecs, "of " + codec_names() + "; default: all")->delimiter(',');
    command->add_option("--backends", a->config.backends, "default: all that this CPU runs")->delimiter(',');
    command->add_option("--threads", a->config.threads, "codec threads, one row each")
        ->delimiter(',')
        ->capture_default_str();
    command
        ->add_option("--working-set", a->working_set_mib,
                     "MiB of KV that every pass walks through, a few copies of the prompt's; less flatters the caches")
        ->check(CLI::Range(std::uint64_t{1}, kWorkingSetMibMax))
        ->capture_default_str();
    command->add_option("--repeats", a->config.repeats, "runs of every pass; the median counts")->capture_default_str();
    add_codec_parameter_options(*command, a->config.codec);
    command->add_flag("--bf16", a->config.bf16, "round the KV to bfloat16 first");
    command->add_flag("--json", a->json, "one JSON object instead of the table");
    command->callback([a, context] { context.exit_code = run(*a, context); });
}

}  // namespace lynxkv
