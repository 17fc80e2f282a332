// A calibration profile: what lynxt knows about one model's KV before it sees any of it. Per layer and kind, an integer
// decorrelating transform, the mean, and how large each coefficient usually is (FORMAT, "Profiles").
//
// A profile is data that both ends must hold: payloads and requests name it by its 64-bit hash, and every profile that this process
// has loaded can be found by that hash. Making one: src/calibrate.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "kv/geometry.h"
#include "lynx/status.h"

namespace lynx::codec {

inline constexpr std::uint32_t kProfileMagic = 0x43584E4CU;  // "LNXC" in file order
inline constexpr std::uint16_t kProfileVersion = 1;
inline constexpr std::uint32_t kProfileChannelsMax = 4096;              ///< of one layer's K or V
inline constexpr std::uint32_t kProfileBlockMax = 512;                  ///< channels that one transform mixes
inline constexpr std::size_t kProfileBytesMax = std::size_t{64} << 20;  ///< uncompressed
inline constexpr std::int32_t kProfileMeanMax = (1 << 24) - 1;

/// x[c] = 2^mean_exponent * mean[c] + 2^scale_exponent * row_scale[c] * sum over j of basis[c][j] * y[j], block by block.
struct ProfileMatrix {
    std::uint32_t channels = 0;
    std::uint32_t block = 0;  ///< divides channels; 1..kProfileBlockMax
    std::int8_t mean_exponent = 0;
    std::int8_t scale_exponent = 0;        ///< -50..-13
    float unit = 0;                        ///< that steps are relative to
    std::vector<std::int32_t> mean;        ///< [channels], at most kProfileMeanMax
    std::vector<std::uint16_t> row_scale;  ///< [channels], not 0
    std::vector<std::uint8_t>
        sigma_class;                 ///< [channels] of coefficients: 4 log2 of its sigma, rounded, plus any constant
    std::vector<std::int8_t> basis;  ///< [channels][block]
    bool operator==(const ProfileMatrix&) const = default;
};

struct Profile {
    std::array<std::uint8_t, 16> model{};  ///< fingerprint of the model it was made for
    std::uint32_t calibration_tokens = 0;
    std::vector<kv::LayerGeometry> layers;
    std::vector<ProfileMatrix> matrices;  ///< [2 * layer + (0 key, 1 value)]
    std::uint64_t hash = 0;               ///< of the file's bytes; never 0

    /// Null when the profile has no such page: another layer count, kind or width.
    [[nodiscard]] const ProfileMatrix* find(std::uint32_t layer, kv::Kind kind, std::uint32_t channels) const noexcept;
};

/// The file's bytes; sets nothing in the profile. Precondition: consistent sizes.
[[nodiscard]] base::Bytes serialise_profile(const Profile& profile);
/// truncated, corrupt, unsupported_version, limit_exceeded.
[[nodiscard]] Result<Profile> parse_profile(base::ByteView bytes);

/// Makes a profile known to this process, for good, and returns it; one that is known already stays. Thread-safe, as find_profile.
std::shared_ptr<const Profile> keep_profile(Profile profile);
/// Whether this is a profile of that model: invalid_argument, with both fingerprints, when it was made for another one.
[[nodiscard]] Status check_profile_model(const Profile& profile, const std::array<std::uint8_t, 16>& model,
                                         const kv::Geometry& geometry);
/// Null when no such profile has been kept.
[[nodiscard]] std::shared_ptr<const Profile> find_profile(std::uint64_t hash);

/// 16 hexadecimal digits.
[[nodiscard]] std::string profile_name(std::uint64_t hash);

}  // namespace lynx::codec
