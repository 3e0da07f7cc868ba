#include "golden/layout_output.hpp"

#include <new>

#include "golden/atomic_file.hpp"
#include "golden/golden_file.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::DatasetId;
using contract::DatasetSet;
using contract::Status;

/// Writes the results whose path starts with `folder`.
void write_folder(OutputFile& file, hid_t parent, std::string_view name, const std::string& folder,
                  const DatasetSet& available, const ResultWriter& write) {
  Handle group;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    const std::string path = id.path();
    if (!available.test(i) || !path.starts_with(folder)) continue;
    if (!group.valid()) group = file.create_group(parent, name);
    write(group.id(), path.substr(path.rfind('/') + 1), id);
  }
}

bool any_gradient(const DatasetSet& available) {
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (available.test(i) && DatasetId::from_index(i).is_gradient()) return true;
  return false;
}

}  // namespace

Status check_text(std::string_view name, const std::string& text) {
  if (is_utf8(text) && text.find('\0') == std::string::npos) return {};
  return contract::usage_error(std::string(name), "is not valid UTF-8 text: '" + printable(text) + "'");
}

void write_results(OutputFile& file, hid_t parent, const DatasetSet& available, const ResultWriter& write) {
  write_folder(file, parent, "forward", "forward/", available, write);
  if (!any_gradient(available)) return;
  const Handle grad = file.create_group(parent, "grad");
  write_folder(file, grad.id(), "inputs", "grad/inputs/", available, write);
  write_folder(file, grad.id(), "weights", "grad/weights/", available, write);
  write_folder(file, grad.id(), "forward", "grad/forward/", available, write);
}

Status write_output(const std::string& path, const std::function<bool()>& cancelled,
                    const std::function<void(OutputFile&)>& fill) {
  const LibraryLock lock;
  try {
    OutputFile file(cancelled);
    if (file.valid()) fill(file);
    const auto bytes = file.finish();
    if (!bytes) return in_file(path, bytes.error());
    return write_file(path, *bytes);
  } catch (const std::bad_alloc&) {
    return contract::Error{contract::ErrorCode::kMemory,
                           "there is not enough memory to put the file together; nothing was written", path};
  }
}

}  // namespace plumbline::golden
