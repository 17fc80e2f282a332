// Writing NumPy's .npz: a zip archive of .npy members. Byte for byte the same for the same arrays.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "lynx/status.h"

namespace lynx::codec {

class NpzWriter {
public:
    /// Adds an array under `name`; `data` is C-order and copied.
    template <class T>
    void add(std::string_view name, std::string_view descr, std::span<const std::size_t> shape,
             std::span<const T> data) {
        add_bytes(name, descr, shape, std::as_bytes(data));
    }
    /// Replaces the file at `path`. io: with libzip's reason.
    [[nodiscard]] Status write(const std::string& path) const;

private:
    void add_bytes(std::string_view name, std::string_view descr, std::span<const std::size_t> shape,
                   base::ByteView data);

    std::vector<std::pair<std::string, base::Bytes>> members_;
};

}  // namespace lynx::codec
