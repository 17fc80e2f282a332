// lynxkv: the one command line. Each subcommand lives in its own file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "codec_command.h"
#include "commands.h"
#include "exit_codes.h"
#include "lynx/version.h"
#include "option_table.h"

namespace {

constexpr std::uintmax_t kConfigFileBytesMax = std::uintmax_t{1} << 20;

std::string check_config_size(const std::string& path) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(path, error);
    return error || bytes <= kConfigFileBytesMax ? std::string() : path + " has more than 1 MiB";
}

/// Commands that print what is made of the command line's own table.
void add_table_command(CLI::App& app, const char* name, const char* description,
                       std::string (*text)(const CLI::App& program)) {
    app.add_subcommand(name, description)->callback([&app, text] { std::printf("%s", text(app).c_str()); });
}

}  // namespace

int main(int argc, char** argv) {
    const lynxkv::SignalStop stop;
    int exit_code = lynxkv::kExitOk;
    CLI::App app(
        "Disaggregated LLM serving that answers sooner: the KV cache travels coarse first, drafts hide the rest.",
        "lynxkv");
    app.require_subcommand(0, 1);
    bool version = false;
    bool json = false;
    app.add_flag("--version", version, "print the version and what is built in");
    CLI::Option* version_flag = app.get_option("--version");
    app.add_flag("--json", json, "with --version: as JSON")->needs(version_flag);
    // The program's own options may also stand behind a command.
    app.fallthrough();
    app.allow_config_extras(false);
    app.set_config("--config", "", "read options from this TOML file: a table per command, such as [serve]")
        ->type_name("FILE")
        ->check(check_config_size);
    bool print_config = false;
    app.add_flag("--print-config", print_config, "do not run the command: print its options as such a file");
    const lynxkv::Context context{stop, exit_code};
    lynxkv::add_generate_command(app, context);
    lynxkv::add_prefill_command(app, context);
    lynxkv::add_decode_command(app, context);
    lynxkv::add_serve_command(app, context);
    lynxkv::add_codec_command(app, exit_code);
    lynxkv::add_model_command(app, context);
    lynxkv::add_bench_command(app, context);
    add_table_command(app, "man", "print the manual page", lynxkv::man_page);
    add_table_command(app, "completion", "print completion for bash", lynxkv::bash_completion);
    app.parse_complete_callback([&] {
        if (print_config) {
            std::printf("%s", lynxkv::effective_config(app).c_str());
            throw CLI::Success();
        }
    });
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return code == 0 ? lynxkv::kExitOk : lynxkv::kExitUsage;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "lynxkv: %s\n", error.what());
        return lynxkv::kExitFailed;
    }
    if (version) {
        std::printf("%s\n", (json ? lynx::version_json() : lynx::version_line()).c_str());
        return lynxkv::kExitOk;
    }
    if (app.get_subcommands().empty()) {
        std::fprintf(stderr, "%s", app.help().c_str());
        return lynxkv::kExitUsage;
    }
    return exit_code;
}
