// The configuration a command would run with, as TOML.
#include <algorithm>

#include "option_table.h"

namespace lynxkv {

namespace {

bool is_bare(const std::string& value) {
    if (value == "true" || value == "false") {
        return true;
    }
    return !value.empty() && value.find_first_not_of("0123456789.-+e") == std::string::npos &&
           value.find_first_of("0123456789") != std::string::npos && std::count(value.begin(), value.end(), '.') <= 1;
}

std::string toml_value(const std::string& value) {
    const char quote = value.find('"') == std::string::npos ? '"' : '\'';
    return is_bare(value) ? value : quote + value + quote;
}

/// A default that stands for several values: "[a,b]".
std::vector<std::string> parts(const std::string& list) {
    std::vector<std::string> all;
    for (std::size_t at = 1; at < list.size(); at = list.find_first_of(",]", at) + 1) {
        all.push_back(list.substr(at, list.find_first_of(",]", at) - at));
    }
    return all;
}

std::string value_of(const OptionRow& row) {
    const CLI::Option& option = *row.option;
    if (row.is_flag()) {
        return option.count() > 0 && row.is_on() ? "true" : "false";
    }
    const bool several = option.get_items_expected_max() > 1;
    const std::string by_default = option.get_default_str();
    std::vector<std::string> values = option.results();
    if (option.count() == 0) {
        if (by_default.empty() || by_default == "[]") {
            return {};
        }
        values = several ? parts(by_default) : std::vector<std::string>{by_default};
    }
    if (!several) {
        return toml_value(values.back());
    }
    std::string list;
    for (const std::string& value : values) {
        list += (list.empty() ? "" : ", ") + toml_value(value);
    }
    return "[" + list + "]";
}

const CLI::App& chosen(const CLI::App& program, std::string& table) {
    const std::vector<CLI::App*> commands = program.get_subcommands();
    const auto named =
        std::find_if(commands.begin(), commands.end(), [](const auto* a) { return !a->get_name().empty(); });
    if (named == commands.end()) {
        return program;
    }
    table += (table.empty() ? "" : ".") + (*named)->get_name();
    return chosen(**named, table);
}

}  // namespace

std::string effective_config(const CLI::App& program) {
    std::string table;
    const CLI::App& command = chosen(program, table);
    std::string out = table.empty() ? std::string() : "[" + table + "]\n";
    for (const OptionRow& row : option_rows(command)) {
        if (&command == &program) {
            break;  // nothing of the program's own goes into a file
        }
        const std::string value = value_of(row);
        out += "# " + row.help + "\n";
        if (row.secret) {
            out += "# " + row.name + (row.option->count() > 0 ? " is set, and not shown\n" : " =\n");
        } else {
            out += (value.empty() ? "# " : "") + row.name + " = " + value + "\n";
        }
    }
    return out;
}

}  // namespace lynxkv
