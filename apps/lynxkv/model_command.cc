// lynxkv model: things done to a model file.
#include <cstdio>
#include <memory>

#include "commands.h"
#include "exit_codes.h"
#include "lynx/node.h"

namespace lynxkv {

void add_model_command(CLI::App& app, Context context) {
    struct Arguments {
        std::string in, out, type = "q4_0";
    };
    auto a = std::make_shared<Arguments>();
    CLI::App* command = app.add_subcommand("model", "model files");
    command->require_subcommand(1);
    CLI::App* requantize = command->add_subcommand("requantize", "write a GGUF again with another weight type");
    requantize->add_option("IN", a->in, "GGUF to read")->required();
    requantize->add_option("OUT", a->out, "GGUF to write")->required();
    requantize->add_option("--type", a->type, "q4_0 or q8_0")->capture_default_str();
    requantize->callback(
        [a, context] { context.exit_code = exit_code(lynx::requantize_model(a->in, a->out, a->type)); });
}

}  // namespace lynxkv
