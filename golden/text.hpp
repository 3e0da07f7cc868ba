#pragma once
#include <string>
#include <string_view>

namespace plumbline::golden {

/// Text from outside made fit for one line of a message: control characters and bytes that are not UTF-8 appear as
/// \xNN, and at most `limit` bytes are kept.
std::string printable(std::string_view text, std::size_t limit = 160);

/// Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms, nothing above U+10FFFF).
bool is_utf8(std::string_view text);

}  // namespace plumbline::golden
