#include "terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>

namespace lynxkv {

namespace {
// Save cursor / restore cursor and erase to the end of the screen: drafts stand between the two, so replacing them is one sequence
// whatever the line width. Withdrawn drafts stay, struck through, where the right text takes over.
constexpr const char* kSave = "\0337";
constexpr const char* kRestoreAndErase = "\0338\033[J";
constexpr const char* kDim = "\033[2m";
constexpr const char* kStruck = "\033[2;9m";
constexpr const char* kPlain = "\033[0m";

void put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }
}  // namespace

Terminal::Terminal(Options options)
    : options_(options),
      stderr_is_terminal_(isatty(STDERR_FILENO) == 1),
      stdout_is_terminal_(isatty(STDOUT_FILENO) == 1) {}

lynx::GenerateEvents Terminal::events() {
    lynx::GenerateEvents events;
    events.on_prefill = [this](std::uint32_t done, std::uint32_t total, bool hit) { on_prefill(done, total, hit); };
    if (options_.show_text) {
        events.on_text = [this](const lynx::TextUpdate& update) { on_text(update); };
    }
    return events;
}

void Terminal::on_prefill(std::uint32_t done, std::uint32_t total, bool prefix_hit) {
    std::fprintf(stderr, "%sprefill %u/%u tokens%s%s", stderr_is_terminal_ ? "\r" : "", done, total,
                 prefix_hit ? " (already there)" : "", stderr_is_terminal_ && done < total ? "" : "\n");
    progress_open_ = stderr_is_terminal_ && done < total;
}

void Terminal::on_text(const lynx::TextUpdate& update) {
    if (progress_open_) {
        std::fputc('\n', stderr);
        progress_open_ = false;
    }
    text_open_ = true;
    if (!options_.show_provisional) {
        put(update.committed);
    } else if (stdout_is_terminal_) {
        if (!provisional_shown_.empty()) {
            put(kRestoreAndErase);
        }
        std::size_t same = 0;
        if (update.retracted > 0) {
            while (same < std::min(update.committed.size(), provisional_shown_.size()) &&
                   update.committed[same] == provisional_shown_[same]) {
                ++same;
            }
            put(update.committed.substr(0, same));
            put(kStruck);
            put(std::string_view(provisional_shown_).substr(same));
            put(kPlain);
        }
        put(update.committed.substr(same));
        if (!update.provisional.empty()) {
            put(kSave);
            put(kDim);
            put(update.provisional);
            put(kPlain);
        }
        provisional_shown_ = update.provisional;
    } else {
        // Without a cursor to move, each change is a line of its own.
        if (update.retracted > 0) {
            std::printf("\n[retracted %u drafts]", update.retracted);
        }
        if (!update.committed.empty()) {
            std::printf("\n[committed] %.*s", static_cast<int>(update.committed.size()), update.committed.data());
        }
        if (!update.provisional.empty()) {
            std::printf("\n[draft] %.*s", static_cast<int>(update.provisional.size()), update.provisional.data());
        }
    }
    std::fflush(stdout);
}

void Terminal::finish() {
    if (progress_open_) {
        std::fputc('\n', stderr);
    }
    if (text_open_) {
        std::fputc('\n', stdout);
    }
    std::fflush(stdout);
}

}  // namespace lynxkv
