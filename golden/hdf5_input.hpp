#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "golden/hdf5_element.hpp"
#include "golden/hdf5_handle.hpp"
#include "reference/contract/result.hpp"
#include "reference/contract/tensor.hpp"

// Strict reading of single HDF5 objects. Nothing is trusted: a size that a file declares is compared with what its
// bytes can hold before anything of that size is allocated. Callers hold a LibraryLock. Errors name the object
// ("config/heads"), not the file.
namespace plumbline::golden {

/// An open file and its size in bytes, which bounds what its datasets may claim.
struct InputFile {
  Handle handle;
  std::uint64_t size_bytes = 0;
};

/// Opens for reading; `kind` is what messages call the file that is needed. Errors (kFile): absent, not a regular file,
/// empty, not HDF5, truncated or damaged.
contract::Result<InputFile> open_input(const std::string& path, std::string_view kind = "golden file");

/// A member of a group, and where it is for messages ("weights/wq_a").
struct Member {
  std::string name;
  std::string where;
};

/// "group/name", or "name" in the root group.
std::string member_path(std::string_view group, std::string_view name);

/// The members of an open group, in the order of the library. Soft, external and user-defined links are refused:
/// every object of a golden file is in the file itself.
contract::Result<std::vector<Member>> list_members(hid_t group, std::string_view where);

/// The names of an object's attributes.
contract::Result<std::vector<std::string>> list_attributes(hid_t object, std::string_view where);

contract::Result<Handle> open_group(hid_t parent, const Member& member);

bool has_attribute(hid_t object, std::string_view name);

/// Scalar attributes of exactly one type: int64, float64, the 8-bit FALSE/TRUE enumeration, variable-length UTF-8.
contract::Result<contract::Index> read_int_attribute(hid_t object, std::string_view where, std::string_view name);
contract::Result<double> read_real_attribute(hid_t object, std::string_view where, std::string_view name);
contract::Result<bool> read_bool_attribute(hid_t object, std::string_view where, std::string_view name);
contract::Result<std::string> read_text_attribute(hid_t object, std::string_view where, std::string_view name);

/// What a dataset may be.
struct DatasetRules {
  std::vector<Element> elements;             ///< types it may be stored as
  std::string named;                         ///< these as a message calls them: "float64 or float32"
  std::vector<std::string_view> attributes;  ///< it may have
};

/// One type and no attributes, which is what datasets of goldens are.
DatasetRules exactly(Element element);

/// A dataset whose header was checked and whose values were not read yet.
struct InputDataset {
  Handle handle;
  std::string where;
  Element element = Element::kFloat64;
  contract::Shape shape;
  std::uint64_t bytes = 0;  ///< of its values in memory
};

/// Opens a dataset and checks its type and attributes, that its values are stored in this file with no filters but
/// shuffle, gzip and fletcher32, and that its stored bytes can hold the extents it declares.
contract::Result<InputDataset> open_dataset(const InputFile& file, hid_t parent, const Member& member,
                                            const DatasetRules& rules);

/// Reads all values, as its element in this machine's byte order, into `values`, which has room for `dataset.bytes`.
contract::Status read_values(const InputDataset& dataset, void* values);

}  // namespace plumbline::golden
