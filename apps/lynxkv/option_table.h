// The command line as data: what the manual page, the completion and the printed configuration are made of, so that they cannot differ from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lynxkv {

struct OptionRow {
    const CLI::Option* option = nullptr;
    std::string name;   ///< long, without dashes
    std::string names;  ///< "-m, --model"
    std::string value;  ///< "TEXT"; empty for flags
    std::string help;   ///< one line: what it does, default, environment variable
    bool secret = false;
    [[nodiscard]] bool is_flag() const { return value.empty(); }
    /// Precondition: a flag that was given. Whether it was as its name says.
    [[nodiscard]] bool is_on() const;
};

/// The named options of one command, its own help left out, in the order in which they were added.
[[nodiscard]] std::vector<OptionRow> option_rows(const CLI::App& command);

struct CommandRow {
    const CLI::App* app = nullptr;
    std::string path;  ///< "lynxkv bench e2e"
};

/// The program and all its commands, each before those below it.
[[nodiscard]] std::vector<CommandRow> command_rows(const CLI::App& program);

/// What was given to a command, by whatever way, as arguments for another process.
[[nodiscard]] std::vector<std::string> given_arguments(const CLI::App& command);

/// For `man`: roff.
[[nodiscard]] std::string man_page(const CLI::App& program);
/// For bash: defines a function and registers it.
[[nodiscard]] std::string bash_completion(const CLI::App& program);
/// What the chosen command would run with, as the TOML that --config reads; options that have no value, and secrets, as comments.
[[nodiscard]] std::string effective_config(const CLI::App& program);

}  // namespace lynxkv
