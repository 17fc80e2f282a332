// lynxkv bench accept and bench ablation: what a tier of a codec is worth in the model's own tokens.
#include <filesystem>
#include <memory>

#include "bench_commands.h"
#include "cli_options.h"

namespace lynxkv {

namespace {

struct Arguments {
    lynx::AcceptConfig config;
    std::vector<std::string> files;
    std::vector<std::string> codecs;
    lynx::CodecOptions parameters;
    bool json = false;
};

constexpr const char* kScheme =
    "Each text is prefilled once; its places are evenly spaced prefixes of it (the KV of a prefix is the prefix of the "
    "KV). At a place "
    "the tier's KV stands in the cache and is compared with the original KV, bit for bit what prefill computed: over "
    "the text "
    "that follows (KL, same top token, expected acceptance), and over the greedy tokens of the original (how many "
    "drafts hold). "
    "Errors are standard errors over places.";

int run(Arguments& a, const Context& context) {
    for (const std::string& file : a.files) {
        const lynx::Result<std::string> text = read_prompt_file(file);
        if (!text.ok()) {
            return exit_code(text.status());
        }
        a.config.texts.push_back({std::filesystem::path(file).filename().string(), text.value()});
    }
    a.config.on_progress = print_progress;
    return print_report(lynx::run_accept(a.config, context.stop.token()), a.json);
}

CLI::App* add_command(CLI::App& bench, const std::shared_ptr<Arguments>& a, const char* name, const char* summary) {
    a->config.prompt_tokens_max = 2048;
    CLI::App* command = bench.add_subcommand(name, summary);
    command->footer(kScheme);
    add_model_options(*command, a->config.model);
    command->add_option("-f,--prompt-file", a->files, "file that holds a text; may be repeated")->required();
    command
        ->add_option("--prompt-tokens", a->config.prompt_tokens_max,
                     "longest prefix of a text; 0: what the context holds")
        ->capture_default_str();
    command->add_option("--places", a->config.places, "places per text")->capture_default_str();
    command->add_option("--tokens", a->config.tokens, "tokens compared, and drafts, at each place")
        ->capture_default_str();
    command->add_flag("--json", a->json, "one JSON object instead of the table");
    return command;
}

}  // namespace

void add_bench_accept(CLI::App& bench, Context context) {
    auto a = std::make_shared<Arguments>();
    a->codecs = {"nested44", "lynx44", "alg1", "int8-split", "int8", "int4", "f16"};
    CLI::App* command = add_command(
        bench, a, "accept", "how many drafts on each tier of each codec hold, and how close its distributions are");
    command->add_option("--codecs", a->codecs, "of " + codec_names())->delimiter(',')->capture_default_str();
    add_codec_parameter_options(*command, a->parameters);
    command->callback([a, context] {
        for (const std::string& name : a->codecs) {
            a->config.codecs.push_back(a->parameters);
            a->config.codecs.back().name = name;
        }
        context.exit_code = run(*a, context);
    });
}

void add_bench_ablation(CLI::App& bench, Context context) {
    auto a = std::make_shared<Arguments>();
    CLI::App* command = add_command(bench, a, "ablation",
                                    "bench accept for every codec, and for each of its parameters around the default");
    command->callback([a, context] {
        a->config.codecs = lynx::ablation_codecs();
        context.exit_code = run(*a, context);
    });
}

}  // namespace lynxkv
