// lynxkv generate: both nodes as processes on loopback, one request, everything torn down.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "child_process.h"
#include "commands.h"
#include "decode_options.h"
#include "exit_codes.h"
#include "option_table.h"

namespace lynxkv {

namespace {

constexpr auto kTick = std::chrono::milliseconds(10);
/// What the decode process gets to end in good order after a signal: 5 s.
constexpr int kGraceTicks = 500;

int run(const DecodeOptions& a, const CLI::App& command, const Context& context) {
    std::vector<std::string> prefill_arguments = model_arguments(a.config.model);
    const std::vector<std::string> link = a.link.arguments();
    prefill_arguments.insert(prefill_arguments.end(), link.begin(), link.end());
    prefill_arguments.insert(prefill_arguments.end(), {"--sequences", "1"});
    const std::optional<PrefillChild> prefill = start_prefill_child(prefill_arguments);
    if (!prefill) {
        return kExitFailed;
    }
    std::vector<std::string> arguments{"decode", "--prefill", prefill->address};
    // Every option of `generate` is one of `decode`: the decode process gets what was given.
    const std::vector<std::string> given = given_arguments(command);
    arguments.insert(arguments.end(), given.begin(), given.end());
    lynx::Result<ChildProcess> decode = ChildProcess::start(arguments, {});
    if (!decode.ok()) {
        return exit_code(decode.status());
    }
    int ticks_after_signal = 0;
    while (true) {
        if (const std::optional<int> code = decode.value().poll()) {
            return *code;
        }
        if (context.stop.stopped()) {
            if (ticks_after_signal == 0) {
                decode.value().signal(SIGINT);  // also when only this process was signalled
            }
            if (++ticks_after_signal > kGraceTicks) {
                return kExitInterrupted;
            }
        }
        std::this_thread::sleep_for(kTick);
    }
}

}  // namespace

void add_generate_command(CLI::App& app, Context context) {
    auto a = std::make_shared<DecodeOptions>();
    CLI::App* command =
        app.add_subcommand("generate", "start both nodes on this machine, answer one prompt, stop them");
    add_model_options(*command, a->config.model);
    add_link_options(*command, a->link);
    a->add(*command);
    command->callback([a, command, context] { context.exit_code = run(*a, *command, context); });
}

}  // namespace lynxkv
