#include "bench/machine.h"

#include <fstream>
#include <thread>

namespace lynx::bench {

std::string machine_name() {
    std::ifstream in("/proc/cpuinfo");
    std::string line;
    std::string name = "unknown CPU";
    while (std::getline(in, line)) {
        if (line.starts_with("model name")) {
            name = line.substr(line.find(':') + 2);
            break;
        }
    }
    return name + ", " + std::to_string(std::thread::hardware_concurrency()) + " cores";
}

}  // namespace lynx::bench
