#include "codec/io/symbol_arrays.h"

#include <array>

#include "codec/io/npz.h"

namespace lynx::codec {

template <class T>
void SymbolArrays::scatter(std::uint32_t page, std::uint32_t first, std::size_t rows_per_page,
                           const std::vector<T>& rows, std::vector<T>& dst) const {
    if (rows.empty()) {
        return;
    }
    const std::size_t channels = header_.channels;
    dst.resize(std::size_t{header_.paging().pages()} * channels * rows_per_page);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        dst[(page * channels + i % channels) * rows_per_page + first + i / channels] = rows[i];
    }
}

void SymbolArrays::add_page(std::uint32_t page, const PageSymbols& s) {
    const std::size_t tokens = header_.params.page_tokens;
    chunks_per_page_ = page == 0 ? s.mu.size() / header_.channels : chunks_per_page_;
    scatter(page, s.core_first, tokens, s.level, all_.level);
    scatter(page, s.core_first, tokens, s.sign, all_.sign);
    scatter(page, s.core_first, tokens, s.q_anc, all_.q_anc);
    scatter(page, s.core_first, tokens, s.q_res, all_.q_res);
    scatter(page, 0, 1, s.gamma_min, all_.gamma_min);
    scatter(page, 0, 1, s.gamma_scale, all_.gamma_scale);
    scatter(page, 0, chunks_per_page_, s.mu, all_.mu);
    scatter(page, 0, chunks_per_page_, s.sigma, all_.sigma);
}

Status SymbolArrays::write(const std::string& path) const {
    NpzWriter npz;
    const std::size_t pages = header_.paging().pages();
    const std::array<std::size_t, 3> by_token{pages, header_.channels, header_.params.page_tokens};
    const std::array<std::size_t, 3> by_chunk{pages, header_.channels, chunks_per_page_};
    const std::array<std::size_t, 2> by_channel{pages, header_.channels};
    const auto add = [&npz]<class T>(std::string_view name, std::string_view descr, std::span<const std::size_t> shape,
                                     const std::vector<T>& data) {
        if (!data.empty()) {
            npz.add(name, descr, shape, std::span<const T>(data));
        }
    };
    add("level", "<i2", by_token, all_.level);
    add("sign", "|i1", by_token, all_.sign);
    add("q_anc", "|i1", by_token, all_.q_anc);
    add("q_res", "|i1", by_token, all_.q_res);
    add("gamma_min", "<f4", by_channel, all_.gamma_min);
    add("gamma_scale", "<f4", by_channel, all_.gamma_scale);
    add("mu", "<f4", by_chunk, all_.mu);
    add("sigma", "<f4", by_chunk, all_.sigma);
    return npz.write(path);
}

}  // namespace lynx::codec
