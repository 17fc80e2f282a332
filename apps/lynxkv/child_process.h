// A child of ours running this same program: started, listened to, ended by pid. It dies with its parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lynx/status.h"

namespace lynxkv {

class ChildProcess {
public:
    struct Options {
        bool capture_stdout = false;  ///< read_line() reads it; otherwise inherited
        bool own_group = false;       ///< the terminal's Ctrl-C does not reach it
    };
    /// Runs this executable with `arguments` (argv[1] on). io when it cannot start.
    [[nodiscard]] static lynx::Result<ChildProcess> start(const std::vector<std::string>& arguments, Options options);
    ChildProcess(ChildProcess&& other) noexcept;
    ChildProcess& operator=(ChildProcess&&) = delete;
    /// Terminates (SIGTERM, after two seconds SIGKILL) and reaps.
    ~ChildProcess();

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// The next line of its standard output, without the newline. timeout, or peer_lost when it ended first.
    [[nodiscard]] lynx::Result<std::string> read_line(double timeout_s);
    /// Its exit code (128 + signal when killed) once it has ended; absent while it runs. Does not block.
    [[nodiscard]] std::optional<int> poll();
    void signal(int number) const;

private:
    ChildProcess(pid_t pid, int stdout_fd) : pid_(pid), stdout_fd_(stdout_fd) {}
    pid_t pid_ = -1;
    int stdout_fd_ = -1;
    std::string buffer_;
    std::optional<int> exit_code_;
};

/// Says on stdout where a node that was told to listen at `address` (HOST:PORT) does, for a parent to read.
[[nodiscard]] std::function<void(std::uint16_t port)> announce_listening(const std::string& address);

/// Starts `lynxkv prefill ...` and returns it with the HOST:PORT it listens on.
struct PrefillChild {
    ChildProcess process;
    std::string address;
};
/// Absent when it did not come up: the reason stands on stderr then, as its own one line.
[[nodiscard]] std::optional<PrefillChild> start_prefill_child(const std::vector<std::string>& arguments);

}  // namespace lynxkv
