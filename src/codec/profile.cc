#include "codec/profile.h"

#ifndef LYNX_ONLY_CODEC
#include <libdeflate.h>
#endif

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/try.h"

namespace lynx::codec {
namespace {

constexpr std::size_t kFixedBytes = 48;
constexpr int kCompressionLevel = 9;
constexpr std::int32_t kRowSumMax = 65535;  // sum over j of |basis[c][j]|: keeps the decoder's sums within 32 bits

std::uint64_t fnv1a(base::ByteView bytes) noexcept {
    std::uint64_t hash = 0xCBF29CE484222325U;
    for (const std::byte b : bytes) {
        hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001B3U;
    }
    return hash == 0 ? 1 : hash;
}

template <class T>
void put_all(base::Writer& w, const std::vector<T>& values) {
    w.put_bytes(std::as_bytes(std::span(values)));
}

/// Precondition: the caller has bounded `count`.
template <class T>
std::vector<T> get_all(base::Reader& r, std::size_t count) {
    const base::ByteView bytes = r.take(count * sizeof(T));
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) {
        std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    return values;
}

std::string hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t b : bytes) {
        text += kDigits[b >> 4U];
        text += kDigits[b & 15U];
    }
    return text;
}

Status corrupt(const std::string& what) { return {ErrorCode::corrupt, "profile: " + what}; }

void write_layer(base::Writer& w, const kv::LayerGeometry& g) {
    w.put(g.kv_heads);
    w.put(g.key_dim);
    w.put(g.value_dim);
    w.put(g.window);
    w.put(g.rope.dims);
    w.put(g.rope.base);
    w.put(g.rope.scale);
    w.put(static_cast<std::uint8_t>(g.rope.interleaved ? 1 : 0));
    w.put(g.dtype);
}

kv::LayerGeometry read_layer(base::Reader& r) {
    kv::LayerGeometry g;
    g.kv_heads = r.get<std::uint32_t>();
    g.key_dim = r.get<std::uint32_t>();
    g.value_dim = r.get<std::uint32_t>();
    g.window = r.get<std::uint32_t>();
    g.rope.dims = r.get<std::uint32_t>();
    g.rope.base = r.get<float>();
    g.rope.scale = r.get<float>();
    g.rope.interleaved = r.get<std::uint8_t>() != 0;
    g.dtype = r.get<kv::DType>();
    return g;
}

Result<ProfileMatrix> read_matrix(base::Reader& r, std::uint32_t channels) {
    ProfileMatrix m;
    m.channels = channels;
    m.block = r.get<std::uint32_t>();
    m.mean_exponent = r.get<std::int8_t>();
    m.scale_exponent = r.get<std::int8_t>();
    m.unit = r.get<float>();
    if (r.failed() || m.block == 0 || m.block > kProfileBlockMax || channels % m.block != 0) {
        return corrupt("block of " + std::to_string(m.block) + " channels in " + std::to_string(channels));
    }
    if (m.mean_exponent < -120 || m.scale_exponent < -50 || m.scale_exponent > -13 ||
        !(m.unit > 0 && m.unit < 0x1p100F)) {
        return corrupt("an exponent or the unit is out of range");
    }
    m.mean = get_all<std::int32_t>(r, channels);
    m.row_scale = get_all<std::uint16_t>(r, channels);
    m.sigma_class = get_all<std::uint8_t>(r, channels);
    m.basis = get_all<std::int8_t>(r, std::size_t{channels} * m.block);
    LYNX_TRY(r.status("profile"));
    for (std::uint32_t c = 0; c < channels; ++c) {
        std::int32_t sum = 0;
        for (std::uint32_t j = 0; j < m.block; ++j) {
            sum += std::abs(std::int32_t{m.basis[std::size_t{c} * m.block + j]});
        }
        if (std::abs(std::int64_t{m.mean[c]}) > kProfileMeanMax || m.row_scale[c] == 0 || sum > kRowSumMax) {
            return corrupt("channel " + std::to_string(c) + ": mean, scale or basis out of range");
        }
    }
    return m;
}

#ifdef LYNX_ONLY_CODEC

// The codec alone is built where libdeflate is not: there no profile is read or written.
base::Bytes compress(const base::Bytes& /*body*/) { return {}; }
bool decompress(base::ByteView /*packed*/, base::Bytes& /*body*/) { return false; }

#else

base::Bytes compress(const base::Bytes& body) {
    libdeflate_compressor* compressor = libdeflate_alloc_compressor(kCompressionLevel);
    LYNX_CHECK(compressor != nullptr);
    base::Bytes packed(libdeflate_zlib_compress_bound(compressor, body.size()));
    packed.resize(libdeflate_zlib_compress(compressor, body.data(), body.size(), packed.data(), packed.size()));
    libdeflate_free_compressor(compressor);
    return packed;
}

/// False when the bytes are not exactly `body`, compressed.
bool decompress(base::ByteView packed, base::Bytes& body) {
    libdeflate_decompressor* decompressor = libdeflate_alloc_decompressor();
    LYNX_CHECK(decompressor != nullptr);
    const libdeflate_result result =
        libdeflate_zlib_decompress(decompressor, packed.data(), packed.size(), body.data(), body.size(), nullptr);
    libdeflate_free_decompressor(decompressor);
    return result == LIBDEFLATE_SUCCESS;
}

#endif

}  // namespace

const ProfileMatrix* Profile::find(std::uint32_t layer, kv::Kind kind, std::uint32_t channels) const noexcept {
    if (layer >= layers.size() || kind > kv::Kind::value) {
        return nullptr;
    }
    const ProfileMatrix& m = matrices[2 * layer + (kind == kv::Kind::key ? 0 : 1)];
    return m.channels == channels ? &m : nullptr;
}

base::Bytes serialise_profile(const Profile& profile) {
    base::Bytes body;
    base::Writer b(body);
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        write_layer(b, profile.layers[l]);
        for (const ProfileMatrix& m : {profile.matrices[2 * l], profile.matrices[2 * l + 1]}) {
            b.put(m.block);
            b.put(m.mean_exponent);
            b.put(m.scale_exponent);
            b.put(m.unit);
            put_all(b, m.mean);
            put_all(b, m.row_scale);
            put_all(b, m.sigma_class);
            put_all(b, m.basis);
        }
    }
    const base::Bytes packed = compress(body);

    base::Bytes out;
    base::Writer w(out);
    w.put(kProfileMagic);
    w.put(kProfileVersion);
    w.put(static_cast<std::uint16_t>(profile.layers.size()));
    w.put_bytes(std::as_bytes(std::span(profile.model)));
    w.put(profile.calibration_tokens);
    w.put(static_cast<std::uint32_t>(body.size()));
    w.put(static_cast<std::uint32_t>(packed.size()));
    w.put(base::crc32(body));
    w.put(std::uint32_t{0});
    w.put(base::crc32(out));
    w.put_bytes(packed);
    return out;
}

Result<Profile> parse_profile(base::ByteView bytes) {
    base::Reader r(bytes);
    const auto magic = r.get<std::uint32_t>();
    const auto version = r.get<std::uint16_t>();
    const auto layers = r.get<std::uint16_t>();
    Profile profile;
    for (std::uint8_t& byte : profile.model) {
        byte = r.get<std::uint8_t>();
    }
    profile.calibration_tokens = r.get<std::uint32_t>();
    const auto body_bytes = r.get<std::uint32_t>();
    const auto packed_bytes = r.get<std::uint32_t>();
    const auto body_crc = r.get<std::uint32_t>();
    const auto reserved = r.get<std::uint32_t>();
    const auto crc = r.get<std::uint32_t>();
    LYNX_TRY(r.status("profile header"));
    if (magic != kProfileMagic) {
        return corrupt("magic: not a profile");
    }
    if (version != kProfileVersion) {
        return Status{ErrorCode::unsupported_version, "profile: version: expected " + std::to_string(kProfileVersion) +
                                                          ", actual " + std::to_string(version)};
    }
    if (crc != base::crc32(bytes.first(kFixedBytes - 4)) || reserved != 0 || layers == 0 || layers > kv::kLayersMax) {
        return corrupt("header checksum or field");
    }
    if (body_bytes > kProfileBytesMax || packed_bytes > kProfileBytesMax) {
        return Status{ErrorCode::limit_exceeded, "profile: body of " + std::to_string(body_bytes) + " bytes"};
    }
    if (r.remaining() != packed_bytes) {
        return Status{r.remaining() < packed_bytes ? ErrorCode::truncated : ErrorCode::corrupt,
                      "profile: expected " + std::to_string(packed_bytes) + " bytes after the header, actual " +
                          std::to_string(r.remaining())};
    }
    const base::ByteView packed = r.take(packed_bytes);
    base::Bytes body(body_bytes);
    if (!decompress(packed, body) || base::crc32(body) != body_crc) {
        return corrupt("the body is not what its header says");
    }
    base::Reader b(body);
    for (std::uint32_t l = 0; l < layers; ++l) {
        profile.layers.push_back(read_layer(b));
        const kv::LayerGeometry& g = profile.layers.back();
        const std::uint64_t key = std::uint64_t{g.kv_heads} * g.key_dim;
        const std::uint64_t value = std::uint64_t{g.kv_heads} * g.value_dim;
        if (b.failed() || key == 0 || key > kProfileChannelsMax || value == 0 || value > kProfileChannelsMax ||
            g.dtype > kv::DType::f32) {
            return corrupt("layer " + std::to_string(l) + ": its geometry");
        }
        for (const std::uint64_t channels : {key, value}) {
            LYNX_ASSIGN(ProfileMatrix m, read_matrix(b, static_cast<std::uint32_t>(channels)));
            profile.matrices.push_back(std::move(m));
        }
    }
    if (b.remaining() != 0) {
        return corrupt(std::to_string(b.remaining()) + " bytes too many");
    }
    profile.hash = fnv1a(bytes);
    return profile;
}

namespace {

struct Kept {
    std::mutex mutex;
    std::map<std::uint64_t, std::shared_ptr<const Profile>> profiles;
};

Kept& kept() {
    static Kept all;
    return all;
}

}  // namespace

std::shared_ptr<const Profile> keep_profile(Profile profile) {
    const std::uint64_t hash = profile.hash;
    const std::lock_guard lock(kept().mutex);
    auto& entry = kept().profiles[hash];
    if (entry == nullptr) {
        entry = std::make_shared<const Profile>(std::move(profile));
    }
    return entry;
}

std::shared_ptr<const Profile> find_profile(std::uint64_t hash) {
    const std::lock_guard lock(kept().mutex);
    const auto found = kept().profiles.find(hash);
    return found == kept().profiles.end() ? nullptr : found->second;
}

std::string profile_name(std::uint64_t hash) {
    std::array<std::uint8_t, 8> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::uint8_t>(hash >> (56 - 8 * i));
    }
    return hex(bytes);
}

Status check_profile_model(const Profile& profile, const std::array<std::uint8_t, 16>& model,
                           const kv::Geometry& geometry) {
    if (profile.model != model || profile.layers != geometry.layers) {
        return {ErrorCode::invalid_argument, "profile " + profile_name(profile.hash) +
                                                 " was made for another model: expected " + hex(model) + ", actual " +
                                                 hex(profile.model)};
    }
    return {};
}

}  // namespace lynx::codec
