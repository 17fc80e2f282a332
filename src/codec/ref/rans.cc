#include "codec/ref/rans.h"

#include <algorithm>

#include "base/check.h"

namespace lynx::codec {

RansTable RansTable::from_weights(std::span<const std::uint64_t> weights) {
    LYNX_CHECK(!weights.empty() && weights.size() <= kRansSymbolsMax);
    RansTable table;
    table.symbols = static_cast<std::uint32_t>(weights.size());
    std::uint64_t total = 0;
    for (const std::uint64_t w : weights) {
        total += w;
    }
    const std::uint32_t spare = kRansTotal - table.symbols;  // every symbol has 1 already
    std::uint32_t used = table.symbols;
    std::size_t largest = 0;
    for (std::size_t s = 0; s < weights.size(); ++s) {
        const auto share = static_cast<std::uint32_t>(total == 0 ? 0 : weights[s] * spare / total);
        table.frequency[s] = static_cast<std::uint16_t>(1 + share);
        used += share;
        largest = weights[s] > weights[largest] ? s : largest;
    }
    table.frequency[largest] = static_cast<std::uint16_t>(table.frequency[largest] + kRansTotal - used);
    std::uint32_t first = 0;
    for (std::size_t s = 0; s < weights.size(); ++s) {
        table.first[s] = static_cast<std::uint16_t>(first);
        std::fill_n(table.symbol_of.begin() + first, table.frequency[s], static_cast<std::uint8_t>(s));
        first += table.frequency[s];
    }
    return table;
}

std::size_t RansEncoder::finish(std::span<std::byte> out) const {
    LYNX_CHECK(out.size() >= bytes_max());
    std::array<std::uint32_t, kRansLanes> states{};
    states.fill(kRansLow);
    std::vector<std::uint16_t> words;
    words.reserve(operations_.size());
    for (auto op = operations_.rbegin(); op != operations_.rend(); ++op) {
        std::uint32_t& x = states[op->lane];
        const std::uint32_t frequency = op->frequency_minus_1 + 1U;
        if (x >= std::uint64_t{frequency} << (32 - kRansBits)) {
            words.push_back(static_cast<std::uint16_t>(x));
            x >>= 16U;
        }
        x = ((x / frequency) << kRansBits) + x % frequency + op->first;
    }
    std::memcpy(out.data(), states.data(), kRansStateBytes);
    std::reverse(words.begin(), words.end());
    std::memcpy(out.data() + kRansStateBytes, words.data(), words.size() * 2);
    return kRansStateBytes + words.size() * 2;
}

}  // namespace lynx::codec
