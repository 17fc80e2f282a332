#include "option_table.h"

#include <algorithm>

namespace lynxkv {

namespace {

/// Their values are never printed.
constexpr const char* kSecrets[] = {"api-key"};

void add_commands(const CLI::App& app, const std::string& path, std::vector<CommandRow>& rows) {
    rows.push_back({&app, path});
    for (const CLI::App* command : app.get_subcommands([](const CLI::App* a) { return !a->get_name().empty(); })) {
        add_commands(*command, path + " " + command->get_name(), rows);
    }
}

/// Option groups are apps without a name.
void add_options(const CLI::App& app, std::vector<OptionRow>& rows) {
    for (const CLI::Option* option : app.get_options()) {
        if (option == app.get_help_ptr() || option->get_lnames().empty()) {
            continue;
        }
        OptionRow row{.option = option, .name = option->get_lnames().front(), .names = {}, .value = {}, .help = {}};
        for (const std::string& name : option->get_snames()) {
            row.names += "-" + name + ", ";
        }
        row.names += "--" + row.name;
        if (option->get_items_expected_max() > 0) {
            row.value = option->get_type_name().substr(0, option->get_type_name().find(':'));
        }
        row.help = option->get_description();
        if (!option->get_default_str().empty()) {
            row.help += " (default: " + option->get_default_str() + ")";
        }
        if (!option->get_envname().empty()) {
            row.help += " (environment: " + option->get_envname() + ")";
        }
        row.secret = std::find(std::begin(kSecrets), std::end(kSecrets), row.name) != std::end(kSecrets);
        rows.push_back(std::move(row));
    }
    for (const CLI::App* group : app.get_subcommands([](const CLI::App* a) { return a->get_name().empty(); })) {
        add_options(*group, rows);
    }
}

}  // namespace

bool OptionRow::is_on() const {
    // A flag that switches something off ("!--no-draft") counts as false when it is given.
    const std::vector<std::string>& negated = option->get_fnames();
    const bool negative = std::find(negated.begin(), negated.end(), name) != negated.end();
    return (option->reduced_results().back() == "true") != negative;
}

std::vector<std::string> given_arguments(const CLI::App& command) {
    std::vector<std::string> arguments;
    for (const OptionRow& row : option_rows(command)) {
        if (row.option->count() == 0) {
            continue;
        }
        if (row.is_flag()) {
            if (row.is_on()) {
                arguments.push_back("--" + row.name);
            }
            continue;
        }
        for (const std::string& value : row.option->results()) {
            arguments.push_back("--" + row.name + "=" + value);
        }
    }
    return arguments;
}

std::vector<OptionRow> option_rows(const CLI::App& command) {
    std::vector<OptionRow> rows;
    add_options(command, rows);
    return rows;
}

std::vector<CommandRow> command_rows(const CLI::App& program) {
    std::vector<CommandRow> rows;
    add_commands(program, program.get_name(), rows);
    return rows;
}

}  // namespace lynxkv
