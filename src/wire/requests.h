// The requests that a session knows, from their first frame to quiescence, and which pages of them are admissible.
//
// A request stays here after Abort or Done until nothing of it can arrive any more (each side has said abort_done on
// every lane on which it sends pages); until then its late pages are recognised and dropped, after that they are
// corruption. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kv/geometry.h"
#include "lynx/status.h"
#include "wire/lane.h"
#include "wire/message.h"

namespace lynx::wire {

/// Pages of one request over all layers, kinds and tiers: bounds the bitmap that tells repeated pages (8 MiB).
inline constexpr std::uint64_t kPageKeysMax = std::uint64_t{1} << 26;

struct RequestRecord {
    std::uint64_t request = 0;
    std::uint32_t generation = 0;
    std::uint64_t arrival = 0;  ///< 1, 2, ... in the order this side learned of them
    kv::Paging paging;
    std::uint8_t tiers = 1;
    bool live = true;                         ///< neither aborted nor done
    bool aborted_here = false;                ///< our abort(): an AbortDone event is due at quiescence
    std::array<bool, kLanes> end_sent{};      ///< our abort_done was queued on that lane
    std::array<bool, kLanes> end_received{};  ///< the peer's arrived
    std::vector<bool> seen;                   ///< decode role: page keys that have arrived
};

enum class Admission : std::uint8_t { accept, drop_late };

class RequestTable {
public:
    /// `geometry` must outlive the table. `receives_pages`: the decode role, which tells repeated pages.
    RequestTable(const kv::Geometry& geometry, bool receives_pages) noexcept
        : geometry_(&geometry), receives_pages_(receives_pages) {}

    /// invalid_argument: this request id is live, or its generation is not above that of a predecessor still known;
    /// limit_exceeded: more pages than kPageKeysMax, or `requests_max` requests are known already.
    [[nodiscard]] Status add(const Request& request, std::uint32_t requests_max);

    /// The record, or nullptr. Valid until it is erased.
    [[nodiscard]] RequestRecord* find(std::uint64_t request, std::uint32_t generation) noexcept;
    void erase(const RequestRecord& record);

    /// Decides on a page before a byte of its payload is stored, and marks it seen. corrupt: unknown request or
    /// generation, a key that is inconsistent with geometry and paging, or a page that came before.
    [[nodiscard]] Result<Admission> admit(const kv::PageKey& key);

    /// ok, or invalid_argument naming the field of `key` that does not fit the record, geometry and paging.
    [[nodiscard]] Status check_key(const RequestRecord& record, const kv::PageKey& key) const;

    [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }

private:
    [[nodiscard]] std::uint64_t page_keys(const RequestRecord& record) const noexcept;

    const kv::Geometry* geometry_;
    bool receives_pages_;
    std::uint64_t arrivals_ = 0;
    std::map<std::pair<std::uint64_t, std::uint32_t>, RequestRecord> records_;
};

}  // namespace lynx::wire
