// Profiles: made from the fake model, written, read as hostile bytes, and used by lynxt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <unistd.h>

#include "base/rng.h"
#include "calibrate/fit.h"
#include "codec/profile.h"
#include "codec/ref/lynxt_rotation.h"
#include "codec/test_pages.h"
#include "lynx/calibrate.h"

namespace lynx {
namespace {

namespace fs = std::filesystem;
using codec::testing::Page;

constexpr std::uint32_t kHeads = 2;
constexpr std::uint32_t kHead = 8;
constexpr std::uint32_t kChannels = kHeads * kHead;
constexpr kv::Rope kRope{.dims = kHead, .base = 10000, .scale = 1, .interleaved = true};

/// Correlated tokens around a mean far from zero, rotated as keys are: what a profile is for.
Page correlated_keys(std::uint32_t tokens, std::uint64_t seed) {
    base::Rng rng(seed);
    Page page(kv::DType::f16, tokens, kChannels);
    const codec::LynxtRotation rotation({.kind = kv::Kind::key, .head_channels = kHead, .rope = kRope}, tokens);
    for (std::uint32_t t = 0; t < tokens; ++t) {
        std::vector<std::int32_t> row(kChannels);
        const double common = rng.unit() - 0.5;
        for (std::uint32_t c = 0; c < kChannels; ++c) {
            const double x = 3.0 * (c % 3) + common * (c % 2 == 0 ? 2 : -1) + 0.02 * (rng.unit() - 0.5);
            row[c] = static_cast<std::int32_t>(x * 0x1p20);
        }
        rotation.apply(t, row);
        for (std::uint32_t c = 0; c < kChannels; ++c) {
            page.set(t, c, static_cast<float>(row[c]) * 0x1p-20F);
        }
    }
    return page;
}

kv::LayerGeometry geometry() {
    kv::LayerGeometry g;
    g.kv_heads = kHeads;
    g.key_dim = kHead;
    g.value_dim = kHead;
    g.rope = kRope;
    return g;
}

codec::PageContext keys_context(std::uint32_t tokens) {
    return codec::page_context({.layers = {geometry()}}, 0, kv::Kind::key, {tokens, 256}, 0);
}

codec::Profile make_profile() {
    calibrate::Statistics statistics(kChannels);
    const Page page = correlated_keys(1000, 1);
    statistics.add(page.view(), keys_context(1000));
    codec::Profile profile;
    profile.model.fill(7);
    profile.calibration_tokens = 1000;
    profile.layers = {geometry()};
    profile.matrices.assign(2, calibrate::fit_matrix(statistics, {.block = kChannels, .basis_bits = 8}));
    return profile;
}

std::size_t bytes_of(const std::vector<base::Bytes>& payloads) {
    std::size_t n = 0;
    for (const base::Bytes& p : payloads) {
        n += p.size();
    }
    return n;
}

double error_of(const Page& a, const Page& b) {
    double error = 0;
    double power = 0;
    for (std::uint32_t t = 0; t < a.view().tokens; ++t) {
        for (std::uint32_t c = 0; c < kChannels; ++c) {
            error += (a.at(t, c) - b.at(t, c)) * (a.at(t, c) - b.at(t, c));
            power += a.at(t, c) * a.at(t, c);
        }
    }
    return error / power;
}

TEST(Profile, SurvivesWritingAndReading) {
    const codec::Profile made = make_profile();
    const codec::Profile read = codec::parse_profile(codec::serialise_profile(made)).value();
    EXPECT_EQ(read.model, made.model);
    EXPECT_EQ(read.layers, made.layers);
    EXPECT_EQ(read.matrices, made.matrices);
    EXPECT_NE(read.hash, 0U);
}

TEST(Profile, EveryPrefixIsTruncatedAndEveryFlippedBitNoticed) {
    const base::Bytes good = codec::serialise_profile(make_profile());
    for (std::size_t n = 0; n < good.size(); ++n) {
        ASSERT_EQ(codec::parse_profile(base::ByteView(good).first(n)).status().code(), ErrorCode::truncated) << n;
    }
    const std::uint64_t name = codec::parse_profile(good).value().hash;
    base::Bytes bad = good;
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
        bad[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        // Deflate has bits that say nothing: such a file holds the same numbers, but goes by another name.
        const Result<codec::Profile> read = codec::parse_profile(bad);
        ASSERT_TRUE(!read.ok() || read.value().hash != name) << "bit " << bit;
        bad[bit / 8] = good[bit / 8];
    }
}

TEST(Profile, OtherModelsAreRefusedByName) {
    codec::Profile profile = make_profile();
    const std::vector<kv::LayerGeometry> layers = profile.layers;
    EXPECT_TRUE(codec::check_profile_model(profile, profile.model, {layers}).ok());
    std::array<std::uint8_t, 16> other = profile.model;
    other[15] = 8;
    const Status s = codec::check_profile_model(profile, other, {layers});
    EXPECT_EQ(s.code(), ErrorCode::invalid_argument);
    EXPECT_NE(s.message().find("0707070708"), std::string::npos) << s.message();
    EXPECT_FALSE(codec::check_profile_model(profile, profile.model, {{layers[0], layers[0]}}).ok());
}

TEST(LynxtWithProfile, BeatsTheIdentityOnCorrelatedKeysAndRestoresThem) {
    const auto kept = codec::keep_profile(codec::parse_profile(codec::serialise_profile(make_profile())).value());
    codec::CodecParams with;
    with.profile = kept->hash;
    const auto calibrated = codec::testing::codec_or_die("lynxt", with);
    const auto plain = codec::testing::codec_or_die("lynxt");
    const Page page = correlated_keys(256, 2);
    const auto payloads = codec::testing::encode_or_die(*calibrated, page.view(), keys_context(256));
    const auto others = codec::testing::encode_or_die(*plain, page.view(), keys_context(256));
    const Page back = codec::testing::decode_or_die(*calibrated, payloads, 3, page.view());
    EXPECT_LT(error_of(page, back), 1e-4);
    EXPECT_LT(bytes_of(payloads), bytes_of(others));
    double before = 1;
    for (std::size_t tiers = 1; tiers <= 3; ++tiers) {
        const double error = error_of(page, codec::testing::decode_or_die(*calibrated, payloads, tiers, page.view()));
        EXPECT_LT(error, before);
        before = error;
    }
    // The context names the layer; a profile without it must not be guessed around.
    codec::CodecParams unknown;
    unknown.profile = kept->hash ^ 1U;
    EXPECT_EQ(codec::make_codec("lynxt", unknown).status().code(), ErrorCode::invalid_argument);
}

class Calibrate : public ::testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("lynx_calibrate_" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        base::Rng rng(3);
        std::ofstream text(folder_ / "text");
        for (int i = 0; i < 3000; ++i) {
            text << static_cast<char>('a' + rng.below(26));
        }
    }
    void TearDown() override { fs::remove_all(folder_); }
    CalibrateOptions options(std::uint32_t tokens) const {
        CalibrateOptions o;
        o.model.path = "fake";
        o.model.context_tokens = 1024;
        o.window_tokens = 512;
        o.text_paths = {(folder_ / "text").string()};
        o.tokens = tokens;
        o.out_path = (folder_ / "profile").string();
        return o;
    }
    fs::path folder_;
};

TEST_F(Calibrate, WritesAProfileThatLoadsUnderTheNameItReports) {
    const CalibrateReport report = calibrate_profile(options(2048)).value();
    EXPECT_EQ(report.tokens, 2048U - 4 * 4);  // the sinks of four windows
    EXPECT_EQ(report.file_bytes, fs::file_size(folder_ / "profile"));
    EXPECT_EQ(load_profile((folder_ / "profile").string()).value(), report.profile);
}

TEST_F(Calibrate, SaysThatATextIsTooShort) {
    for (const std::uint32_t tokens :
         {5000U, 64U, 2U}) {  // more than there is; fewer than the channels call for; only sinks
        const Status s = calibrate_profile(options(tokens)).status();
        EXPECT_EQ(s.code(), ErrorCode::invalid_argument) << tokens;
        EXPECT_NE(s.message().find("expected"), std::string::npos) << s.message();
    }
    EXPECT_FALSE(fs::exists(folder_ / "profile"));
}

}  // namespace
}  // namespace lynx
