#include "golden/hdf5_handle.hpp"

#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

herr_t take_first(unsigned, const H5E_error2_t* entry, void* text) {
  auto& reason = *static_cast<std::string*>(text);
  if (reason.empty() && entry->desc != nullptr) reason = entry->desc;
  return 0;
}

}  // namespace

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

LibraryLock::LibraryLock() : lock_(library_mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &printer_, &printer_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryLock::~LibraryLock() { H5Eset_auto2(H5E_DEFAULT, printer_, printer_data_); }

std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &reason);
  return printable(reason);
}

}  // namespace plumbline::golden
