// lynxkv bench: measurements, side by side in one run.
#include "bench_commands.h"

namespace lynxkv {

void add_bench_command(CLI::App& app, Context context) {
    CLI::App* bench = app.add_subcommand("bench", "measure");
    bench->require_subcommand(1);
    add_bench_e2e(*bench, context);
    add_bench_codec(*bench, context);
    add_bench_accept(*bench, context);
    add_bench_link(*bench, context);
    add_bench_ablation(*bench, context);
}

}  // namespace lynxkv
