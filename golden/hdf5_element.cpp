#include "golden/hdf5_element.hpp"

#include <array>

namespace plumbline::golden {
namespace {

/// HDF5 1.10 has no name for IEEE half. Never closed here: the library does that when it ends.
hid_t half_type(hid_t single) {
  const hid_t type = H5Tcopy(single);
  const bool made = type >= 0 && H5Tset_fields(type, 15, 10, 5, 0, 10) >= 0 && H5Tset_size(type, 2) >= 0 &&
                    H5Tset_ebias(type, 15) >= 0;
  return made ? type : H5I_INVALID_HID;
}

using Types = std::array<ElementType, 11>;

Types make_types() {
  const hid_t half_little = half_type(H5T_IEEE_F32LE), half_big = half_type(H5T_IEEE_F32BE);
  const hid_t half_native = H5Tget_order(H5T_NATIVE_FLOAT) == H5T_ORDER_BE ? half_big : half_little;
  return {{
      {"float64", H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, 8},
      {"float32", H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, 4},
      {"float16", half_little, half_big, half_native, 2},
      {"int64", H5T_STD_I64LE, H5T_STD_I64BE, H5T_NATIVE_INT64, 8},
      {"int32", H5T_STD_I32LE, H5T_STD_I32BE, H5T_NATIVE_INT32, 4},
      {"int16", H5T_STD_I16LE, H5T_STD_I16BE, H5T_NATIVE_INT16, 2},
      {"int8", H5T_STD_I8LE, H5T_STD_I8BE, H5T_NATIVE_INT8, 1},
      {"uint64", H5T_STD_U64LE, H5T_STD_U64BE, H5T_NATIVE_UINT64, 8},
      {"uint32", H5T_STD_U32LE, H5T_STD_U32BE, H5T_NATIVE_UINT32, 4},
      {"uint16", H5T_STD_U16LE, H5T_STD_U16BE, H5T_NATIVE_UINT16, 2},
      {"uint8", H5T_STD_U8LE, H5T_STD_U8BE, H5T_NATIVE_UINT8, 1},
  }};
}

const Types& types() {
  static const Types all = make_types();
  return all;
}

}  // namespace

const ElementType& element_type(Element element) { return types()[static_cast<std::size_t>(element)]; }

std::optional<Element> find_element(hid_t type) {
  for (std::size_t i = 0; i < types().size(); ++i)
    if (H5Tequal(type, types()[i].little_endian) > 0 || H5Tequal(type, types()[i].big_endian) > 0)
      return static_cast<Element>(i);
  return std::nullopt;
}

}  // namespace plumbline::golden
