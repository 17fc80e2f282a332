// NumPy's .npy format, the part the codec's files need: float16, bfloat16 and float32 matrices in, arrays of any shape out.
// NumPy has no bfloat16: as in files of ml_dtypes it is two bytes of no type, '<V2' or '|V2'.
// Strict: anything else is an error that says what was found. Source: numpy/lib/format.py, versions 1.0 to 3.0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "kv/view.h"
#include "lynx/status.h"

namespace lynx::codec {

/// A matrix [tokens, channels] inside the bytes of an .npy file.
struct NpyMatrix {
    kv::DType dtype = kv::DType::f16;
    std::uint32_t tokens = 0;
    std::uint32_t channels = 0;
    bool fortran_order = false;
    base::ByteView data;

    /// The matrix as codecs see it; Fortran order is a channel-major view.
    [[nodiscard]] kv::ConstView view() const noexcept;
};

/// invalid_argument: not .npy, another dtype, not two-dimensional, empty or above the limits; truncated: data missing.
[[nodiscard]] Result<NpyMatrix> parse_npy_matrix(base::ByteView bytes);

/// What an .npy header calls a dtype.
[[nodiscard]] std::string_view npy_descr(kv::DType dtype) noexcept;

/// An .npy header (version 1.0) for a C-order array; `descr` as "<f2". The data follow it.
[[nodiscard]] std::string npy_header(std::string_view descr, std::span<const std::size_t> shape);

}  // namespace lynx::codec
