#include "child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "cli_options.h"
#include "exit_codes.h"

namespace lynxkv {

using lynx::ErrorCode;
using lynx::Result;
using lynx::Status;

namespace {

constexpr double kPrefillStartTimeoutS = 120;  // loading a model of many gigabytes from a cold disk
constexpr const char* kListening = "listening on ";

std::chrono::steady_clock::time_point after(double seconds) {
    return std::chrono::steady_clock::now() +
           std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

Status os_error(const char* what) { return {ErrorCode::io, std::string(what) + ": " + std::strerror(errno)}; }

/// Between fork and exec: only async-signal-safe calls.
[[noreturn]] void become(char* const* argv, pid_t parent, int stdout_fd, bool own_group) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);  // the parent died before the line above
    }
    if (own_group) {
        setpgid(0, 0);
    }
    if (stdout_fd >= 0) {
        dup2(stdout_fd, STDOUT_FILENO);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execv("/proc/self/exe", argv);
    _exit(127);
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& arguments, Options options) {
    std::vector<std::string> strings{"lynxkv"};
    strings.insert(strings.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    argv.reserve(strings.size() + 1);
    for (std::string& s : strings) {
        argv.push_back(s.data());
    }
    argv.push_back(nullptr);
    std::array<int, 2> ends{-1, -1};
    if (options.capture_stdout && pipe2(ends.data(), O_CLOEXEC) != 0) {
        return os_error("pipe");
    }
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
        become(argv.data(), parent, ends[1], options.own_group);
    }
    if (options.capture_stdout) {
        ::close(ends[1]);
    }
    if (pid < 0) {
        const Status status = os_error("fork");
        if (options.capture_stdout) {
            ::close(ends[0]);
        }
        return status;
    }
    return ChildProcess(pid, ends[0]);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdout_fd_(std::exchange(other.stdout_fd_, -1)),
      buffer_(std::move(other.buffer_)),
      exit_code_(other.exit_code_) {}

ChildProcess::~ChildProcess() {
    if (stdout_fd_ >= 0) {
        ::close(stdout_fd_);
    }
    if (pid_ < 0 || exit_code_) {
        return;
    }
    signal(SIGTERM);
    for (int i = 0; i < 200 && !poll(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!exit_code_) {
        signal(SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
}

std::optional<int> ChildProcess::poll() {
    int state = 0;
    if (!exit_code_ && waitpid(pid_, &state, WNOHANG) == pid_) {
        exit_code_ = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    }
    return exit_code_;
}

void ChildProcess::signal(int number) const { kill(pid_, number); }

Result<std::string> ChildProcess::read_line(double timeout_s) {
    const auto deadline = after(timeout_s);
    while (true) {
        if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
            std::string line = buffer_.substr(0, end);
            buffer_.erase(0, end + 1);
            return line;
        }
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd p{stdout_fd_, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&p, 1, static_cast<int>(left.count())) == 0) {
            return Status{ErrorCode::timeout, "no line from process " + std::to_string(pid_)};
        }
        std::array<char, 4096> chunk{};
        const ssize_t n = ::read(stdout_fd_, chunk.data(), chunk.size());
        if (n <= 0 && errno != EINTR) {
            return Status{ErrorCode::peer_lost, "process " + std::to_string(pid_) + " ended"};
        }
        buffer_.append(chunk.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    }
}

std::function<void(std::uint16_t port)> announce_listening(const std::string& address) {
    return [host = address.substr(0, address.rfind(':'))](std::uint16_t port) {
        std::printf("%s%s:%u\n", kListening, host.c_str(), port);
        std::fflush(stdout);
    };
}

std::optional<PrefillChild> start_prefill_child(const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"prefill", "--listen", "127.0.0.1:0", "--quiet"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const std::vector<std::string> profiles = profile_arguments();
    all.insert(all.end(), profiles.begin(), profiles.end());
    Result<ChildProcess> child = ChildProcess::start(all, {.capture_stdout = true, .own_group = true});
    Status failure = child.status();
    if (child.ok()) {
        ChildProcess process = std::move(child).value();
        const Result<std::string> line = process.read_line(kPrefillStartTimeoutS);
        if (line.ok() && line.value().starts_with(kListening)) {
            return PrefillChild{std::move(process), line.value().substr(std::strlen(kListening))};
        }
        if (line.status().code() == ErrorCode::peer_lost) {
            return std::nullopt;  // it ended, and has said why
        }
        failure = line.ok() ? Status{ErrorCode::corrupt, "unexpected first line: " + line.value()} : line.status();
    }
    static_cast<void>(exit_code(failure.with_context("the prefill node did not start")));
    return std::nullopt;
}

}  // namespace lynxkv
