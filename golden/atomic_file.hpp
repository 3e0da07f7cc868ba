#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "reference/contract/result.hpp"

namespace plumbline::golden {

/// Writes a whole file or nothing. The bytes go to a temporary file beside `path`, reach the disk (fsync), and take
/// their final name by rename; an existing file keeps its permissions, a write-protected one is refused. On any error,
/// and when SIGINT, SIGTERM, SIGHUP, SIGQUIT or a resource limit's signal ends the process, the temporary is removed
/// and whatever was under `path` before is still there. (A signal that the program handles itself does not end the
/// process and is left to it.) A symbolic link is followed. A device or pipe is written through, as nothing can be
/// renamed onto it.
///
/// Errors are kFile with `path` as `where`. Calls from several threads take turns.
contract::Status write_file(const std::string& path, std::span<const std::byte> bytes);
contract::Status write_file(const std::string& path, std::string_view text);

}  // namespace plumbline::golden
