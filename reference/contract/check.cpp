#include "reference/contract/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace plumbline::contract {

void check_failed(const char* expression, std::string_view message, const char* file, int line) {
  std::fprintf(stderr, "plumbline: internal error: %.*s (%s is false, %s:%d). This is a bug: please report it.\n",
               static_cast<int>(message.size()), message.data(), expression, file, line);
  std::fflush(stderr);
  std::_Exit(70);
}

}  // namespace plumbline::contract
