// lynxkv: the one command line. Each subcommand lives in its own file.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "codec_command.h"
#include "commands.h"
#include "exit_codes.h"
#include "lynx/version.h"

int main(int argc, char** argv) {
    const lynxkv::SignalStop stop;
    const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
    int exit_code = lynxkv::kExitOk;
    CLI::App app(
        "Disaggregated LLM serving that answers sooner: the KV cache travels coarse first, drafts hide the rest.",
        "lynxkv");
    app.require_subcommand(0, 1);
    bool version = false;
    bool json = false;
    app.add_flag("--version", version, "print the version and what is built in");
    app.add_flag("--json", json, "with --version: as JSON");
    const lynxkv::Context context{stop, arguments, exit_code};
    lynxkv::add_generate_command(app, context);
    lynxkv::add_prefill_command(app, context);
    lynxkv::add_decode_command(app, context);
    lynxkv::add_serve_command(app, context);
    lynxkv::add_codec_command(app, exit_code);
    lynxkv::add_model_command(app, context);
    lynxkv::add_bench_command(app, context);
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
