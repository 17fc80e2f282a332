// The arrays that `inspect --symbols` writes: every page's symbols, channel-major as in the paper, in one .npz.
#pragma once

#include <string>
#include <vector>

#include "codec/coder.h"
#include "codec/container.h"
#include "lynx/status.h"

namespace lynx::codec {

class SymbolArrays {
public:
    explicit SymbolArrays(const FileHeader& header) : header_(header) {}

    /// Adds one page, the first one first; a kind of symbol that no page has is left out of the file.
    void add_page(std::uint32_t page, const PageSymbols& symbols);

    /// level i16, sign, q_anc, q_res i8 [pages, H, P]; gamma_min, gamma_scale f32 [pages, H]; mu, sigma f32
    /// [pages, H, chunks of the first page]. io.
    [[nodiscard]] Status write(const std::string& path) const;

private:
    /// Scatters rows [n][channels], the first of which is row `first`, into dst [pages][channels][rows_per_page].
    template <class T>
    void scatter(std::uint32_t page, std::uint32_t first, std::size_t rows_per_page, const std::vector<T>& rows,
                 std::vector<T>& dst) const;
    FileHeader header_;
    std::size_t chunks_per_page_ = 0;  ///< no page has more than the first
    PageSymbols all_;
};

}  // namespace lynx::codec
