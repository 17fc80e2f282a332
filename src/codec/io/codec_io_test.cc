// Files end to end: the paper's algorithm against the NumPy oracle's arrays (tests/golden), and every kind of bad input.
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/half.h"
#include "codec/container.h"
#include "codec/io/files.h"
#include "codec/io/npy.h"
#include "codec/test_pages.h"
#include "lynx/codec.h"

namespace lynx::codec {
namespace {

namespace fs = std::filesystem;
const fs::path kGolden = fs::path(LYNX_TESTS_DIR) / "golden";
const fs::path kGoldenErrors = fs::path(LYNX_TESTS_DIR) / "golden_errors";

/// A folder of this test, removed with everything in it.
class Scratch {
public:
    Scratch() : path_(fs::temp_directory_path() / ("lynx_codec_io_" + std::to_string(::getpid()))) {
        fs::create_directories(path_);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { fs::remove_all(path_); }
    [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

private:
    fs::path path_;
};

/// A member's elements in C order.
template <class T>
std::vector<T> read_npz(const std::string& path, const std::string& name) {
    int error = 0;
    zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, &error);
    if (archive == nullptr) {
        throw std::runtime_error("cannot open " + path);
    }
    zip_stat_t stat;
    zip_file_t* file = zip_fopen(archive, (name + ".npy").c_str(), 0);
    if (file == nullptr || zip_stat(archive, (name + ".npy").c_str(), 0, &stat) != 0) {
        zip_discard(archive);
        throw std::runtime_error("no member " + name + " in " + path);
    }
    std::vector<unsigned char> bytes(stat.size);
    const zip_int64_t n = zip_fread(file, bytes.data(), bytes.size());
    zip_fclose(file);
    zip_discard(archive);
    const std::size_t data = std::size_t{10} + bytes[8] + std::size_t{bytes[9]} * 256;
    std::vector<T> out((static_cast<std::size_t>(n) - data) / sizeof(T));
    std::memcpy(out.data(), bytes.data() + data, out.size() * sizeof(T));
    const std::string header(bytes.begin() + 10, bytes.begin() + static_cast<std::ptrdiff_t>(data));
    std::size_t rows = 0;
    std::size_t columns = 0;
    const char* shape = std::strchr(header.c_str(), '(');
    if (header.find("'fortran_order': True") != std::string::npos &&
        std::sscanf(shape, "(%zu, %zu)", &rows, &columns) == 2) {
        const std::vector<T> transposed = out;
        for (std::size_t i = 0; i < out.size(); ++i) {
            out[i] = transposed[i % columns * rows + i / columns];
        }
    }
    return out;
}

bool has_member(const std::string& path, const std::string& name) {
    int error = 0;
    zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, &error);
    const bool found = archive != nullptr && zip_name_locate(archive, (name + ".npy").c_str(), 0) >= 0;
    zip_discard(archive);
    return found;
}

std::vector<double> read_matrix(const std::string& path) {
    const base::Bytes bytes = std::move(read_file(path)).value();
    const NpyMatrix m = std::move(parse_npy_matrix(bytes)).value();
    std::vector<double> out;
    for (std::uint32_t t = 0; t < m.tokens; ++t) {
        for (std::uint32_t c = 0; c < m.channels; ++c) {
            out.push_back(testing::read_element(m.view(), t, c));
        }
    }
    return out;
}

struct GoldenCase {
    std::string name;
    double alpha;
    std::uint32_t chunk;
};

class Golden : public ::testing::TestWithParam<GoldenCase> {
protected:
    Scratch scratch_;
};

INSTANTIATE_TEST_SUITE_P(Alg1, Golden,
                         ::testing::Values(GoldenCase{"k_a255_c32", 255, 32}, GoldenCase{"k_a255_c16", 255, 16},
                                           GoldenCase{"k_a100_c32", 100, 32}, GoldenCase{"v_a255_c32", 255, 32},
                                           GoldenCase{"v_a100_c32", 100, 32}),
                         [](const auto& instance) { return instance.param.name; });

TEST_P(Golden, MetadataLevelsSymbolsAndValuesEqualTheOracle) {
    const GoldenCase& g = GetParam();
    const std::string oracle = (kGolden / ("alg1_" + g.name + ".npz")).string();
    const std::string page = (kGolden / ("page_" + g.name.substr(0, 1) + "_layer12.npy")).string();
    CodecOptions options{.name = "alg1", .alpha = g.alpha, .chunk_tokens = g.chunk};
    ASSERT_TRUE(encode_npy_file(page, scratch_.file("a.lynx"), options).ok());
    const auto report = inspect_lynx_file(scratch_.file("a.lynx"), scratch_.file("a.npz"));
    ASSERT_TRUE(report.ok()) << report.status().to_string();
    const std::string ours = scratch_.file("a.npz");

    for (const std::string name : {"gamma_min", "gamma_scale", "mu", "sigma"}) {
        const auto expected = read_npz<float>(oracle, name);
        const auto actual = read_npz<float>(ours, name);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) {
            ASSERT_NEAR(actual[i], expected[i], 1e-6F * std::fabs(expected[i])) << name << " " << i;
        }
    }
    const auto y = read_npz<float>(oracle, "y");
    const auto level = read_npz<std::int16_t>(oracle, "level");
    const auto our_level = read_npz<std::int16_t>(ours, "level");
    const auto q_anc = read_npz<std::int8_t>(oracle, "q_anc");
    const auto q_res = read_npz<std::int8_t>(oracle, "q_res");
    const auto our_anc = read_npz<std::int8_t>(ours, "q_anc");
    const auto our_res = read_npz<std::int8_t>(ours, "q_res");
    ASSERT_EQ(our_level.size(), level.size());
    std::size_t differing = 0;
    for (std::size_t i = 0; i < level.size(); ++i) {
        if (our_level[i] != level[i]) {
            ++differing;
            ASSERT_EQ(std::abs(our_level[i] - level[i]), 1) << i;
            ASSERT_LT(std::fabs(y[i] - std::floor(y[i]) - 0.5F), 5e-3F) << i;
        } else if (level[i] != 0) {  // the sign of a zero is the last bit of a sum
            ASSERT_EQ(our_anc[i], q_anc[i]) << i;
            ASSERT_EQ(our_res[i], q_res[i]) << i;
        }
    }
    EXPECT_LE(differing, level.size() / 1000);

    for (const std::string tier : {"anchor", "full"}) {
        ASSERT_TRUE(decode_lynx_file(scratch_.file("a.lynx"), scratch_.file("a.npy"), tier).ok());
        const auto x = read_matrix(scratch_.file("a.npy"));
        const auto expected = read_npz<float>(oracle, "x_" + tier);  // [channels, tokens]
        for (std::size_t i = 0; i < x.size(); ++i) {
            const std::size_t j = i % 192 * 256 + i / 192;
            if (our_level[j] == level[j]) {
                const double e = static_cast<double>(expected[j]);
                ASSERT_NEAR(x[i], e, 1e-5 + testing::half_ulp(kv::DType::f16, std::fabs(e) * 1.0001))
                    << tier << " " << i;
            }
        }
    }
}

double nmse(const std::vector<double>& x, const std::vector<double>& y) {
    double error = 0;
    double energy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        error += (x[i] - y[i]) * (x[i] - y[i]);
        energy += x[i] * x[i];
    }
    return error / energy;
}

struct QualityCase {
    std::string codec;
    std::string page;
    double anchor_max;
    double full_max;
};

/// Measured on these two pages, with a tenth to spare: a coder that gets worse is noticed.
TEST(Quality, NmseOnRealPagesStaysWhereItWasMeasured) {
    const Scratch scratch;
    for (const QualityCase& q :
         {QualityCase{"nested44", "k", 1.4e-3, 5.1e-6}, QualityCase{"nested44", "v", 5.2e-3, 1.9e-5},
          QualityCase{"lynx44", "k", 1.2e-2, 3.9e-5}, QualityCase{"lynx44", "v", 4.1e-2, 1.3e-4},
          QualityCase{"alg1", "k", 9.7e-3, 3.5e-5}, QualityCase{"alg1", "v", 2.9e-2, 1.1e-4},
          QualityCase{"int8", "k", 9.2e-5, 9.2e-5}, QualityCase{"int8", "v", 4.2e-5, 4.2e-5},
          QualityCase{"int4", "k", 3.0e-2, 3.0e-2}, QualityCase{"int4", "v", 1.4e-2, 1.4e-2}}) {
        const std::string page = (kGolden / ("page_" + q.page + "_layer12.npy")).string();
        const CodecOptions options{.name = q.codec, .sinks = 0, .recent = 0};
        ASSERT_TRUE(encode_npy_file(page, scratch.file("q.lynx"), options).ok());
        for (const auto& [tier, bound] : {std::pair{"anchor", q.anchor_max}, std::pair{"full", q.full_max}}) {
            ASSERT_TRUE(decode_lynx_file(scratch.file("q.lynx"), scratch.file("q.npy"), tier).ok());
            const double e = nmse(read_matrix(page), read_matrix(scratch.file("q.npy")));
            EXPECT_LE(e, bound) << q.codec << " " << q.page << " " << tier;
            EXPECT_GE(e, bound * 0.7) << "better than measured: lower the bound";
        }
    }
}

TEST(Symbols, ArraysHaveTheDocumentedShapesAndOnlyWhatTheCodecHas) {
    const Scratch scratch;
    const std::string page = (kGolden / "page_k_layer12.npy").string();
    const CodecOptions options{.name = "lynx44", .chunk_tokens = 30, .page_tokens = 100, .meta = "q8"};
    ASSERT_TRUE(encode_npy_file(page, scratch.file("s.lynx"), options).ok());
    ASSERT_TRUE(inspect_lynx_file(scratch.file("s.lynx"), scratch.file("s.npz")).ok());
    EXPECT_EQ(read_npz<std::int16_t>(scratch.file("s.npz"), "level").size(), 3U * 192 * 100);
    EXPECT_EQ(read_npz<float>(scratch.file("s.npz"), "mu").size(), 3U * 192 * 4);
    EXPECT_EQ(read_npz<float>(scratch.file("s.npz"), "gamma_min").size(), 3U * 192);
    ASSERT_TRUE(encode_npy_file(page, scratch.file("n.lynx"), {}).ok());
    ASSERT_TRUE(inspect_lynx_file(scratch.file("n.lynx"), scratch.file("n.npz")).ok());
    EXPECT_TRUE(has_member(scratch.file("n.npz"), "q_anc"));
    EXPECT_FALSE(has_member(scratch.file("n.npz"), "mu"));
    // nested44 keeps the first 4 tokens raw: their symbols are absent, shown as 0, and token 4's are not all 0.
    const auto level = read_npz<std::int16_t>(scratch.file("n.npz"), "level");
    int sum_at[5] = {};
    for (std::size_t c = 0; c < 192; ++c) {
        for (std::size_t t = 0; t < 5; ++t) {
            sum_at[t] += level[c * 256 + t];
        }
    }
    EXPECT_EQ(sum_at[0] + sum_at[1] + sum_at[2] + sum_at[3], 0);
    EXPECT_GT(sum_at[4], 0);
}

std::string npy_bytes(const std::string& header, std::size_t data, char major = 1) {
    std::string out("\x93NUMPY");
    out.append({major, 0, static_cast<char>(header.size()), static_cast<char>(header.size() >> 8U)});
    if (major > 1) {
        out.append(2, '\0');
    }
    return out.append(header).append(data, '\0');
}

Status parse(const std::string& bytes) { return parse_npy_matrix(base::as_view(bytes)).status(); }

TEST(Npy, AcceptsWhatNumpyWrites) {
    const std::string good = "{'descr': '<f2', 'fortran_order': False, 'shape': (3, 4), }     \n";
    EXPECT_TRUE(parse(npy_bytes(good, 24)).ok());
    EXPECT_TRUE(parse(npy_bytes(good, 24, 2)).ok());
    EXPECT_TRUE(parse(npy_bytes("{'shape': (3, 4), 'fortran_order': True, 'descr': '<f4'}\n", 48)).ok());
    const std::array<std::size_t, 2> shape{3, 4};
    EXPECT_TRUE(parse(npy_header("<f2", shape) + std::string(24, '\0')).ok());
    EXPECT_EQ(npy_header("<f2", shape).size() % 64, 0U);
}

TEST(Npy, RefusesEverythingElseInOneLine) {
    const auto with = [](const std::string& descr, const std::string& order, const std::string& shape,
                         std::size_t data) {
        return npy_bytes("{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }\n", data);
    };
    const std::string good = with("'<f2'", "False", "(3, 4)", 24);
    ASSERT_TRUE(parse(good).ok());
    for (const std::string& bad : {std::string(),
                                   std::string("PK\x03\x04 not numpy"),
                                   std::string("\x93NUMPY\x04\0aa", 10),
                                   with("'<f8'", "False", "(3, 4)", 96),
                                   with("'>f2'", "False", "(3, 4)", 24),
                                   with("'|u1'", "False", "(3, 4)", 12),
                                   with("'<f2'", "False", "(12,)", 24),
                                   with("'<f2'", "False", "(3, 4, 1)", 24),
                                   with("'<f2'", "False", "()", 2),
                                   with("'<f2'", "False", "(0, 4)", 0),
                                   with("'<f2'", "False", "(3, 0)", 0),
                                   with("'<f2'", "False", "(3, 65537)", 24),
                                   with("'<f2'", "False", "(99999999999999999999, 4)", 24),
                                   with("'<f2'", "False", "(-3, 4)", 24),
                                   with("'<f2'", "Maybe", "(3, 4)", 24),
                                   with("[('a', '<f2')]", "False", "(3, 4)", 24),
                                   npy_bytes("{}", 0),
                                   npy_bytes("{'descr': '<f2', 'descr': '<f2'}", 0),
                                   npy_bytes("garbage", 24),
                                   good + "x",
                                   good.substr(0, good.size() - 1),
                                   good.substr(0, 20)}) {
        const Status s = parse(bad);
        EXPECT_TRUE(s.code() == ErrorCode::invalid_argument || s.code() == ErrorCode::truncated) << bad;
        EXPECT_EQ(s.message().find('\n'), std::string::npos) << s.message();
    }
    for (std::size_t n = 0; n < good.size(); ++n) {
        EXPECT_FALSE(parse(good.substr(0, n)).ok()) << n;
    }
}

base::Bytes small_file(const std::string& codec) {
    FileHeader h;
    h.codec = codec;
    h.tokens = 7;
    h.channels = 3;
    h.params.page_tokens = 4;
    const auto coder = testing::codec_or_die(codec, h.params);
    h.tiers = coder->info().tiers;
    std::vector<base::Bytes> payloads(std::size_t{2} * h.tiers);
    const testing::Page page = testing::random_page(kv::DType::f16, 7, 3, 1);
    for (std::uint32_t i = 0; i < 2; ++i) {
        const auto tiers = testing::encode_or_die(*coder, page.view().slice_tokens(4 * i, i == 0 ? 4 : 3), {4 * i, 0});
        for (std::size_t t = 0; t < tiers.size(); ++t) {
            payloads[t * 2 + i] = tiers[t];
        }
    }
    return std::move(write_container(h, payloads)).value();
}

TEST(Container, EveryPrefixIsTruncatedAndEveryFlipOfTheHeaderIsNoticed) {
    base::Bytes file = small_file("nested44");
    ASSERT_TRUE(parse_container(file).ok());
    for (std::size_t n = 0; n < file.size(); ++n) {
        ASSERT_EQ(parse_container(base::ByteView(file).first(n)).status().code(), ErrorCode::truncated) << n;
    }
    for (std::size_t bit = 0; bit < kFileHeaderBytes * 8; ++bit) {
        file[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        ASSERT_FALSE(parse_container(file).ok()) << bit;
        file[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    }
    file.push_back(std::byte{0});
    EXPECT_EQ(parse_container(file).status().code(), ErrorCode::corrupt);
}

TEST(Container, AnyFlipAnywhereFailsTheWholeDecode) {
    const Scratch scratch;
    const base::Bytes file = small_file("alg1");
    for (std::size_t i = 0; i < file.size(); ++i) {
        base::Bytes damaged = file;
        damaged[i] ^= static_cast<std::byte>(1U << i % 8);
        const std::array<base::ByteView, 1> parts{damaged};
        ASSERT_TRUE(write_file(scratch.file("d.lynx"), parts).ok());
        EXPECT_FALSE(decode_lynx_file(scratch.file("d.lynx"), scratch.file("d.npy"), "full").ok()) << "byte " << i;
        EXPECT_FALSE(inspect_lynx_file(scratch.file("d.lynx"), "").ok()) << "byte " << i;
    }
}

TEST(Files, FortranOrderAndFloat32EncodeLikeTheirTranspose) {
    const Scratch scratch;
    const testing::Page page = testing::random_page(kv::DType::f32, 30, 20, 2);
    testing::Page fortran(kv::DType::f32, 30, 20, true);
    fortran.copy_from(page);
    const auto write = [&](const std::string& name, const testing::Page& p, const std::string& order) {
        const std::string bytes =
            npy_bytes("{'descr': '<f4', 'fortran_order': " + order + ", 'shape': (30, 20), }\n", 0);
        const std::array<base::ByteView, 2> parts{base::as_view(bytes), base::ByteView(p.view().data, 30U * 20 * 4)};
        ASSERT_TRUE(write_file(scratch.file(name), parts).ok());
    };
    write("c.npy", page, "False");
    write("f.npy", fortran, "True");
    ASSERT_TRUE(encode_npy_file(scratch.file("c.npy"), scratch.file("c.lynx"), {}).ok());
    ASSERT_TRUE(encode_npy_file(scratch.file("f.npy"), scratch.file("f.lynx"), {}).ok());
    EXPECT_EQ(read_file(scratch.file("c.lynx")).value(), read_file(scratch.file("f.lynx")).value());
}

/// All 65,536 patterns of 16 bits, as either of the types that have so many.
TEST(Files, AnExactTierGivesTheMatrixBack) {
    const Scratch scratch;
    for (const std::string descr : {"<f2", "<V2", "|V2"}) {
        std::vector<std::uint16_t> patterns(65536);
        std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
        const std::string header =
            npy_bytes("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (512, 128), }\n", 0);
        const std::array<base::ByteView, 2> parts{base::as_view(header), std::as_bytes(std::span(patterns))};
        ASSERT_TRUE(write_file(scratch.file("p.npy"), parts).ok());
        for (const std::string name : {"nested44-exact", "lynxt-exact", "lynxt-exact-mono"}) {
            const auto report = encode_npy_file(scratch.file("p.npy"), scratch.file("p.lynx"), {.name = name});
            ASSERT_TRUE(report.ok()) << report.status().to_string();
            EXPECT_EQ(report.value().dtype, descr == "<f2" ? "f16" : "bf16");
            EXPECT_TRUE(report.value().exact);
            EXPECT_EQ(report.value().full_tier + (name == "lynxt-exact-mono" ? 1U : 2U),
                      report.value().tier_bits.size());
            ASSERT_TRUE(inspect_lynx_file(scratch.file("p.lynx"), scratch.file("p.npz")).ok());
            for (const std::string tier : {"full", "exact", "last"}) {
                ASSERT_TRUE(decode_lynx_file(scratch.file("p.lynx"), scratch.file("back.npy"), tier).ok());
                const base::Bytes bytes = read_file(scratch.file("back.npy")).value();
                const NpyMatrix back = parse_npy_matrix(bytes).value();
                EXPECT_EQ(back.dtype, descr == "<f2" ? kv::DType::f16 : kv::DType::bf16);
                const bool same = std::ranges::equal(back.data, std::as_bytes(std::span(patterns)));
                EXPECT_EQ(same, tier != "full" || name == "lynxt-exact-mono") << name << " " << tier;
            }
        }
    }
    ASSERT_TRUE(encode_npy_file(scratch.file("p.npy"), scratch.file("p.lynx"), {.name = "f16"}).status().code() ==
                ErrorCode::invalid_argument);  // it refuses infinities
    const std::string page = (kGolden / "page_k_layer12.npy").string();
    ASSERT_TRUE(encode_npy_file(page, scratch.file("x.lynx"), {}).ok());
    EXPECT_EQ(decode_lynx_file(scratch.file("x.lynx"), scratch.file("x.npy"), "exact").code(),
              ErrorCode::invalid_argument);  // nested44 has no such tier
}

TEST(Files, BadCallsSayWhy) {
    const Scratch scratch;
    const std::string page = (kGolden / "page_k_layer12.npy").string();
    const auto encode = [&](const CodecOptions& o) {
        return encode_npy_file(page, scratch.file("x.lynx"), o).status().code();
    };
    EXPECT_EQ(encode({.name = "zip"}), ErrorCode::invalid_argument);
    EXPECT_EQ(encode({.alpha = -1}), ErrorCode::invalid_argument);
    EXPECT_EQ(encode({.chunk_tokens = 70000}), ErrorCode::invalid_argument);
    EXPECT_EQ(encode({.page_tokens = 0}), ErrorCode::invalid_argument);
    EXPECT_EQ(encode({.meta = "f64"}), ErrorCode::invalid_argument);
    EXPECT_EQ(encode({}), ErrorCode::ok);
    EXPECT_EQ(decode_lynx_file(scratch.file("x.lynx"), scratch.file("x.npy"), "best").code(),
              ErrorCode::invalid_argument);
    EXPECT_EQ(decode_lynx_file(scratch.file("none"), scratch.file("x.npy"), "full").code(), ErrorCode::io);
    EXPECT_EQ(decode_lynx_file(scratch.file("x.lynx"), scratch.file("no/x.npy"), "full").code(), ErrorCode::io);
    EXPECT_EQ(inspect_lynx_file(scratch.file("x.lynx"), scratch.file("no/x.npz")).status().code(), ErrorCode::io);
    EXPECT_EQ(inspect_lynx_file(kGolden.string(), "").status().code(), ErrorCode::io);
    EXPECT_EQ(inspect_lynx_file(page, "").status().code(), ErrorCode::corrupt);
}

/// tests/golden holds files of the released format: what they decode to never changes.
TEST(GoldenFiles, DecodeToTheirRecordedChecksums) {
    const Scratch scratch;
    ASSERT_TRUE(load_profile((kGolden / "fake.lnxc").string()).ok());
    std::ifstream list(kGolden / "checksums.txt");
    std::string name;
    std::string tier;
    std::uint32_t expected = 0;
    int files = 0;
    while (list >> name >> tier >> expected) {
        ASSERT_TRUE(decode_lynx_file((kGolden / name).string(), scratch.file("g.npy"), tier).ok()) << name;
        const base::Bytes bytes = read_file(scratch.file("g.npy")).value();
        const NpyMatrix m = parse_npy_matrix(bytes).value();
        EXPECT_EQ(base::crc32(m.data), expected) << name << " " << tier;
        ++files;
    }
    EXPECT_GE(files, 2 * static_cast<int>(available_codecs().size()));
}

/// tests/golden_errors/CODE.what.lynx fails with exactly that code.
TEST(GoldenFiles, BadFilesFailWithTheCodeInTheirName) {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(kGoldenErrors)) {
        const std::string name = entry.path().filename().string();
        const Status s = inspect_lynx_file(entry.path().string(), "").status();
        EXPECT_EQ(to_string(s.code()), name.substr(0, name.find('.'))) << name << ": " << s.message();
        ++files;
    }
    EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace lynx::codec
