#include "codec/io/files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace lynx::codec {
namespace {

struct Close {
    void operator()(std::FILE* f) const noexcept { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Close>;

Status io_status(const std::string& path) { return {ErrorCode::io, path + ": " + std::strerror(errno)}; }

}  // namespace

Result<base::Bytes> read_file(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) {
        return Status{ErrorCode::io, path + ": is a directory"};
    }
    const File file(std::fopen(path.c_str(), "rb"));
    if (!file) {
        return io_status(path);
    }
    base::Bytes bytes;
    if (const std::uintmax_t size = std::filesystem::file_size(path, error); !error) {
        if (size > kFileBytesMax) {
            return Status{ErrorCode::limit_exceeded, path + ": " + std::to_string(size) + " bytes: expected at most " +
                                                         std::to_string(kFileBytesMax)};
        }
        bytes.resize(size);
    }
    const std::size_t read = std::fread(bytes.data(), 1, bytes.size(), file.get());
    if (std::ferror(file.get()) != 0) {
        return io_status(path);
    }
    bytes.resize(read);
    return bytes;
}

Status write_file(const std::string& path, std::span<const base::ByteView> parts) {
    File file(std::fopen(path.c_str(), "wb"));
    if (!file) {
        return io_status(path);
    }
    for (const base::ByteView part : parts) {
        if (std::fwrite(part.data(), 1, part.size(), file.get()) != part.size()) {
            return io_status(path);
        }
    }
    if (std::fclose(file.release()) != 0) {
        return io_status(path);
    }
    return {};
}

}  // namespace lynx::codec
