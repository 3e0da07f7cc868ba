#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "golden/hdf5_element.hpp"
#include "golden/hdf5_handle.hpp"
#include "reference/contract/result.hpp"
#include "reference/contract/tensor.hpp"

// Writing of single HDF5 objects into a file that is put together in memory. The bytes are a function of what is
// written and in which order: no times, no uninitialised space, one fixed version of every structure (that of
// HDF5 1.8, which every reader knows). Callers hold a LibraryLock.
namespace plumbline::golden {

/// A file in memory.
class OutputFile {
 public:
  /// An empty file; invalid if the library refuses. `cancelled`, which may be empty, is asked before each dataset.
  explicit OutputFile(std::function<bool()> cancelled = {});

  bool valid() const { return file_.valid() && ok_; }
  hid_t root() const { return file_.id(); }

  /// After any failed call the file is invalid and further calls do nothing.
  Handle create_group(hid_t parent, std::string_view name);
  void write_attribute(hid_t object, std::string_view name, contract::Index value);
  void write_attribute(hid_t object, std::string_view name, double value);
  void write_attribute(hid_t object, std::string_view name, bool value);
  void write_attribute(hid_t object, std::string_view name, std::string_view text);
  /// Returns the dataset, still open, for attributes of its own.
  Handle write_dataset(hid_t parent, std::string_view name, Element element, const contract::Shape& shape,
                       const void* values);

  /// The bytes of the whole file. Nothing can be written afterwards. Errors: kInterrupted when cancelled, else kFile.
  contract::Result<std::vector<std::byte>> finish();

 private:
  void attribute(hid_t object, std::string_view name, hid_t type, hid_t memory_type, const void* value);
  void check(bool ok);

  std::function<bool()> cancelled_;
  bool stopped_ = false;
  Handle access_, group_creation_, file_;
  bool ok_ = true;
  std::string reason_;  ///< of the first failure
};

}  // namespace plumbline::golden
