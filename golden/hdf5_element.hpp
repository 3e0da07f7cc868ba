#pragma once
#include <hdf5.h>

#include <cstdint>
#include <optional>
#include <string_view>

// The number types that datasets of golden and candidate files are stored in.
namespace plumbline::golden {

enum class Element : unsigned char {
  kFloat64,
  kFloat32,
  kFloat16,  ///< IEEE half; in memory a bit pattern (see float_bits.hpp)
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint64,
  kUint32,
  kUint16,
  kUint8,
};

/// What the HDF5 library calls one of them. Files hold either byte order, as it is the same number.
struct ElementType {
  std::string_view name;  ///< as NumPy calls it
  hid_t little_endian, big_endian, native;
  std::uint64_t bytes;
};

/// Callers hold a LibraryLock.
const ElementType& element_type(Element element);

/// The element that a type of a file is, if it is one exactly: no padding bits, no layout of its own.
std::optional<Element> find_element(hid_t type);

}  // namespace plumbline::golden
