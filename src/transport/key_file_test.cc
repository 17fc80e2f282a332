// Key files: what is taken, and what is wrong with what is not. No message shows a key.
#include "transport/tcp/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lynx::transport {
namespace {

const std::string kHex(64, 'a');

TEST(KeyFile, TakesNamedKeysInOrder) {
    const auto keys = parse_keys("# mine\n\nprefill-1:" + kHex + "\r\nB_2.x:" + std::string(32, '0') +
                                 "00112233445566778899AABBCCDDEEFF");
    ASSERT_TRUE(keys.ok()) << keys.status().to_string();
    ASSERT_EQ(keys.value().size(), 2U);
    EXPECT_EQ(keys.value()[0].name, "prefill-1");
    EXPECT_EQ(keys.value()[0].secret[31], 0xAA);
    EXPECT_EQ(keys.value()[1].name, "B_2.x");
    EXPECT_EQ(keys.value()[1].secret[16], 0x00);
    EXPECT_EQ(keys.value()[1].secret[31], 0xFF);
}

TEST(KeyFile, SaysWhichLineIsWrongAndNotWhatIsInIt) {
    const std::string good = "a:" + kHex + "\n";
    const struct {
        std::string text;
        const char* message;
    } cases[] = {
        {"", "no key in it"},
        {"# nothing\n", "no key in it"},
        {good + kHex + "\n", "line 2: expected NAME:HEX"},
        {":" + kHex, "line 1: a name is"},
        {"a b:" + kHex, "line 1: a name is"},
        {std::string(65, 'n') + ":" + kHex, "line 1: a name is"},
        {"a:" + kHex.substr(1), "line 1: a key is 64"},
        {"a:" + kHex + "0", "line 1: a key is 64"},
        {"a:" + kHex.substr(2) + "-1", "line 1: a key is 64"},
        {"a:" + kHex.substr(2) + "0x", "line 1: a key is 64"},
        {"a:" + kHex.substr(1) + " ", "line 1: a key is 64"},
        {good + good, "line 2: the name was there before"},
    };
    for (const auto& each : cases) {
        const auto keys = parse_keys(each.text);
        EXPECT_EQ(keys.status().code(), ErrorCode::invalid_argument) << each.message;
        EXPECT_NE(keys.status().message().find(each.message), std::string::npos) << keys.status().to_string();
        EXPECT_EQ(keys.status().message().find("aaaa"), std::string::npos);
    }
}

TEST(KeyFile, HasLimits) {
    std::string many;
    for (std::size_t i = 0; i <= kKeysMax; ++i) {
        many.append("k").append(std::to_string(i)).append(":").append(kHex).append("\n");
    }
    EXPECT_EQ(parse_keys(many).status().code(), ErrorCode::limit_exceeded);

    const auto path = std::filesystem::temp_directory_path() / std::to_string(::getpid()).insert(0, "lynx-keys-");
    std::ofstream(path) << std::string(kKeyFileBytesMax + 1, '#');
    const Status large = read_key_file(path.string()).status();
    EXPECT_EQ(large.code(), ErrorCode::limit_exceeded) << large.to_string();
    EXPECT_NE(large.message().find(path.string()), std::string::npos);
    std::filesystem::remove(path);
    EXPECT_EQ(read_key_file(path.string()).status().code(), ErrorCode::io);
    EXPECT_EQ(read_key_file(std::filesystem::temp_directory_path().string()).status().code(),
              ErrorCode::invalid_argument);
}

TEST(KeyFile, APipeThatNobodyWritesIsRefusedAtOnce) {
    const auto path = std::filesystem::temp_directory_path() / std::to_string(::getpid()).insert(0, "lynx-pipe-");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Status refused = read_key_file(path.string()).status();  // or the test never ends
    EXPECT_EQ(refused.code(), ErrorCode::invalid_argument) << refused.to_string();
    EXPECT_NE(refused.message().find("regular file"), std::string::npos) << refused.to_string();
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace lynx::transport
