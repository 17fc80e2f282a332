// lynxkv codec: encode, decode and inspect files, list the codecs.
#pragma once

#include <CLI/CLI.hpp>

namespace lynxkv {

/// Adds `codec` to the app; when it is chosen, its callback leaves the process's exit code in `exit_code`.
void add_codec_command(CLI::App& app, int& exit_code);

}  // namespace lynxkv
