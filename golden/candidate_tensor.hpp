#pragma once
#include <optional>

#include "golden/hdf5_input.hpp"
#include "reference/contract/number_format.hpp"

// Single datasets of candidate files, in every encoding that these may have. Callers hold a LibraryLock; errors (kFile)
// name the object, not the file.
namespace plumbline::golden {

/// A dataset whose header was checked and whose values were not read yet.
struct EncodedTensor {
  InputDataset dataset;
  std::optional<contract::NumberFormat> format;  ///< none: integers

  /// Of the values as doubles, and of what reading them takes besides.
  double value_bytes() const;
  double temporary_bytes() const;
};

/// Opens floats: float64, float32, float16, or bf16 as uint16 patterns or as float32, both with the attribute
/// `storage_dtype` = "bf16".
contract::Result<EncodedTensor> open_floats(const InputFile& file, hid_t group, const Member& member);

/// Opens integers of any width up to 64 bits, with and without sign.
contract::Result<EncodedTensor> open_integers(const InputFile& file, hid_t group, const Member& member);

/// Reads the values; integers beyond 2^53 as the nearest double. Errors: damaged bytes, float32 that claims to be bf16
/// and holds a finite number that bf16 has not.
contract::Result<contract::Tensor> read_tensor(const EncodedTensor& encoded);

}  // namespace plumbline::golden
