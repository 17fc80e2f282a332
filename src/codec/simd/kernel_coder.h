// A reference coder whose encoding and decoding kernels take over; everything else, and what the kernels refuse, stays with the reference.
#pragma once

#include <memory>
#include <utility>

#include "base/check.h"
#include "codec/coder.h"

namespace lynx::codec::simd {

class KernelCoder : public PageCoder {
public:
    explicit KernelCoder(std::unique_ptr<PageCoder> reference) : ref_(std::move(reference)) {}

    [[nodiscard]] CodecId id() const noexcept final { return ref_->id(); }
    [[nodiscard]] std::uint8_t tiers() const noexcept final { return ref_->tiers(); }
    [[nodiscard]] bool keeps_exact_rows() const noexcept final { return ref_->keeps_exact_rows(); }
    [[nodiscard]] std::size_t body_bytes_max(CoreShape shape, std::uint8_t tier) const noexcept final {
        return ref_->body_bytes_max(shape, tier);
    }
    void encode(kv::ConstView core, const PageContext& context, std::span<std::span<std::byte>> bodies) const final {
        LYNX_CHECK(encode_checked(core, context, bodies));
    }
    [[nodiscard]] Status decode(std::span<const base::ByteView> bodies, const PageContext& context,
                                kv::View dst) const final {
        if (!decode_by_kernel(bodies, dst)) {
            return ref_->decode(bodies, context, dst);  // it says what is wrong
        }
        return {};
    }
    [[nodiscard]] Status symbols(std::span<const base::ByteView> bodies, CoreShape shape,
                                 PageSymbols& out) const final {
        return ref_->symbols(bodies, shape, out);
    }

protected:
    /// False when the content is not valid.
    [[nodiscard]] virtual bool decode_by_kernel(std::span<const base::ByteView> bodies, kv::View dst) const = 0;
    [[nodiscard]] const PageCoder& reference() const noexcept { return *ref_; }

private:
    std::unique_ptr<PageCoder> ref_;
};

}  // namespace lynx::codec::simd
