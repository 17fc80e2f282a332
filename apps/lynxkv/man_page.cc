// The manual page, made of the option table.
#include "lynx/version.h"
#include "option_table.h"

namespace lynxkv {

namespace {

/// Text in roff: nothing of it is a request or an escape, and a dash is the one that can be typed.
std::string roff(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
            out += std::string("\\&") + c;
        } else {
            out += c;
        }
    }
    return out;
}

std::string options(const CLI::App& command) {
    std::string out;
    for (const OptionRow& row : option_rows(command)) {
        out += ".TP\n\\fB" + roff(row.names) + "\\fR";
        out += row.value.empty() ? "\n" : " \\fI" + roff(row.value) + "\\fR\n";
        out += (row.help.empty() ? "\\&" : roff(row.help)) + "\n";
    }
    return out;
}

}  // namespace

std::string man_page(const CLI::App& program) {
    const std::string name = program.get_name();
    std::string out = ".TH " + name + " 1 \"\" \"" + roff(lynx::version_line()) + "\"\n.SH NAME\n" + name + " \\- " +
                      roff(program.get_description()) + "\n.SH SYNOPSIS\n.B " + name +
                      "\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fICOMMAND OPTIONS\\fR]\n.SH OPTIONS\n" +
                      options(program) + ".SH COMMANDS\n";
    for (const CommandRow& row : command_rows(program)) {
        if (row.app != &program) {
            out += ".SS " + roff(row.path) + "\n" + roff(row.app->get_description()) + ".\n" + options(*row.app);
        }
    }
    out +=
        ".SH CONFIGURATION FILE\n\\fB\\-\\-config\\fR \\fIFILE\\fR reads options from TOML: a table per command, such "
        "as "
        "\\fB[serve]\\fR or \\fB[bench.e2e]\\fR, with the long names of its options as keys. What stands on the "
        "command line counts more, then the file, then the environment. \\fB\\-\\-print\\-config\\fR writes such a "
        "file.\n.SH EXIT STATUS\n0 done; 1 failed, with one line on standard error that says why; 2 wrong usage; 130 "
        "interrupted.\n";
    return out;
}

}  // namespace lynxkv
