#include "codec_command.h"

#include <cstdio>
#include <memory>
#include <string>

#include "cli_options.h"
#include "exit_codes.h"
#include "lynx/calibrate.h"
#include "lynx/codec.h"

namespace lynxkv {
namespace {

struct Arguments {
    std::string in;
    std::string out;
    std::string symbols;
    std::string tier = "last";
    lynx::MatrixContext context;
    bool json = false;
    lynx::CodecOptions options;
    lynx::CalibrateOptions calibrate;
};

void print_report(const std::string& path, const lynx::CodecFileReport& r, bool json) {
    if (json) {
        std::printf("%s\n", lynx::to_json(r).c_str());
        return;
    }
    std::printf("%s: %s, %s [%u, %u], %u pages of %u tokens, chunks of %u, %llu bytes\n", path.c_str(),
                r.options.name.c_str(), r.dtype.c_str(), r.tokens, r.channels, r.pages, r.options.page_tokens,
                r.options.chunk_tokens, static_cast<unsigned long long>(r.file_bytes));
    if (r.tier_bits.size() > 1) {
        std::printf("bits per element: anchor %.4f, full %.4f", r.tier_bits.front(), r.tier_bits[r.full_tier]);
        if (r.exact) {
            std::printf(", exact %.4f", r.tier_bits.back());
        }
        std::printf("\n");
    } else {
        std::printf("bits per element: %.4f\n", r.tier_bits.front());
    }
}

int run_report(const std::string& path, const lynx::Result<lynx::CodecFileReport>& report, bool json) {
    if (report.ok()) {
        print_report(path, report.value(), json);
    }
    return exit_code(report.status());
}

void add_encode(CLI::App& parent, const std::shared_ptr<Arguments>& a, int& code) {
    CLI::App* c =
        parent.add_subcommand("encode", "encode an .npy matrix [tokens, channels] of float16, bfloat16 or float32");
    c->add_option("IN", a->in, ".npy file to read")->required();
    c->add_option("OUT", a->out, ".lynx file to write")->required();
    add_codec_options(*c, a->options);
    c->add_option("--kind", a->context.kind, "key or value: what the matrix is")->capture_default_str();
    c->add_option("--layer", a->context.layer, "its layer, from 0")->capture_default_str();
    c->add_option("--layers", a->context.layers, "layers of its model, 0 if unknown")->capture_default_str();
    c->add_option("--head", a->context.head_channels, "channels per head, 0 if unknown")->capture_default_str();
    c->add_option("--rope-dims", a->context.rope_dims, "rotated channels of each head of keys")->capture_default_str();
    c->add_option("--rope-base", a->context.rope_base, "frequency base of the rotation")->capture_default_str();
    c->add_option("--rope-scale", a->context.rope_scale, "linear position scale")->capture_default_str();
    c->add_flag("--rope-interleaved", a->context.rope_interleaved, "neighbouring channels are rotated together");
    c->add_flag("--json", a->json, "print the report as JSON");
    c->callback([a, &code] {
        code = run_report(a->out, lynx::encode_npy_file(a->in, a->out, a->options, a->context), a->json);
    });
}

void add_decode(CLI::App& parent, const std::shared_ptr<Arguments>& a, int& code) {
    CLI::App* c = parent.add_subcommand("decode", "decode a .lynx file to .npy");
    c->add_option("IN", a->in, ".lynx file to read")->required();
    c->add_option("OUT", a->out, ".npy file to write")->required();
    add_profile_option(*c, [](const std::string&) {});  // the file names it
    c->add_option("--tier", a->tier, "anchor, full, exact, last or a number from 0")->capture_default_str();
    c->callback([a, &code] { code = exit_code(lynx::decode_lynx_file(a->in, a->out, a->tier)); });
}

void add_inspect(CLI::App& parent, const std::shared_ptr<Arguments>& a, int& code) {
    CLI::App* c = parent.add_subcommand("inspect", "verify a .lynx file and show what is in it");
    c->add_option("IN", a->in, ".lynx file to read")->required();
    add_profile_option(*c, [](const std::string&) {});  // the file names it
    c->add_option("--symbols", a->symbols, ".npz file for the symbols and metadata of every page");
    c->add_flag("--json", a->json, "print the report as JSON");
    c->callback([a, &code] { code = run_report(a->in, lynx::inspect_lynx_file(a->in, a->symbols), a->json); });
}

void add_calibrate(CLI::App& parent, const std::shared_ptr<Arguments>& a, int& code) {
    CLI::App* c = parent.add_subcommand("calibrate", "learn a profile of a model's KV from texts, for the codec lynxt");
    add_model_options(*c, a->calibrate.model);
    c->add_option("--text", a->calibrate.text_paths, "text to learn from; may be repeated")->required();
    c->add_option("--tokens", a->calibrate.tokens, "tokens to learn from, all texts together")->capture_default_str();
    c->add_option("--basis-bits", a->calibrate.basis_bits, "of the transform's entries, 3..8")->capture_default_str();
    c->add_option("-o,--out", a->calibrate.out_path, "profile to write")->required();
    c->callback([a, &code] {
        const lynx::Result<lynx::CalibrateReport> report = lynx::calibrate_profile(a->calibrate);
        if (report.ok()) {
            std::printf("%s: profile %s from %u tokens, %llu bytes\n", a->calibrate.out_path.c_str(),
                        report.value().profile.c_str(), report.value().tokens,
                        static_cast<unsigned long long>(report.value().file_bytes));
        }
        code = exit_code(report.status());
    });
}

}  // namespace

void add_codec_command(CLI::App& app, int& exit_code) {
    CLI::App* codec = app.add_subcommand("codec", "encode, decode and inspect KV files");
    codec->require_subcommand(1);
    auto arguments = std::make_shared<Arguments>();
    add_encode(*codec, arguments, exit_code);
    add_decode(*codec, arguments, exit_code);
    add_inspect(*codec, arguments, exit_code);
    add_calibrate(*codec, arguments, exit_code);
    codec->add_subcommand("list", "the codecs of this build")->callback([&exit_code] {
        for (const lynx::CodecDescription& c : lynx::available_codecs()) {
            std::printf("%-16s %u %s  %s\n", c.name.c_str(), c.tiers, c.tiers == 1 ? "tier " : "tiers",
                        c.summary.c_str());
        }
        exit_code = kExitOk;
    });
}

}  // namespace lynxkv
