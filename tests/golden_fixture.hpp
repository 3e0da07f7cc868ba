#pragma once
#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "golden/golden_file.hpp"

// What the tests of golden files share: temporary folders, the oracle files, and edits of copies of them.
namespace plumbline::golden::test {

/// A folder of its own, gone with all it holds when the test ends.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = ::testing::TempDir() + "golden-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& item : std::filesystem::directory_iterator(path_))
      found.push_back(item.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::string path_;
};

inline std::string oracle(const std::string& name) {
  return std::string(PLUMBLINE_TESTS_FOLDER) + "/oracle/" + name + ".h5";
}

inline std::vector<std::string> oracle_names() {
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(std::string(PLUMBLINE_TESTS_FOLDER) + "/oracle"))
    if (item.path().extension() == ".h5") names.push_back(item.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Equal in every bit, NaN payloads included.
inline void expect_same(const GoldenFile& got, const GoldenFile& want) {
  EXPECT_EQ(got.contents, want.contents);
  EXPECT_TRUE(got.fingerprints == want.fingerprints);
  EXPECT_TRUE(got.sketches == want.sketches);
  EXPECT_EQ(got.case_text, want.case_text);
  EXPECT_EQ(got.producer, want.producer);
  EXPECT_TRUE(got.problem.config == want.problem.config);
  EXPECT_TRUE(got.problem.packing == want.problem.packing);
  EXPECT_TRUE(contract::equal_bits(got.problem.hidden, want.problem.hidden));
  EXPECT_TRUE(contract::equal_bits(got.problem.grad_out, want.problem.grad_out));
  for (const contract::WeightInfo& weight : contract::kWeights)
    EXPECT_TRUE(contract::equal_bits(got.problem.weight(weight.id), want.problem.weight(weight.id))) << weight.name;
  EXPECT_EQ(got.results.available(), want.results.available());
  for (std::size_t i = 0; i < contract::DatasetId::kCount; ++i) {
    const auto id = contract::DatasetId::from_index(i);
    if (got.results.has(id) && want.results.has(id)) {
      EXPECT_TRUE(contract::equal_bits(got.results.at(id), want.results.at(id))) << id.path();
    }
  }
}

// Edits of an open file. All are plain HDF5 calls, independent of the code under test.

inline hid_t bool_type() {
  const hid_t type = H5Tenum_create(H5T_STD_I8LE);
  const std::int8_t no = 0, yes = 1;
  H5Tenum_insert(type, "FALSE", &no);
  H5Tenum_insert(type, "TRUE", &yes);
  return type;
}

inline hid_t text_type() {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

/// Sets (replacing) an attribute of any type and shape; `value` is of that type.
inline void set_attribute(hid_t file, const std::string& object, const std::string& name, hid_t type, const void* value,
                          const std::vector<hsize_t>& shape = {}) {
  const hid_t target = H5Oopen(file, object.c_str(), H5P_DEFAULT);
  if (H5Aexists(target, name.c_str()) > 0) H5Adelete(target, name.c_str());
  const hid_t space =
      shape.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  const hid_t attribute = H5Acreate2(target, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
  EXPECT_GE(H5Awrite(attribute, type, value), 0) << object << " " << name;
  H5Aclose(attribute);
  H5Sclose(space);
  H5Oclose(target);
}

inline void set_int(hid_t file, const std::string& object, const std::string& name, std::int64_t value) {
  set_attribute(file, object, name, H5T_STD_I64LE, &value);
}
inline void set_real(hid_t file, const std::string& object, const std::string& name, double value) {
  set_attribute(file, object, name, H5T_IEEE_F64LE, &value);
}
inline void set_text(hid_t file, const std::string& object, const std::string& name, const char* value) {
  const hid_t type = text_type();
  set_attribute(file, object, name, type, &value);
  H5Tclose(type);
}
inline void delete_attribute(hid_t file, const std::string& object, const std::string& name) {
  EXPECT_GE(H5Adelete_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT), 0);
}
inline void delete_link(hid_t file, const std::string& path) {
  EXPECT_GE(H5Ldelete(file, path.c_str(), H5P_DEFAULT), 0) << path;
}

/// Creates (replacing) a dataset; without values it stays unwritten. `creation` may hold a layout.
inline void put_dataset(hid_t file, const std::string& path, hid_t type, const std::vector<hsize_t>& shape,
                        const void* values, hid_t creation = H5P_DEFAULT, const std::vector<hsize_t>& most = {}) {
  if (H5Lexists(file, path.c_str(), H5P_DEFAULT) > 0) delete_link(file, path);
  const hid_t space = shape.empty() ? H5Screate(H5S_SCALAR)
                                    : H5Screate_simple(static_cast<int>(shape.size()), shape.data(),
                                                       most.empty() ? nullptr : most.data());
  const hid_t dataset = H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
  EXPECT_GE(dataset, 0) << path;
  if (values != nullptr) {
    EXPECT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0) << path;
  }
  H5Dclose(dataset);
  H5Sclose(space);
}

/// Changes one element of a dataset.
template <typename Value>
void poke(hid_t file, const std::string& path, std::size_t index, Value value) {
  const hid_t type = std::is_same_v<Value, double> ? H5T_NATIVE_DOUBLE
                     : sizeof(Value) == 1          ? H5T_NATIVE_UINT8
                                                   : H5T_NATIVE_INT64;
  const hid_t dataset = H5Dopen2(file, path.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(dataset);
  std::vector<Value> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  ASSERT_LT(index, values.size());
  H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  values[index] = value;
  EXPECT_GE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
  H5Sclose(space);
  H5Dclose(dataset);
}

/// A copy of an oracle file with an edit applied.
inline std::string edited(const TemporaryFolder& folder, const std::string& oracle_name,
                          const std::function<void(hid_t)>& edit, const std::string& name = "edited.h5") {
  const std::string path = folder.file(name);
  std::filesystem::copy_file(oracle(oracle_name), path, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::permissions(path, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  EXPECT_GE(file, 0);
  edit(file);
  EXPECT_GE(H5Fclose(file), 0);
  return path;
}

}  // namespace plumbline::golden::test
