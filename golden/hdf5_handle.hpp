#pragma once
#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

namespace plumbline::golden {

/// Owns one HDF5 identifier and closes it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
      close_ = other.close_;
    }
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { reset(); }

  bool valid() const { return id_ >= 0; }
  hid_t id() const { return id_; }
  /// Closes now; false if the library reports an error.
  bool reset() {
    if (!valid()) return true;
    return close_(std::exchange(id_, H5I_INVALID_HID)) >= 0;
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// The right to call the HDF5 library. It is held for the whole of a read or write, and across fork(), so that a
/// child process never inherits the library in the middle of another thread's call. While it is held the library
/// prints nothing: its error stack is read with `hdf5_reason` instead.
class LibraryLock {
 public:
  LibraryLock();
  ~LibraryLock();
  LibraryLock(const LibraryLock&) = delete;
  LibraryLock& operator=(const LibraryLock&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  H5E_auto2_t printer_ = nullptr;
  void* printer_data_ = nullptr;
};

/// The mutex behind LibraryLock.
std::mutex& library_mutex();

/// The innermost entry of the current HDF5 error stack as one printable line; empty if there is none.
std::string hdf5_reason();

}  // namespace plumbline::golden
