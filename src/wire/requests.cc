#include "wire/requests.h"

#include <string>

#include "base/try.h"

namespace lynx::wire {
namespace {

constexpr std::uint64_t kKinds = 2;  // K and V; latent caches have no geometry yet

std::string name_of(std::uint64_t request, std::uint32_t generation) {
    return "request " + std::to_string(request) + " generation " + std::to_string(generation);
}

std::string name_of(const kv::PageKey& k) {
    return "page " + std::to_string(k.page) + " of " + name_of(k.request, k.generation) + ", layer " +
           std::to_string(k.layer) + ", kind " + std::to_string(static_cast<int>(k.kind)) + ", tier " +
           std::to_string(k.tier);
}

}  // namespace

std::uint64_t RequestTable::page_keys(const RequestRecord& r) const noexcept {
    return std::uint64_t{r.paging.pages()} * geometry_->layers.size() * kKinds * r.tiers;
}

Status RequestTable::add(const Request& request, std::uint32_t requests_max) {
    if (records_.size() >= requests_max) {
        return {ErrorCode::limit_exceeded, name_of(request.request, request.generation) + ": " +
                                               std::to_string(records_.size()) +
                                               " requests are live or ending, at most " + std::to_string(requests_max)};
    }
    const auto first = records_.lower_bound({request.request, 0});
    for (auto it = first; it != records_.end() && it->first.first == request.request; ++it) {
        if (it->second.live || it->second.generation >= request.generation) {
            return {ErrorCode::invalid_argument, name_of(request.request, request.generation) + ": generation " +
                                                     std::to_string(it->second.generation) +
                                                     (it->second.live ? " is live" : " came before and is ending")};
        }
    }
    RequestRecord record;
    record.request = request.request;
    record.generation = request.generation;
    record.paging = {.tokens = static_cast<std::uint32_t>(request.prompt.size()), .page_tokens = request.page_tokens};
    record.tiers = request.tiers;
    const std::uint64_t keys = page_keys(record);
    if (keys > kPageKeysMax) {
        return {ErrorCode::limit_exceeded, name_of(request.request, request.generation) + ": " + std::to_string(keys) +
                                               " pages, at most " + std::to_string(kPageKeysMax)};
    }
    if (receives_pages_) {
        record.seen.resize(static_cast<std::size_t>(keys));
    }
    record.arrival = ++arrivals_;
    records_.emplace(std::pair{request.request, request.generation}, std::move(record));
    return {};
}

RequestRecord* RequestTable::find(std::uint64_t request, std::uint32_t generation) noexcept {
    const auto it = records_.find({request, generation});
    return it == records_.end() ? nullptr : &it->second;
}

void RequestTable::erase(const RequestRecord& record) {
    const std::pair key{record.request, record.generation};
    records_.erase(key);
}

Status RequestTable::check_key(const RequestRecord& r, const kv::PageKey& key) const {
    const auto refuse = [&](std::string_view field, std::uint64_t actual, const std::string& expected) {
        return Status{ErrorCode::invalid_argument, name_of(key) + ": " + std::string(field) + ": expected " + expected +
                                                       ", actual " + std::to_string(actual)};
    };
    if (key.layer >= geometry_->layers.size()) {
        return refuse("layer", key.layer, "below " + std::to_string(geometry_->layers.size()));
    }
    if (static_cast<std::uint64_t>(key.kind) >= kKinds) {
        return refuse("kind", static_cast<std::uint64_t>(key.kind), "below " + std::to_string(kKinds));
    }
    if (key.tier >= r.tiers) {
        return refuse("tier", key.tier, "below " + std::to_string(r.tiers));
    }
    if (key.page >= r.paging.pages()) {
        return refuse("page", key.page, "below " + std::to_string(r.paging.pages()));
    }
    if (key.first_token != r.paging.first_token(key.page)) {
        return refuse("first token", key.first_token, std::to_string(r.paging.first_token(key.page)));
    }
    return {};
}

Result<Admission> RequestTable::admit(const kv::PageKey& key) {
    RequestRecord* r = find(key.request, key.generation);
    if (r == nullptr) {
        return Status{ErrorCode::corrupt, name_of(key) + ": no such request and generation"};
    }
    if (const Status fits = check_key(*r, key); !fits.ok()) {
        return Status{ErrorCode::corrupt, fits.message()};
    }
    const std::size_t layers = geometry_->layers.size();
    const std::size_t index =
        ((std::size_t{key.tier} * layers + key.layer) * kKinds + static_cast<std::size_t>(key.kind)) *
            r->paging.pages() +
        key.page;
    if (r->seen[index]) {
        return Status{ErrorCode::corrupt, name_of(key) + ": came before"};
    }
    r->seen[index] = true;
    return r->live ? Admission::accept : Admission::drop_late;
}

}  // namespace lynx::wire
