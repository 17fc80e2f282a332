// What a running request looks like: progress on stderr, text on stdout, drafts dimmed on a terminal.
#pragma once

#include <string>

#include "lynx/node.h"

namespace lynxkv {

class Terminal {
public:
    struct Options {
        bool show_text = true;          ///< stream committed text to stdout
        bool show_provisional = false;  ///< and drafts behind it, withdrawn visibly
    };
    explicit Terminal(Options options);
    [[nodiscard]] lynx::GenerateEvents events();
    /// Ends the lines that are open.
    void finish();

private:
    void on_prefill(std::uint32_t done, std::uint32_t total, bool prefix_hit);
    void on_text(const lynx::TextUpdate& update);

    Options options_;
    bool stderr_is_terminal_ = false;
    bool stdout_is_terminal_ = false;
    bool progress_open_ = false;
    bool text_open_ = false;
    std::string provisional_shown_;
};

}  // namespace lynxkv
