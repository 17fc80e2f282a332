// Which codecs the ablation compares.
#include <array>

#include "lynx/bench.h"

namespace lynx {

std::vector<CodecOptions> ablation_codecs() {
    std::vector<CodecOptions> all;
    const auto add = [&all](const char* name, auto change) {
        CodecOptions options;
        options.name = name;
        change(options);
        all.push_back(options);
    };
    const auto same = [](CodecOptions&) {};
    for (const CodecDescription& codec : available_codecs()) {  // the splits, and the baselines
        if (!codec.name.ends_with("-mono")) {
            add(codec.name.c_str(), same);
        }
    }
    const std::array alpha_codecs{"alg1", "lynx44"};
    for (const char* name : alpha_codecs) {
        for (const double alpha : {5.0, 100.0, 500.0, 2000.0}) {
            add(name, [alpha](CodecOptions& o) { o.alpha = alpha; });
        }
        for (const char* meta : {"f16", "q8"}) {
            add(name, [meta](CodecOptions& o) { o.meta = meta; });
        }
    }
    for (const char* name : {"nested44", "alg1", "lynx44"}) {
        for (const std::uint32_t chunk : {16U, 64U}) {
            add(name, [chunk](CodecOptions& o) { o.chunk_tokens = chunk; });
        }
        for (const std::uint32_t page : {128U, 512U}) {
            add(name, [page](CodecOptions& o) { o.page_tokens = page; });
        }
    }
    return all;
}

}  // namespace lynx
