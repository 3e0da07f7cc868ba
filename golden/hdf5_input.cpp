#include "golden/hdf5_input.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

#include "golden/message.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::Error;
using contract::file_error;
using contract::Index;
using contract::Result;
using contract::Shape;
using contract::Status;

// Deflate cannot shrink by more than 1032 (a length-258 match in 2 bits); a file that claims more holds no such data.
constexpr std::uint64_t kLargestDeflateRatio = 1032;
// A chunk is decompressed whole. It may be larger than its dataset (resizable datasets), but not without bound.
constexpr std::uint64_t kChunkAllowanceBytes = std::uint64_t{16} << 20;
// More than any group or object of the layout has.
constexpr std::size_t kMostNames = 256;
constexpr std::size_t kLongestTextBytes = std::size_t{64} << 10;

Error damaged(std::string_view where, std::string_view what) {
  const std::string reason = hdf5_reason();
  return file_error(std::string(where), std::string(what) + (reason.empty() ? "" : " (HDF5: " + reason + ")"));
}

bool multiply(std::uint64_t& product, std::uint64_t factor) {
  return !__builtin_mul_overflow(product, factor, &product);
}

/// A type as a user would call it.
std::string describe_type(hid_t type) {
  const std::string bits = std::to_string(8 * H5Tget_size(type));
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return (H5Tget_sign(type) == H5T_SGN_NONE ? "uint" : "int") + bits;
    case H5T_FLOAT: return "float" + bits;
    case H5T_STRING:
      if (H5Tis_variable_str(type) <= 0) return "a fixed-length string";
      return H5Tget_cset(type) == H5T_CSET_UTF8 ? "a variable-length UTF-8 string" : "a variable-length ASCII string";
    case H5T_ENUM: return "an enumeration of " + bits + " bits";
    case H5T_COMPOUND: return "a compound";
    case H5T_ARRAY: return "an array";
    case H5T_VLEN: return "a variable-length sequence";
    case H5T_OPAQUE: return "opaque bytes";
    case H5T_BITFIELD: return "a bit field";
    case H5T_REFERENCE: return "a reference";
    default: return "an unknown type";
  }
}

/// "float32, need float64"
std::string got_need(hid_t type, std::string_view want) {
  const H5T_class_t kind = H5Tget_class(type);
  // The class and size of an element, but an offset, a precision or an exponent of its own.
  const bool odd = (kind == H5T_INTEGER || kind == H5T_FLOAT) && !find_element(type);
  return describe_type(type) + (odd ? " of a bit layout of its own" : "") + ", need " + std::string(want);
}

/// The enumeration that h5py writes for a boolean: int8 with FALSE = 0 and TRUE = 1.
bool is_bool_type(hid_t type) {
  if (H5Tget_class(type) != H5T_ENUM || H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  const Handle base(H5Tget_super(type), H5Tclose);
  if (!base.valid() || H5Tequal(base.id(), H5T_STD_I8LE) <= 0) return false;
  std::int8_t no = -1, yes = -1;
  return H5Tenum_valueof(type, "FALSE", &no) >= 0 && H5Tenum_valueof(type, "TRUE", &yes) >= 0 && no == 0 && yes == 1;
}

struct Attribute {
  Handle handle, type;
  std::string where;
};

Result<Attribute> open_attribute(hid_t object, std::string_view where, std::string_view name) {
  const std::string path = std::string(where.empty() ? "root" : where) + " attribute '" + std::string(name) + "'";
  if (!has_attribute(object, name)) return file_error(path, "missing");
  Handle attribute(H5Aopen(object, std::string(name).c_str(), H5P_DEFAULT), H5Aclose);
  if (!attribute.valid()) return damaged(path, "cannot be opened");
  Handle type(H5Aget_type(attribute.id()), H5Tclose);
  const Handle space(H5Aget_space(attribute.id()), H5Sclose);
  if (!type.valid() || !space.valid()) return damaged(path, "cannot be read");
  if (H5Sget_simple_extent_type(space.id()) != H5S_SCALAR) return file_error(path, "is not a scalar, need one value");
  return Attribute{std::move(attribute), std::move(type), path};
}

Error wrong_type(const Attribute& attribute, std::string_view want) {
  return file_error(attribute.where, "has type " + got_need(attribute.type.id(), want));
}

template <typename Value>
Result<Value> read_number_attribute(hid_t object, std::string_view where, std::string_view name, Element element) {
  auto attribute = open_attribute(object, where, name);
  if (!attribute) return attribute.error();
  const ElementType& want = element_type(element);
  if (find_element(attribute->type.id()) != element) return wrong_type(*attribute, want.name);
  Value value{};
  if (H5Aread(attribute->handle.id(), want.native, &value) < 0) return damaged(attribute->where, "cannot be read");
  return value;
}

struct Names {
  std::vector<std::string> all;
  std::string refused;  ///< first link that leads out of the group
  bool too_many = false;

  // Called by the C library, which no exception may cross.
  bool add(const char* name) noexcept {
    too_many = all.size() >= kMostNames;
    if (!too_many) all.emplace_back(name);
    return !too_many;
  }
};

herr_t collect_link(hid_t, const char* name, const H5L_info_t* info, void* data) {
  auto& names = *static_cast<Names*>(data);
  if (info->type != H5L_TYPE_HARD) {
    names.refused = name;
    return 1;
  }
  return names.add(name) ? 0 : 1;
}

herr_t collect_attribute(hid_t, const char* name, const H5A_info_t*, void* data) {
  return static_cast<Names*>(data)->add(name) ? 0 : 1;
}

Result<Handle> open_member(hid_t parent, const Member& member, H5I_type_t kind, std::string_view kind_name) {
  Handle object(H5Oopen(parent, member.name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!object.valid()) return damaged(member.where, "cannot be opened");
  if (H5Iget_type(object.id()) != kind) return file_error(member.where, "is not a " + std::string(kind_name));
  return object;
}

Status check_filters(const std::string& where, hid_t creation) {
  const int count = H5Pget_nfilters(creation);
  if (count < 0) return damaged(where, "has unreadable filters");
  bool seen_deflate = false;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t parameters = 0;
    std::array<char, 64> name{};
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &parameters, nullptr,
                                               name.size() - 1, name.data(), &config);
    const bool repeated = filter == H5Z_FILTER_DEFLATE && std::exchange(seen_deflate, true);
    const bool known = filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_FLETCHER32;
    if (!known || repeated)
      return file_error(where, "uses filter " + std::to_string(filter) + " (" + printable(name.data()) + ")" +
                                   (repeated ? " twice" : "") + ", allowed: shuffle, gzip once, fletcher32");
  }
  return {};
}

/// Checks chunk sizes, filters, and that every chunk was written.
Status check_chunks(const InputDataset& dataset, hid_t creation) {
  if (auto s = check_filters(dataset.where, creation); !s) return s;
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int rank = H5Pget_chunk(creation, H5S_MAX_RANK, chunk.data());
  if (rank != static_cast<int>(dataset.shape.size()))
    return damaged(dataset.where, "has chunks of another rank than its values");
  std::uint64_t chunk_bytes = element_type(dataset.element).bytes;
  hsize_t needed = 1;
  for (std::size_t axis = 0; axis < dataset.shape.size(); ++axis) {
    if (chunk[axis] == 0 || !multiply(chunk_bytes, chunk[axis]) ||
        chunk_bytes > std::max(kChunkAllowanceBytes, dataset.bytes))
      return file_error(dataset.where,
                        "has chunks larger than its " + std::to_string(dataset.bytes) + " bytes of values");
    const auto extent = static_cast<hsize_t>(dataset.shape[axis]);
    needed *= extent / chunk[axis] + (extent % chunk[axis] != 0 ? 1 : 0);
  }
  if (needed == 0) return {};
  const Handle space(H5Dget_space(dataset.handle.id()), H5Sclose);
  hsize_t written = 0;
  if (!space.valid() || H5Dget_num_chunks(dataset.handle.id(), space.id(), &written) < 0)
    return damaged(dataset.where, "its chunks cannot be listed: truncated or damaged");
  if (written < needed)
    return file_error(dataset.where, "only " + std::to_string(written) + " of its " + std::to_string(needed) +
                                         " chunks were ever written");
  return {};
}

Status check_storage(const InputFile& file, const InputDataset& dataset) {
  const Handle creation(H5Dget_create_plist(dataset.handle.id()), H5Pclose);
  if (!creation.valid()) return damaged(dataset.where, "cannot be opened");
  const H5D_layout_t layout = H5Pget_layout(creation.id());
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT)
    return file_error(dataset.where, "is a virtual dataset; its values must be in this file");
  if (H5Pget_external_count(creation.id()) != 0)
    return file_error(dataset.where, "keeps its values in another file; they must be in this one");
  const std::uint64_t stored = H5Dget_storage_size(dataset.handle.id());
  if (stored > file.size_bytes)
    return file_error(dataset.where, "claims " + std::to_string(stored) + " stored bytes in a file of " +
                                         std::to_string(file.size_bytes));
  const bool filtered = layout == H5D_CHUNKED && H5Pget_nfilters(creation.id()) > 0;
  const std::uint64_t room = filtered ? stored * kLargestDeflateRatio : stored;
  if (room < dataset.bytes)
    return file_error(dataset.where, "declares shape " + contract::to_string(dataset.shape) + ", " +
                                         std::to_string(dataset.bytes) + " bytes, but the file holds no more than " +
                                         std::to_string(room) + " of them");
  if (layout == H5D_CHUNKED) return check_chunks(dataset, creation.id());
  return {};
}

Status read_extents(InputDataset& dataset) {
  const Handle space(H5Dget_space(dataset.handle.id()), H5Sclose);
  if (!space.valid()) return damaged(dataset.where, "has an unreadable shape");
  const H5S_class_t kind = H5Sget_simple_extent_type(space.id());
  if (kind != H5S_SCALAR && kind != H5S_SIMPLE) return file_error(dataset.where, "has no values (a null dataspace)");
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int rank = H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr);
  if (rank < 0) return damaged(dataset.where, "has an unreadable shape");
  // Zero extents do not excuse absurd other ones: the product of the rest is bounded too.
  std::uint64_t elements = 1;
  bool fits = true, zero = false;
  for (int axis = 0; axis < rank; ++axis) {
    const hsize_t extent = extents[static_cast<std::size_t>(axis)];
    fits = fits && extent <= static_cast<hsize_t>(std::numeric_limits<Index>::max());
    if (extent == 0)
      zero = true;
    else
      fits = fits && multiply(elements, extent);
    dataset.shape.push_back(static_cast<Index>(extent));
  }
  dataset.bytes = element_type(dataset.element).bytes;
  fits = fits && multiply(dataset.bytes, elements);
  if (!fits) return file_error(dataset.where, "declares a shape of more bytes than 64 bits can count");
  if (zero) dataset.bytes = 0;
  return {};
}

}  // namespace

Result<InputFile> open_input(const std::string& path, std::string_view kind) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return file_error(path, "no such file");
    return file_error(path, std::string("cannot be opened: ") + std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) return file_error(path, "is a folder, need a " + std::string(kind));
  if (!S_ISREG(status.st_mode)) return file_error(path, "is not a regular file");
  if (status.st_size == 0) return file_error(path, "is empty, need a " + std::string(kind));

  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  bool ready = access.valid() && H5Pset_fapl_sec2(access.id()) >= 0;
#if H5_VERSION_GE(1, 10, 7)
  // Reading takes no lock: golden files lie on read-only and network file systems too.
  ready = ready && H5Pset_file_locking(access.id(), false, true) >= 0;
#endif
  if (!ready) return damaged(path, "cannot be opened");
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (!file.valid()) {
    const Error error = damaged(path, "cannot be opened as HDF5: truncated or damaged");
    if (H5Fis_hdf5(path.c_str()) == 0) return file_error(path, "is not an HDF5 file");
    return error;
  }
  return InputFile{std::move(file), static_cast<std::uint64_t>(status.st_size)};
}

std::string member_path(std::string_view group, std::string_view name) {
  return group.empty() ? printable(name) : std::string(group) + "/" + printable(name);
}

Result<std::vector<Member>> list_members(hid_t group, std::string_view where) {
  Names names;
  hsize_t position = 0;
  const std::string object(where.empty() ? "root group" : where);
  if (H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &position, collect_link, &names) < 0)
    return damaged(object, "its members cannot be listed");
  if (!names.refused.empty())
    return file_error(member_path(where, names.refused), "is a link to another place; need the object itself");
  if (names.too_many) return file_error(object, "has more than " + std::to_string(kMostNames) + " members");
  std::vector<Member> members;
  for (std::string& name : names.all) {
    std::string place = member_path(where, name);
    members.push_back({std::move(name), std::move(place)});
  }
  return members;
}

Result<std::vector<std::string>> list_attributes(hid_t object, std::string_view where) {
  Names names;
  hsize_t position = 0;
  const std::string place(where.empty() ? "root group" : where);
  if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_NATIVE, &position, collect_attribute, &names) < 0)
    return damaged(place, "its attributes cannot be listed");
  if (names.too_many) return file_error(place, "has more than " + std::to_string(kMostNames) + " attributes");
  return std::move(names.all);
}

Result<Handle> open_group(hid_t parent, const Member& member) {
  return open_member(parent, member, H5I_GROUP, "group");
}

bool has_attribute(hid_t object, std::string_view name) { return H5Aexists(object, std::string(name).c_str()) > 0; }

Result<Index> read_int_attribute(hid_t object, std::string_view where, std::string_view name) {
  return read_number_attribute<Index>(object, where, name, Element::kInt64);
}

Result<double> read_real_attribute(hid_t object, std::string_view where, std::string_view name) {
  return read_number_attribute<double>(object, where, name, Element::kFloat64);
}

Result<bool> read_bool_attribute(hid_t object, std::string_view where, std::string_view name) {
  const auto attribute = open_attribute(object, where, name);
  if (!attribute) return attribute.error();
  if (!is_bool_type(attribute->type.id()))
    return wrong_type(*attribute, "a boolean (8-bit enumeration FALSE = 0, TRUE = 1)");
  std::int8_t value = 0;
  if (H5Aread(attribute->handle.id(), attribute->type.id(), &value) < 0)
    return damaged(attribute->where, "cannot be read");
  if (value != 0 && value != 1)
    return file_error(attribute->where, "holds " + std::to_string(value) + ", need FALSE (0) or TRUE (1)");
  return value == 1;
}

Result<std::string> read_text_attribute(hid_t object, std::string_view where, std::string_view name) {
  const auto attribute = open_attribute(object, where, name);
  if (!attribute) return attribute.error();
  const hid_t type = attribute->type.id();
  if (H5Tget_class(type) != H5T_STRING || H5Tis_variable_str(type) <= 0 || H5Tget_cset(type) != H5T_CSET_UTF8)
    return wrong_type(*attribute, "a variable-length UTF-8 string");
  char* bytes = nullptr;
  if (H5Aread(attribute->handle.id(), type, &bytes) < 0) return damaged(attribute->where, "cannot be read");
  if (bytes == nullptr) return std::string();
  std::string text(bytes, strnlen(bytes, kLongestTextBytes + 1));
  H5free_memory(bytes);
  if (text.size() > kLongestTextBytes)
    return file_error(attribute->where, "is longer than " + std::to_string(kLongestTextBytes) + " bytes");
  if (!is_utf8(text)) return file_error(attribute->where, "is not valid UTF-8");
  return text;
}

DatasetRules exactly(Element element) { return {{element}, std::string(element_type(element).name), {}}; }

Result<InputDataset> open_dataset(const InputFile& file, hid_t parent, const Member& member,
                                  const DatasetRules& rules) {
  auto handle = open_member(parent, member, H5I_DATASET, "dataset");
  if (!handle) return handle.error();
  InputDataset dataset;
  dataset.handle = std::move(*handle);
  dataset.where = member.where;
  const auto attributes = list_attributes(dataset.handle.id(), member.where);
  if (!attributes) return attributes.error();
  for (const std::string& name : *attributes)
    if (std::find(rules.attributes.begin(), rules.attributes.end(), name) == rules.attributes.end())
      return file_error(member.where, "unknown attribute '" + printable(name) + "'; it may have " +
                                          (rules.attributes.empty() ? "none" : listed(rules.attributes)));
  const Handle type(H5Dget_type(dataset.handle.id()), H5Tclose);
  if (!type.valid()) return damaged(member.where, "has an unreadable type");
  const auto element = find_element(type.id());
  if (!element || std::find(rules.elements.begin(), rules.elements.end(), *element) == rules.elements.end())
    return file_error(member.where, "has dtype " + got_need(type.id(), rules.named));
  dataset.element = *element;
  if (auto s = read_extents(dataset); !s) return s.error();
  if (auto s = check_storage(file, dataset); !s) return s.error();
  return dataset;
}

Status read_values(const InputDataset& dataset, void* values) {
  if (dataset.bytes == 0) return {};
  const hid_t native = element_type(dataset.element).native;
  if (H5Dread(dataset.handle.id(), native, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
    return damaged(dataset.where, "its values cannot be read: truncated or damaged");
  return {};
}

}  // namespace plumbline::golden
