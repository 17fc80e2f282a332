// The subcommands. Each adds itself to the app; when chosen, its callback leaves the process's exit code in `exit_code`.
#pragma once

#include <CLI/CLI.hpp>

#include "signal_stop.h"

namespace lynxkv {

/// What a subcommand gets from main.
struct Context {
    const SignalStop& stop;
    int& exit_code;
};

void add_prefill_command(CLI::App& app, Context context);
void add_decode_command(CLI::App& app, Context context);
void add_generate_command(CLI::App& app, Context context);
void add_bench_command(CLI::App& app, Context context);
void add_serve_command(CLI::App& app, Context context);
void add_model_command(CLI::App& app, Context context);

}  // namespace lynxkv
