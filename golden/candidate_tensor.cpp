#include "golden/candidate_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "golden/float_bits.hpp"
#include "golden/layout.hpp"
#include "golden/message.hpp"
#include "golden/text.hpp"

namespace plumbline::golden {
namespace {

using contract::file_error;
using contract::Index;
using contract::NumberFormat;
using contract::Result;
using contract::Status;
using contract::Tensor;

/// The format of floats stored as `element`, given the attribute.
Result<NumberFormat> format_of(const InputDataset& dataset) {
  const hid_t object = dataset.handle.id();
  const std::string name(kStorageAttribute), bf16(kStorageBf16);
  const std::string dtype(element_type(dataset.element).name);
  if (!has_attribute(object, kStorageAttribute)) {
    switch (dataset.element) {
      case Element::kFloat64: return NumberFormat::kFp64;
      case Element::kFloat32: return NumberFormat::kFp32;
      case Element::kFloat16: return NumberFormat::kFp16;
      default: break;
    }
    return file_error(dataset.where, "has dtype " + dtype + " but no attribute '" + name +
                                         "'; patterns of bf16 need it, with the value '" + bf16 +
                                         "', other formats are float64, float32 or float16");
  }
  const auto text = read_text_attribute(object, dataset.where, kStorageAttribute);
  if (!text) return text.error();
  if (*text != bf16)
    return file_error(dataset.where + " attribute '" + name + "'",
                      "is '" + printable(*text) + "', need '" + bf16 + "'; other formats go without it");
  if (dataset.element == Element::kFloat32 || dataset.element == Element::kUint16) return NumberFormat::kBf16;
  return file_error(dataset.where + " attribute '" + name + "'",
                    "is '" + bf16 + "' on dtype " + dtype +
                        ", need uint16 or float32 with it; change the dtype or leave the attribute out");
}

/// Reads stored values and converts each of them.
template <typename Stored, typename Convert>
Status read_converted(const InputDataset& dataset, Tensor& tensor, Convert convert) {
  std::vector<Stored> values(static_cast<std::size_t>(tensor.size()));
  if (auto s = read_values(dataset, values.data()); !s) return s;
  std::transform(values.begin(), values.end(), tensor.data(), convert);
  return {};
}

template <typename Stored>
Status read_numbers(const InputDataset& dataset, Tensor& tensor) {
  return read_converted<Stored>(dataset, tensor, [](Stored value) { return static_cast<double>(value); });
}

Status read_into(const EncodedTensor& encoded, Tensor& tensor) {
  const InputDataset& dataset = encoded.dataset;
  switch (dataset.element) {
    case Element::kFloat64: return read_values(dataset, tensor.data());
    case Element::kFloat32: return read_numbers<float>(dataset, tensor);
    case Element::kFloat16: return read_converted<std::uint16_t>(dataset, tensor, from_fp16_bits);
    case Element::kInt64: return read_numbers<std::int64_t>(dataset, tensor);
    case Element::kInt32: return read_numbers<std::int32_t>(dataset, tensor);
    case Element::kInt16: return read_numbers<std::int16_t>(dataset, tensor);
    case Element::kInt8: return read_numbers<std::int8_t>(dataset, tensor);
    case Element::kUint64: return read_numbers<std::uint64_t>(dataset, tensor);
    case Element::kUint32: return read_numbers<std::uint32_t>(dataset, tensor);
    case Element::kUint16:
      if (encoded.format) return read_converted<std::uint16_t>(dataset, tensor, from_bf16_bits);
      return read_numbers<std::uint16_t>(dataset, tensor);
    case Element::kUint8: return read_numbers<std::uint8_t>(dataset, tensor);
  }
  return {};
}

Status check_bf16(const std::string& where, const Tensor& tensor) {
  const Index columns = tensor.row_size();
  for (Index i = 0; i < tensor.size(); ++i) {
    if (!std::isfinite(tensor[i]) || contract::round_to(NumberFormat::kBf16, tensor[i]) == tensor[i]) continue;
    return file_error(where, "holds " + number_text(tensor[i]) + " at " +
                                 place_text(i / columns, i % columns, tensor.rank() == 0) +
                                 ", no bf16 number, though '" + std::string(kStorageAttribute) +
                                 "' says bf16; round the values, or leave the attribute out");
  }
  return {};
}

}  // namespace

double EncodedTensor::value_bytes() const {
  return static_cast<double>(dataset.bytes / element_type(dataset.element).bytes) * sizeof(double);
}

double EncodedTensor::temporary_bytes() const {
  return dataset.element == Element::kFloat64 ? 0.0 : static_cast<double>(dataset.bytes);
}

Result<EncodedTensor> open_floats(const InputFile& file, hid_t group, const Member& member) {
  static const DatasetRules rules{
      {Element::kFloat64, Element::kFloat32, Element::kFloat16, Element::kUint16},
      "float64, float32, float16, or bf16 as uint16 or float32 with the attribute storage_dtype = 'bf16'",
      {kStorageAttribute}};
  auto dataset = open_dataset(file, group, member, rules);
  if (!dataset) return dataset.error();
  const auto format = format_of(*dataset);
  if (!format) return format.error();
  return EncodedTensor{std::move(*dataset), *format};
}

Result<EncodedTensor> open_integers(const InputFile& file, hid_t group, const Member& member) {
  static const DatasetRules rules{{Element::kInt64, Element::kInt32, Element::kInt16, Element::kInt8, Element::kUint64,
                                   Element::kUint32, Element::kUint16, Element::kUint8},
                                  "an integer type of 8, 16, 32 or 64 bits",
                                  {}};
  auto dataset = open_dataset(file, group, member, rules);
  if (!dataset) return dataset.error();
  return EncodedTensor{std::move(*dataset), std::nullopt};
}

Result<Tensor> read_tensor(const EncodedTensor& encoded) {
  Tensor tensor{encoded.dataset.shape};
  if (auto s = read_into(encoded, tensor); !s) return s.error();
  if (encoded.format == NumberFormat::kBf16 && encoded.dataset.element == Element::kFloat32)
    if (auto s = check_bf16(encoded.dataset.where, tensor); !s) return s.error();
  return tensor;
}

}  // namespace plumbline::golden
