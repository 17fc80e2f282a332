// Completion for bash, made of the option table: commands and options; values are completed as file names.
#include "option_table.h"

namespace lynxkv {

namespace {

constexpr const char* kScript = R"BASH(# Completion for bash, made by `@NAME@ completion`.
# Of a command: those below it, options without a value, options with one.
_@NAME@_row() {
    local -A table=(
@TABLE@    )
    printf '%s\n' "${table[$1]}"
}
_@NAME@() {
    local current=${COMP_WORDS[COMP_CWORD]} path=@NAME@ words commands flags with_value word i
    IFS='|' read -r commands flags with_value < <(_@NAME@_row "$path")
    for ((i = 1; i < COMP_CWORD; ++i)); do
        word=${COMP_WORDS[i]}
        if [[ " $with_value " == *" $word "* ]]; then
            ((++i))
        elif [[ " $commands " == *" $word "* ]]; then
            path+=" $word"
            IFS='|' read -r commands flags with_value < <(_@NAME@_row "$path")
        fi
    done
    COMPREPLY=()
    if ((i > COMP_CWORD)) || [[ -z $commands && $current != -* ]]; then
        compopt -o default 2>/dev/null
        return
    fi
    words=$commands
    [[ $current == -* ]] && words="$flags $with_value"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _@NAME@ @NAME@
)BASH";

}  // namespace

std::string bash_completion(const CLI::App& program) {
    std::string tables;
    for (const CommandRow& row : command_rows(program)) {
        std::string commands;
        for (const CLI::App* command :
             row.app->get_subcommands([](const CLI::App* a) { return !a->get_name().empty(); })) {
            commands += " " + command->get_name();
        }
        std::string flags = " --help";
        std::string with_value;
        for (const OptionRow& option : option_rows(*row.app)) {
            std::string& list = option.value.empty() ? flags : with_value;
            list += " --" + option.name;
            for (const std::string& letter : option.option->get_snames()) {
                list += " -" + letter;
            }
        }
        tables.append("    ['").append(row.path).append("']='").append(commands).append("|");
        tables.append(flags).append("|").append(with_value).append("'\n");
    }
    std::string script = kScript;
    const auto fill = [&script](const std::string& hole, const std::string& with) {
        for (std::size_t at = 0; (at = script.find(hole, at)) != std::string::npos; at += with.size()) {
            script.replace(at, hole.size(), with);
        }
    };
    fill("@NAME@", program.get_name());
    fill("@TABLE@", tables);
    return script;
}

}  // namespace lynxkv
