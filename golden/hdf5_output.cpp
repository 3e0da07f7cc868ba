#include "golden/hdf5_output.hpp"

#include <algorithm>
#include <cstdint>

namespace plumbline::golden {
namespace {

using contract::Index;
using contract::Result;
using contract::Shape;

// Below this a dataset is stored plainly: compression would save less than the chunk index costs.
constexpr Index kPlainBytes = 2048;
constexpr Index kChunkBytes = Index{1} << 20;
constexpr unsigned kDeflateLevel = 6;
constexpr std::size_t kMemoryStepBytes = std::size_t{16} << 20;
// Links and attributes stay in the object header, in order of creation, up to this many.
constexpr unsigned kCompactMembers = 128;
// Chunk index nodes are small, as most datasets have one chunk or few.
constexpr unsigned kChunkIndexRank = 4;

/// Halves the outermost axes until a chunk has at most kChunkBytes.
std::vector<hsize_t> chunk_of(const Shape& shape, Index element_bytes) {
  std::vector<hsize_t> chunk(shape.begin(), shape.end());
  hsize_t bytes = static_cast<hsize_t>(element_bytes * contract::element_count(shape));
  for (hsize_t& extent : chunk) {
    while (extent > 1 && bytes > static_cast<hsize_t>(kChunkBytes)) {
      bytes /= extent;
      extent = (extent + 1) / 2;
      bytes *= extent;
    }
  }
  return chunk;
}

/// Properties that files and groups share.
bool fix_object_properties(hid_t creation) {
  return H5Pset_obj_track_times(creation, false) >= 0 &&
         H5Pset_attr_phase_change(creation, kCompactMembers, kCompactMembers / 2) >= 0 &&
         H5Pset_link_phase_change(creation, kCompactMembers, kCompactMembers / 2) >= 0 &&
         H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0;
}

Handle bool_type() {
  Handle type(H5Tenum_create(H5T_STD_I8LE), H5Tclose);
  const std::int8_t no = 0, yes = 1;
  if (!type.valid() || H5Tenum_insert(type.id(), "FALSE", &no) < 0 || H5Tenum_insert(type.id(), "TRUE", &yes) < 0)
    return {};
  return type;
}

}  // namespace

OutputFile::OutputFile(std::function<bool()> cancelled)
    : cancelled_(std::move(cancelled)),
      access_(H5Pcreate(H5P_FILE_ACCESS), H5Pclose),
      group_creation_(H5Pcreate(H5P_GROUP_CREATE), H5Pclose) {
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  // The earliest file header has no "open for writing" flag, which the library would leave set in an image; the newest
  // ones also hold a time. Groups and objects are those of HDF5 1.8, as tracking the order of creation needs them.
  check(access_.valid() && group_creation_.valid() && creation.valid() && fix_object_properties(group_creation_.id()) &&
        fix_object_properties(creation.id()) &&
        H5Pset_libver_bounds(access_.id(), H5F_LIBVER_EARLIEST, H5F_LIBVER_V18) >= 0 &&
        H5Pset_istore_k(creation.id(), kChunkIndexRank) >= 0 &&
        H5Pset_fapl_core(access_.id(), kMemoryStepBytes, false) >= 0);
  if (ok_) file_ = Handle(H5Fcreate("golden in memory", H5F_ACC_TRUNC, creation.id(), access_.id()), H5Fclose);
  check(file_.valid());
}

void OutputFile::check(bool ok) {
  if (ok_ && !ok) reason_ = hdf5_reason();
  ok_ = ok_ && ok;
}

Handle OutputFile::create_group(hid_t parent, std::string_view name) {
  if (!ok_) return {};
  Handle group(H5Gcreate2(parent, std::string(name).c_str(), H5P_DEFAULT, group_creation_.id(), H5P_DEFAULT), H5Gclose);
  check(group.valid());
  return group;
}

void OutputFile::attribute(hid_t object, std::string_view name, hid_t type, hid_t memory_type, const void* value) {
  if (!ok_) return;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle handle(H5Acreate2(object, std::string(name).c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                      H5Aclose);
  check(handle.valid() && H5Awrite(handle.id(), memory_type, value) >= 0);
}

void OutputFile::write_attribute(hid_t object, std::string_view name, Index value) {
  attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void OutputFile::write_attribute(hid_t object, std::string_view name, double value) {
  attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

void OutputFile::write_attribute(hid_t object, std::string_view name, bool value) {
  const Handle type = bool_type();
  const std::int8_t byte = value ? 1 : 0;
  attribute(object, name, type.id(), type.id(), &byte);
}

void OutputFile::write_attribute(hid_t object, std::string_view name, std::string_view text) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  check(type.valid() && H5Tset_size(type.id(), H5T_VARIABLE) >= 0 && H5Tset_cset(type.id(), H5T_CSET_UTF8) >= 0);
  const std::string terminated(text);
  const char* bytes = terminated.c_str();
  attribute(object, name, type.id(), type.id(), &bytes);
}

Handle OutputFile::write_dataset(hid_t parent, std::string_view name, Element element, const Shape& shape,
                                 const void* values) {
  stopped_ = stopped_ || (cancelled_ && cancelled_());
  ok_ = ok_ && !stopped_;
  if (!ok_) return {};
  const ElementType& type = element_type(element);
  const auto element_bytes = static_cast<Index>(type.bytes);
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  const Index count = contract::element_count(shape);
  const Handle space(shape.empty() ? H5Screate(H5S_SCALAR)
                                   : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                     H5Sclose);
  const Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  check(space.valid() && creation.valid() && H5Pset_obj_track_times(creation.id(), false) >= 0);
  if (ok_ && count * element_bytes > kPlainBytes) {
    const std::vector<hsize_t> chunk = chunk_of(shape, element_bytes);
    check(H5Pset_chunk(creation.id(), static_cast<int>(chunk.size()), chunk.data()) >= 0 &&
          H5Pset_shuffle(creation.id()) >= 0 && H5Pset_deflate(creation.id(), kDeflateLevel) >= 0);
  }
  if (!ok_) return {};
  Handle dataset(H5Dcreate2(parent, std::string(name).c_str(), type.little_endian, space.id(), H5P_DEFAULT,
                            creation.id(), H5P_DEFAULT),
                 H5Dclose);
  check(dataset.valid() &&
        (count == 0 || H5Dwrite(dataset.id(), type.native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0));
  return dataset;
}

Result<std::vector<std::byte>> OutputFile::finish() {
  check(ok_ && H5Fflush(file_.id(), H5F_SCOPE_GLOBAL) >= 0);
  const ssize_t size = ok_ ? H5Fget_file_image(file_.id(), nullptr, 0) : -1;
  std::vector<std::byte> image(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  check(size > 0 && H5Fget_file_image(file_.id(), image.data(), image.size()) == size);
  if (stopped_) return contract::Error{contract::ErrorCode::kInterrupted, "interrupted; nothing was written", ""};
  if (!ok_)
    return contract::file_error("", "cannot be put together in memory (HDF5: " + reason_ + "); nothing was written");
  file_.reset();
  return image;
}

}  // namespace plumbline::golden
