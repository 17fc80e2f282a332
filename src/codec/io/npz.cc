#include "codec/io/npz.h"

#include <zip.h>

#include "codec/io/npy.h"

namespace lynx::codec {
namespace {

constexpr std::uint16_t kDosDate1980 = (1U << 5U) | 1U;  // 1980-01-01: members carry no clock

Status zip_status(const std::string& path, zip_error_t* error) {
    Status s{ErrorCode::io, path + ": " + zip_error_strerror(error)};
    zip_error_fini(error);
    return s;
}

}  // namespace

void NpzWriter::add_bytes(std::string_view name, std::string_view descr, std::span<const std::size_t> shape,
                          base::ByteView data) {
    const std::string header = npy_header(descr, shape);
    const base::ByteView head = base::as_view(header);
    base::Bytes member(head.begin(), head.end());
    member.insert(member.end(), data.begin(), data.end());
    members_.emplace_back(std::string(name) + ".npy", std::move(member));
}

Status NpzWriter::write(const std::string& path) const {
    int code = 0;
    zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (archive == nullptr) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        return zip_status(path, &error);
    }
    bool added = true;
    for (const auto& [name, bytes] : members_) {
        zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
        const zip_int64_t index =
            source == nullptr ? -1 : zip_file_add(archive, name.c_str(), source, ZIP_FL_OVERWRITE);
        if (index < 0) {
            zip_source_free(source);
            added = false;
            break;
        }
        added = zip_file_set_dostime(archive, static_cast<zip_uint64_t>(index), 0, kDosDate1980, 0) == 0;
    }
    if (added && zip_close(archive) == 0) {
        return {};
    }
    Status s{ErrorCode::io, path + ": " + zip_strerror(archive)};
    zip_discard(archive);
    return s;
}

}  // namespace lynx::codec
