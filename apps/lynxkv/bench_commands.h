// The subcommands of `lynxkv bench`, one file each.
#pragma once

#include <cstdio>
#include <string>

#include "commands.h"
#include "exit_codes.h"
#include "lynx/bench.h"

namespace lynxkv {

void add_bench_e2e(CLI::App& bench, Context context);
void add_bench_codec(CLI::App& bench, Context context);
void add_bench_accept(CLI::App& bench, Context context);
void add_bench_link(CLI::App& bench, Context context);
void add_bench_ablation(CLI::App& bench, Context context);

/// One line of progress on stderr.
inline void print_progress(const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }

/// Prints a report, as JSON or as a table; the exit code.
template <class Report>
int print_report(const lynx::Result<Report>& report, bool json) {
    if (report.ok()) {
        std::printf("%s\n", (json ? to_json(report.value()) : to_table(report.value())).c_str());
    }
    return exit_code(report.status());
}

}  // namespace lynxkv
