#pragma once
#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "golden/golden_file.hpp"
#include "golden/hdf5_input.hpp"
#include "reference/contract/dataset.hpp"

// What the readers of golden and candidate files share: the groups and names of the layout. Unknown names are
// refused with the nearest known one. Callers hold a LibraryLock; errors (kFile) name the object, not the file.
namespace plumbline::golden {

using Names = std::vector<std::string_view>;

enum class Group : unsigned char { kConfig, kPacking, kInputs, kWeights, kForward, kGrad, kChecksums, kSketch };
inline constexpr std::array<std::string_view, 8> kGroupNames = {"config",  "packing", "inputs",    "weights",
                                                                "forward", "grad",    "checksums", "sketch"};

/// The groups of the root group that a file has; absent ones are invalid.
class Groups {
 public:
  Handle& operator[](Group group) { return handles_[static_cast<std::size_t>(group)]; }
  const Handle& operator[](Group group) const { return handles_[static_cast<std::size_t>(group)]; }
  bool has(Group group) const { return (*this)[group].valid(); }

 private:
  std::array<Handle, kGroupNames.size()> handles_;
};

/// Checks the root attributes: `format` one of `formats`, `format_version`, and no unknown ones. What the file holds,
/// from `format_version` and `contents`.
contract::Result<Contents> read_root_attributes(hid_t root, const Names& formats);

/// Opens the groups of the root, which files of these contents may have; all but config have no attributes.
contract::Result<Groups> open_groups(hid_t root, Contents contents);

/// The fingerprints in `checksums`: all that a layer of this configuration has, and no others.
contract::Result<Fingerprints> read_fingerprints(const Groups& groups, const contract::LayerConfig& config);

/// Checks that config has no members, and attributes of the layout only.
contract::Status check_config_names(hid_t config);

/// The members of packing, inputs or weights, which have only these names.
contract::Result<std::vector<Member>> packing_members(const Groups& groups);
contract::Result<std::vector<Member>> input_members(const Groups& groups);
/// Weights that a layer of this configuration lacks are refused.
contract::Result<std::vector<Member>> weight_members(const Groups& groups, const contract::LayerConfig& config);

/// Calls `visit` for each dataset of forward and grad, with the open group that it is in, until one call fails.
/// Datasets that a layer of this configuration lacks are refused.
using ResultVisitor = std::function<contract::Status(hid_t group, const Member& member, contract::DatasetId id)>;
contract::Status visit_results(const Groups& groups, const contract::LayerConfig& config, const ResultVisitor& visit);
/// The same for the datasets of sketch, whose groups have the names of those that they are sketches of.
contract::Status visit_sketches(const Groups& groups, const contract::LayerConfig& config, const ResultVisitor& visit);

/// The member of that name; null if there is none.
const Member* find(const std::vector<Member>& members, std::string_view name);

/// The memory that values may still take.
class MemoryBudget {
 public:
  explicit MemoryBudget(double memory_bytes) : memory_bytes_(memory_bytes) {}
  /// Takes from it (kMemory if there is not enough left).
  contract::Status charge(double bytes);
  /// Whether as much could be taken.
  contract::Status allows(double bytes) const;

 private:
  double memory_bytes_;
  double charged_bytes_ = 0;
};

}  // namespace plumbline::golden
