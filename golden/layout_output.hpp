#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "golden/hdf5_output.hpp"
#include "reference/contract/dataset.hpp"

// What the writers of golden and candidate files share.
namespace plumbline::golden {

/// Whether a text can be an attribute: UTF-8 without zero bytes (kUsage).
contract::Status check_text(std::string_view name, const std::string& text);

/// Calls `write` for each dataset, in the order of the layout, with its name and the open group that it belongs in.
/// Groups, below `parent`, exist only if there is something in them.
using ResultWriter = std::function<void(hid_t group, std::string_view name, contract::DatasetId id)>;
void write_results(OutputFile& file, hid_t parent, const contract::DatasetSet& available, const ResultWriter& write);

/// Puts a file together with `fill`, in memory, and writes it whole or not at all. Errors name the path.
contract::Status write_output(const std::string& path, const std::function<bool()>& cancelled,
                              const std::function<void(OutputFile&)>& fill);

}  // namespace plumbline::golden
