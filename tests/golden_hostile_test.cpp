#include <unistd.h>

#include "golden_fixture.hpp"

// Each test makes one thing wrong in a good file and expects the one line that says so.
namespace plumbline::golden::test {
namespace {

using contract::ErrorCode;

const double kNan = std::nan("");
const double kInf = HUGE_VAL;

struct Hostile {
  std::string name;
  std::string oracle_name;
  std::function<void(hid_t)> edit;
  ErrorCode code;
  std::vector<std::string> message;  ///< parts that the line must have
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

class HostileFile : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileFile, IsRefusedInOneLineThatNamesTheThing) {
  const Hostile& hostile = GetParam();
  const TemporaryFolder folder;
  const std::string path = edited(folder, hostile.oracle_name, hostile.edit);
  ::testing::internal::CaptureStderr();
  const auto here = read(path);
  const std::string printed = ::testing::internal::GetCapturedStderr();
  const auto child = read_guarded(path);
  EXPECT_EQ(printed, "");
  ASSERT_FALSE(here.ok());
  ASSERT_FALSE(child.ok());
  const std::string text = here.error().text();
  EXPECT_EQ(here.error().code, hostile.code) << text;
  EXPECT_EQ(here.error().where, path);
  for (const std::string& part : hostile.message) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
  }
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_LT(text.size(), path.size() + 400) << text;
  EXPECT_EQ(child.error().code, here.error().code) << child.error().text();
  EXPECT_EQ(child.error().text(), text);
}

constexpr ErrorCode kFile = ErrorCode::kFile, kUsage = ErrorCode::kUsage, kNonFinite = ErrorCode::kNonFinite;

std::vector<double> zeros(std::size_t count) { return std::vector<double>(count, 0.0); }

void put_zeros(hid_t file, const std::string& path, const std::vector<hsize_t>& shape) {
  std::size_t count = 1;
  for (hsize_t extent : shape) count *= extent;
  put_dataset(file, path, H5T_NATIVE_DOUBLE, shape, zeros(count).data());
}

std::vector<Hostile> root_and_config() {
  const std::string csa = "csa_ties", swa = "swa_window";
  return {
      {"no_format",
       csa,
       [](hid_t f) { delete_attribute(f, "/", "format"); },
       kFile,
       {"root attribute 'format'", "missing"}},
      {"other_format",
       csa,
       [](hid_t f) { set_text(f, "/", "format", "other\n"); },
       kFile,
       {"'format'", "'other\\x0a'", "plumbline-golden"}},
      {"no_version",
       csa,
       [](hid_t f) { delete_attribute(f, "/", "format_version"); },
       kFile,
       {"'format_version'", "missing"}},
      {"newer_version",
       csa,
       [](hid_t f) { set_int(f, "/", "format_version", 3); },
       kFile,
       {"'format_version'", "is 3", "versions 1 and 2"}},
      {"version_0", csa, [](hid_t f) { set_int(f, "/", "format_version", 0); }, kFile, {"'format_version'", "is 0"}},
      {"version_is_text",
       csa,
       [](hid_t f) { set_text(f, "/", "format_version", "1"); },
       kFile,
       {"'format_version'", "has type a variable-length UTF-8 string", "need int64"}},
      {"version_is_float",
       csa,
       [](hid_t f) { set_real(f, "/", "format_version", 1); },
       kFile,
       {"'format_version'", "float64", "need int64"}},
      {"version_is_int32",
       csa,
       [](hid_t f) {
         const std::int32_t one = 1;
         set_attribute(f, "/", "format_version", H5T_STD_I32LE, &one);
       },
       kFile,
       {"'format_version'", "int32", "need int64"}},
      {"version_is_a_list",
       csa,
       [](hid_t f) {
         const std::int64_t one = 1;
         set_attribute(f, "/", "format_version", H5T_STD_I64LE, &one, {1});
       },
       kFile,
       {"'format_version'", "not a scalar"}},
      {"no_case", csa, [](hid_t f) { delete_attribute(f, "/", "case"); }, kFile, {"root attribute 'case'", "missing"}},
      {"no_producer",
       csa,
       [](hid_t f) { delete_attribute(f, "/", "producer"); },
       kFile,
       {"root attribute 'producer'", "missing"}},
      {"case_of_fixed_length",
       csa,
       [](hid_t f) {
         const hid_t type = H5Tcopy(H5T_C_S1);
         H5Tset_size(type, 4);
         set_attribute(f, "/", "case", type, "csa");
         H5Tclose(type);
       },
       kFile,
       {"'case'", "fixed-length string", "need a variable-length UTF-8 string"}},
      {"case_is_ascii",
       csa,
       [](hid_t f) {
         const hid_t type = H5Tcopy(H5T_C_S1);
         H5Tset_size(type, H5T_VARIABLE);
         const char* text = "csa";
         set_attribute(f, "/", "case", type, &text);
         H5Tclose(type);
       },
       kFile,
       {"'case'", "variable-length ASCII string"}},
      {"case_is_not_utf8",
       csa,
       [](hid_t f) { set_text(f, "/", "case", "a\xC0\xAF"); },
       kFile,
       {"'case'", "not valid UTF-8"}},
      {"case_is_endless",
       csa,
       [](hid_t f) { set_text(f, "/", "case", std::string(70000, 'x').c_str()); },
       kFile,
       {"'case'", "longer than"}},
      {"unknown_root_attribute",
       csa,
       [](hid_t f) { set_int(f, "/", "seed", 1); },
       kFile,
       {"root group", "unknown attribute 'seed'"}},
      {"no_config", csa, [](hid_t f) { delete_link(f, "config"); }, kFile, {"config", "missing"}},
      {"config_is_a_dataset", csa, [](hid_t f) { put_zeros(f, "config", {2}); }, kFile, {"config", "is not a group"}},
      {"member_in_config", csa, [](hid_t f) { put_zeros(f, "config/x", {2}); }, kFile, {"config/x", "unknown name"}},
      {"unknown_field",
       csa,
       [](hid_t f) { set_int(f, "config", "heads\x1b[2J", 4); },
       kFile,
       {"config/heads\\x1b[2J", "unknown attribute"}},
      {"no_heads",
       csa,
       [](hid_t f) { delete_attribute(f, "config", "heads"); },
       kFile,
       {"config/heads", "missing attribute"}},
      {"no_loss_coeff",
       csa,
       [](hid_t f) { delete_attribute(f, "config", "loss_coeff"); },
       kFile,
       {"config/loss_coeff", "missing attribute"}},
      {"no_teacher",
       csa,
       [](hid_t f) { delete_attribute(f, "config", "teacher"); },
       kFile,
       {"config/teacher", "missing attribute"}},
      {"no_beta_with_yarn",
       csa,
       [](hid_t f) { delete_attribute(f, "config", "beta_fast"); },
       kFile,
       {"config/beta_fast", "YaRN is on"}},
      {"heads_is_float",
       csa,
       [](hid_t f) { set_real(f, "config", "heads", 4); },
       kFile,
       {"config attribute 'heads'", "float64", "need int64"}},
      {"eps_is_int",
       csa,
       [](hid_t f) { set_int(f, "config", "eps", 1); },
       kFile,
       {"config attribute 'eps'", "int64", "need float64"}},
      {"eps_is_float32",
       csa,
       [](hid_t f) {
         const float eps = 1e-6f;
         set_attribute(f, "config", "eps", H5T_IEEE_F32LE, &eps);
       },
       kFile,
       {"config attribute 'eps'", "float32", "need float64"}},
      {"overlap_is_int",
       csa,
       [](hid_t f) { set_int(f, "config", "overlap", 1); },
       kFile,
       {"config attribute 'overlap'", "int64", "need a boolean"}},
      {"overlap_is_other_enum",
       csa,
       [](hid_t f) {
         const hid_t type = H5Tenum_create(H5T_STD_I8LE);
         const std::int8_t no = 1, yes = 0;
         H5Tenum_insert(type, "FALSE", &no);
         H5Tenum_insert(type, "TRUE", &yes);
         set_attribute(f, "config", "overlap", type, &yes);
         H5Tclose(type);
       },
       kFile,
       {"config attribute 'overlap'", "need a boolean"}},
      {"overlap_holds_2",
       csa,
       [](hid_t f) {
         const hid_t type = bool_type();
         const std::int8_t two = 2;
         set_attribute(f, "config", "overlap", type, &two);
         H5Tclose(type);
       },
       kFile,
       {"config attribute 'overlap'", "holds 2"}},
      {"teacher_is_int",
       csa,
       [](hid_t f) { set_int(f, "config", "teacher", 0); },
       kFile,
       {"config attribute 'teacher'", "int64"}},
      {"teacher_is_unknown",
       csa,
       [](hid_t f) { set_text(f, "config", "teacher", "half"); },
       kUsage,
       {"config/teacher", "'half'"}},
      {"heads_0", csa, [](hid_t f) { set_int(f, "config", "heads", 0); }, kUsage, {"config/heads", "got 0"}},
      {"heads_negative", csa, [](hid_t f) { set_int(f, "config", "heads", -4); }, kUsage, {"config/heads", "got -4"}},
      {"rope_dim_odd", csa, [](hid_t f) { set_int(f, "config", "rope_dim", 7); }, kUsage, {"config/rope_dim", "got 7"}},
      {"index_dim_24",
       csa,
       [](hid_t f) { set_int(f, "config", "index_dim", 24); },
       kUsage,
       {"config/index_dim", "power of two"}},
      {"topk_0", csa, [](hid_t f) { set_int(f, "config", "index_topk", 0); }, kUsage, {"config/index_topk", "got 0"}},
      {"topk_absent",
       csa,
       [](hid_t f) { delete_attribute(f, "config", "index_topk"); },
       kUsage,
       {"config/index_topk", "got 0"}},
      {"eps_nan", csa, [](hid_t f) { set_real(f, "config", "eps", kNan); }, kUsage, {"config/eps", "NaN"}},
      {"hidden_absurd", csa, [](hid_t f) { set_int(f, "config", "hidden", INT64_MAX); }, kUsage, {"config/hidden"}},
      {"heads_overflowing",
       csa,
       [](hid_t f) { set_int(f, "config", "heads", std::int64_t{1} << 31); },
       kFile,
       {"weights/wq_b", "has shape [128, 24]"}},
      {"topk_absurd",
       csa,
       [](hid_t f) { set_int(f, "config", "index_topk", std::int64_t{1} << 31); },
       kFile,
       {"forward/topk", "has shape [41, 6], need [41, 10]"}},
  };
}

std::vector<Hostile> packing() {
  const std::string csa = "csa_row_mask_nan";  // offsets 0 24 32 56, lengths 21 3 18
  return {
      {"no_packing", csa, [](hid_t f) { delete_link(f, "packing"); }, kFile, {"packing", "missing"}},
      {"no_offsets", csa, [](hid_t f) { delete_link(f, "packing/offsets"); }, kFile, {"packing/offsets", "missing"}},
      {"no_lengths", csa, [](hid_t f) { delete_link(f, "packing/lengths"); }, kFile, {"packing/lengths", "missing"}},
      {"no_row_valid",
       csa,
       [](hid_t f) { delete_link(f, "packing/row_valid"); },
       kFile,
       {"packing/row_valid", "missing"}},
      {"unknown_in_packing",
       csa,
       [](hid_t f) { put_zeros(f, "packing/order", {2}); },
       kFile,
       {"packing/order", "unknown name"}},
      {"offsets_int32",
       csa,
       [](hid_t f) {
         const std::int32_t offsets[] = {0, 24, 32, 56};
         put_dataset(f, "packing/offsets", H5T_STD_I32LE, {4}, offsets);
       },
       kFile,
       {"packing/offsets", "dtype int32", "need int64"}},
      {"row_valid_int64",
       csa,
       [](hid_t f) {
         const std::vector<std::int64_t> valid(56, 0);
         put_dataset(f, "packing/row_valid", H5T_STD_I64LE, {56}, valid.data());
       },
       kFile,
       {"packing/row_valid", "dtype int64", "need uint8"}},
      {"row_valid_int8",
       csa,
       [](hid_t f) {
         const std::vector<std::int8_t> valid(56, 0);
         put_dataset(f, "packing/row_valid", H5T_STD_I8LE, {56}, valid.data());
       },
       kFile,
       {"packing/row_valid", "dtype int8", "need uint8"}},
      {"offsets_2d",
       csa,
       [](hid_t f) {
         const std::int64_t offsets[] = {0, 24, 32, 56};
         put_dataset(f, "packing/offsets", H5T_STD_I64LE, {2, 2}, offsets);
       },
       kFile,
       {"packing/offsets", "[2, 2]", "one axis"}},
      {"offsets_scalar",
       csa,
       [](hid_t f) {
         const std::int64_t offset = 0;
         put_dataset(f, "packing/offsets", H5T_STD_I64LE, {}, &offset);
       },
       kFile,
       {"packing/offsets", "one axis"}},
      {"offsets_empty",
       csa,
       [](hid_t f) { put_dataset(f, "packing/offsets", H5T_STD_I64LE, {0}, nullptr); },
       kUsage,
       {"packing/offsets", "has 0 entries"}},
      {"offsets_too_few",
       csa,
       [](hid_t f) {
         const std::int64_t offsets[] = {0, 32, 56};
         put_dataset(f, "packing/offsets", H5T_STD_I64LE, {3}, offsets);
       },
       kUsage,
       {"packing/offsets", "has 3 entries"}},
      {"offsets_start_at_1",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/offsets", 0, 1); },
       kUsage,
       {"packing/offsets", "starts at 1"}},
      {"offsets_go_down",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/offsets", 2, 20); },
       kUsage,
       {"packing/offsets", "go down from 24 to 20"}},
      {"offsets_past_the_end",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/offsets", 3, 60); },
       kUsage,
       {"packing/row_valid", "56 rows", "60"}},
      {"offset_in_the_middle_past_the_end",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/offsets", 2, 60); },
       kUsage,
       {"packing/offsets", "go down"}},
      {"offsets_absurd",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/offsets", 3, INT64_MAX); },
       kUsage,
       {"packing/row_valid"}},
      {"offsets_negative",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/offsets", 1, INT64_MIN); },
       kUsage,
       {"packing/offsets", "go down"}},
      {"length_too_long",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/lengths", 1, 9); },
       kUsage,
       {"packing/lengths", "segment 1", "9"}},
      {"length_negative",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "packing/lengths", 1, -1); },
       kUsage,
       {"packing/lengths", "segment 1", "-1"}},
      {"row_valid_2",
       csa,
       [](hid_t f) { poke<std::uint8_t>(f, "packing/row_valid", 3, 2); },
       kUsage,
       {"packing/row_valid", "row 3", "holds 2"}},
      {"row_valid_on_padding",
       csa,
       [](hid_t f) { poke<std::uint8_t>(f, "packing/row_valid", 22, 1); },
       kUsage,
       {"packing/row_valid", "row 22", "padding"}},
  };
}

std::vector<Hostile> names() {
  const std::string csa = "csa_ties", swa = "swa_window", dense = "csa_dense_mode";
  std::vector<Hostile> all = {
      {"unknown_in_root",
       csa,
       [](hid_t f) { put_zeros(f, "extra", {2}); },
       kFile,
       {"extra", "unknown name in the root group"}},
      {"unknown_group_in_root",
       csa,
       [](hid_t f) { H5Gclose(H5Gcreate2(f, "notes", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); },
       kFile,
       {"notes", "unknown name"}},
      {"unknown_input",
       csa,
       [](hid_t f) { put_zeros(f, "inputs/mask", {41}); },
       kFile,
       {"inputs/mask", "unknown name"}},
      {"unknown_weight",
       csa,
       [](hid_t f) { put_zeros(f, "weights/wq_c", {41}); },
       kFile,
       {"weights/wq_c", "unknown weight"}},
      {"unknown_stage",
       csa,
       [](hid_t f) { put_zeros(f, "forward/softmax", {41}); },
       kFile,
       {"forward/softmax", "unknown dataset"}},
      {"stage_without_gradient",
       csa,
       [](hid_t f) {
         put_zeros(f, "grad/forward/attn_lse", {41, 4});
       },
       kFile,
       {"grad/forward/attn_lse", "unknown dataset"}},
      {"unknown_gradient_group",
       csa,
       [](hid_t f) { H5Gclose(H5Gcreate2(f, "grad/other", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)); },
       kFile,
       {"grad/other", "unknown name"}},
      {"unknown_input_gradient",
       csa,
       [](hid_t f) {
         put_zeros(f, "grad/inputs/grad_out", {41, 48});
       },
       kFile,
       {"grad/inputs/grad_out", "unknown dataset"}},
      {"hidden_gradient_among_weights",
       csa,
       [](hid_t f) {
         put_zeros(f, "grad/weights/hidden", {41, 48});
       },
       kFile,
       {"grad/weights/hidden", "unknown dataset"}},
      {"stage_is_a_group",
       csa,
       [](hid_t f) {
         delete_link(f, "forward/q");
         H5Gclose(H5Gcreate2(f, "forward/q", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
       },
       kFile,
       {"forward/q", "is not a dataset"}},
      {"attribute_on_dataset",
       csa,
       [](hid_t f) { set_text(f, "forward/q", "storage_dtype", "bf16"); },
       kFile,
       {"forward/q", "unknown attribute 'storage_dtype'"}},
      {"attribute_on_group",
       csa,
       [](hid_t f) { set_int(f, "forward", "rows", 1); },
       kFile,
       {"forward", "unknown attribute 'rows'"}},
      {"attribute_on_gradient_group",
       csa,
       [](hid_t f) { set_int(f, "grad/weights", "rows", 1); },
       kFile,
       {"grad/weights", "unknown attribute 'rows'"}},
      {"swa_with_compressor",
       swa,
       [](hid_t f) { put_zeros(f, "weights/compressor.norm", {32}); },
       kFile,
       {"weights/compressor.norm", "ratio 0", "no such dataset"}},
      {"swa_with_compressed_kv",
       swa,
       [](hid_t f) {
         put_zeros(f, "forward/compressed_kv", {5, 32});
       },
       kFile,
       {"forward/compressed_kv", "no such dataset"}},
      {"dense_with_indexer_weight",
       dense,
       [](hid_t f) {
         put_zeros(f, "weights/indexer.wq_b", {64, 24});
       },
       kFile,
       {"weights/indexer.wq_b", "indexer off"}},
      {"dense_with_teacher",
       dense,
       [](hid_t f) {
         put_zeros(f, "forward/teacher", {30, 0});
       },
       kFile,
       {"forward/teacher", "no such dataset"}},
      {"dense_with_indexer_gradient",
       dense,
       [](hid_t f) {
         put_zeros(f, "grad/weights/indexer.wq_b", {64, 24});
       },
       kFile,
       {"grad/weights/indexer.wq_b", "no such dataset"}},
      {"named_type",
       csa,
       [](hid_t f) {
         const hid_t type = H5Tcopy(H5T_NATIVE_DOUBLE);
         delete_link(f, "weights/wq_a");
         H5Tcommit2(f, "weights/wq_a", type, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
         H5Tclose(type);
       },
       kFile,
       {"weights/wq_a", "is not a dataset"}},
      {"no_inputs", csa, [](hid_t f) { delete_link(f, "inputs"); }, kFile, {"inputs", "missing"}},
      {"no_weights", csa, [](hid_t f) { delete_link(f, "weights"); }, kFile, {"weights", "missing"}},
      {"no_hidden", csa, [](hid_t f) { delete_link(f, "inputs/hidden"); }, kFile, {"inputs/hidden", "missing"}},
      {"no_grad_out", csa, [](hid_t f) { delete_link(f, "inputs/grad_out"); }, kFile, {"inputs/grad_out", "missing"}},
      {"many_members",
       csa,
       [](hid_t f) {
         for (int i = 0; i < 300; ++i) put_zeros(f, "forward/s" + std::to_string(i), {1});
       },
       kFile,
       {"forward"}},
  };
  for (const contract::WeightInfo& weight : contract::kWeights) {
    std::string slug(weight.name);
    std::replace(slug.begin(), slug.end(), '.', '_');
    const std::string path = "weights/" + std::string(weight.name);
    all.push_back({"no_weight_" + slug, csa, [path](hid_t f) { delete_link(f, path); }, kFile, {path + ": missing"}});
  }
  return all;
}

std::vector<Hostile> links() {
  const std::string csa = "csa_ties";
  return {
      {"soft_link",
       csa,
       [](hid_t f) {
         delete_link(f, "weights/wkv");
         H5Lcreate_soft("/weights/wq_a", f, "weights/wkv", H5P_DEFAULT, H5P_DEFAULT);
       },
       kFile,
       {"weights/wkv", "link to another place"}},
      {"soft_link_group",
       csa,
       [](hid_t f) {
         delete_link(f, "grad/weights");
         H5Lcreate_soft("/weights", f, "grad/weights", H5P_DEFAULT, H5P_DEFAULT);
       },
       kFile,
       {"grad/weights", "link to another place"}},
      {"external_link",
       csa,
       [](hid_t f) {
         delete_link(f, "weights/wkv");
         H5Lcreate_external("/etc/passwd", "/weights/wkv", f, "weights/wkv", H5P_DEFAULT, H5P_DEFAULT);
       },
       kFile,
       {"weights/wkv", "link to another place"}},
      {"external_storage",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         H5Pset_external(creation, "/etc/hostname", 0, 41 * 48 * 8);
         put_dataset(f, "inputs/hidden", H5T_IEEE_F64LE, {41, 48}, nullptr, creation);
         H5Pclose(creation);
       },
       kFile,
       {"inputs/hidden", "another file"}},
      {"virtual_dataset",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         const hsize_t shape[] = {41, 48};
         const hid_t space = H5Screate_simple(2, shape, nullptr);
         H5Pset_virtual(creation, space, "/etc/hostname", "x", space);
         put_dataset(f, "inputs/hidden", H5T_IEEE_F64LE, {41, 48}, nullptr, creation);
         H5Sclose(space);
         H5Pclose(creation);
       },
       kFile,
       {"inputs/hidden", "virtual dataset"}},
      {"group_cycle",
       csa,
       [](hid_t f) {
         delete_link(f, "grad/forward");
         H5Lcreate_hard(f, "/grad", f, "grad/forward", H5P_DEFAULT, H5P_DEFAULT);
       },
       kFile,
       {"grad/forward/"}},
  };
}

std::vector<Hostile> shapes_and_types() {
  const std::string csa = "csa_ties";  // T 41, n_max 10, K 6
  const auto unwritten = [](hid_t f, const std::string& path, const std::vector<hsize_t>& shape,
                            const std::vector<hsize_t>& chunk, const std::vector<hsize_t>& most = {}) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    if (!chunk.empty()) {
      H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
      H5Pset_deflate(creation, 4);
    }
    put_dataset(f, path, H5T_IEEE_F64LE, shape, nullptr, creation, most);
    H5Pclose(creation);
  };
  return {
      {"hidden_too_short",
       csa,
       [](hid_t f) {
         put_zeros(f, "inputs/hidden", {40, 48});
       },
       kFile,
       {"inputs/hidden", "[40, 48]", "need [41, 48]"}},
      {"hidden_transposed",
       csa,
       [](hid_t f) {
         put_zeros(f, "inputs/hidden", {48, 41});
       },
       kFile,
       {"inputs/hidden", "[48, 41]"}},
      {"hidden_flat",
       csa,
       [](hid_t f) { put_zeros(f, "inputs/hidden", {41 * 48}); },
       kFile,
       {"inputs/hidden", "[1968]"}},
      {"hidden_float32",
       csa,
       [](hid_t f) {
         put_dataset(f, "inputs/hidden", H5T_IEEE_F32LE, {41, 48}, std::vector<float>(41 * 48).data());
       },
       kFile,
       {"inputs/hidden", "dtype float32", "need float64"}},
      {"weight_transposed",
       csa,
       [](hid_t f) {
         put_zeros(f, "weights/wq_a", {48, 24});
       },
       kFile,
       {"weights/wq_a", "[48, 24]", "need [24, 48]"}},
      {"weight_int64",
       csa,
       [](hid_t f) { put_dataset(f, "weights/kv_norm", H5T_STD_I64LE, {32}, std::vector<std::int64_t>(32).data()); },
       kFile,
       {"weights/kv_norm", "dtype int64", "need float64"}},
      {"lengths_of_short_precision",
       csa,
       [](hid_t f) {
         const hid_t type = H5Tcopy(H5T_STD_I64LE);
         H5Tset_precision(type, 32);
         put_dataset(f, "packing/lengths", type, {1}, std::vector<std::int64_t>{41}.data());
         H5Tclose(type);
       },
       kFile,
       {"packing/lengths", "dtype int64 of a bit layout of its own, need int64"}},
      {"weight_compound",
       csa,
       [](hid_t f) {
         const hid_t type = H5Tcreate(H5T_COMPOUND, 8);
         H5Tinsert(type, "value", 0, H5T_NATIVE_DOUBLE);
         put_dataset(f, "weights/kv_norm", type, {32}, zeros(32).data());
         H5Tclose(type);
       },
       kFile,
       {"weights/kv_norm", "dtype a compound"}},
      {"weight_null",
       csa,
       [](hid_t f) {
         delete_link(f, "weights/kv_norm");
         const hid_t space = H5Screate(H5S_NULL);
         H5Dclose(H5Dcreate2(f, "weights/kv_norm", H5T_IEEE_F64LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
         H5Sclose(space);
       },
       kFile,
       {"weights/kv_norm", "null dataspace"}},
      {"topk_float",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/topk", {41, 6});
       },
       kFile,
       {"forward/topk", "dtype float64", "need int64"}},
      {"topk_too_wide",
       csa,
       [](hid_t f) {
         put_dataset(f, "forward/topk", H5T_STD_I64LE, {41, 7}, std::vector<std::int64_t>(41 * 7, -1).data());
       },
       kFile,
       {"forward/topk", "[41, 7]", "need [41, 6]"}},
      {"scores_too_wide",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/index_scores", {41, 11});
       },
       kFile,
       {"forward/index_scores", "need [41, 10]"}},
      {"loss_not_scalar",
       csa,
       [](hid_t f) { put_zeros(f, "forward/indexer_loss", {1}); },
       kFile,
       {"forward/indexer_loss", "[1]", "need []"}},
      {"max_logits_scalar",
       csa,
       [](hid_t f) { put_zeros(f, "forward/max_logits", {}); },
       kFile,
       {"forward/max_logits", "[]", "need [4]"}},
      {"swa_scores_not_empty",
       "swa_window",
       [](hid_t f) {
         put_zeros(f, "forward/index_scores", {20, 1});
       },
       kFile,
       {"forward/index_scores", "need [20, 0]"}},
      {"gradient_too_long",
       csa,
       [](hid_t f) { put_zeros(f, "grad/weights/attn_sink", {5}); },
       kFile,
       {"grad/weights/attn_sink", "[5]", "need [4]"}},
      {"stage_of_other_rank",
       csa,
       [](hid_t f) {
         put_zeros(f, "forward/q", {41, 128});
       },
       kFile,
       {"forward/q", "[41, 128]", "need [41, 4, 32]"}},
      {"shape_absurd",
       csa,
       [=](hid_t f) {
         unwritten(f, "inputs/hidden", {hsize_t{1} << 40, 48}, {1024, 48});
       },
       kFile,
       {"inputs/hidden", "holds no more than 0"}},
      {"shape_overflows",
       csa,
       [=](hid_t f) {
         unwritten(f, "inputs/hidden", {hsize_t{1} << 40, hsize_t{1} << 40}, {16, 16});
       },
       kFile,
       {"inputs/hidden", "64 bits"}},
      {"shape_absurd_times_zero",
       csa,
       [=](hid_t f) {
         unwritten(f, "inputs/hidden", {0, hsize_t{1} << 40, hsize_t{1} << 40}, {16, 16, 16},
                   {16, H5S_UNLIMITED, H5S_UNLIMITED});
       },
       kFile,
       {"inputs/hidden", "64 bits"}},
      {"packing_absurd",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         const hsize_t chunk = 1 << 20;
         H5Pset_chunk(creation, 1, &chunk);
         H5Pset_deflate(creation, 9);
         put_dataset(f, "packing/row_valid", H5T_STD_U8LE, {hsize_t{1} << 45}, nullptr, creation);
         H5Pclose(creation);
       },
       kFile,
       {"packing/row_valid", "holds no more than 0"}},
      {"never_written",
       csa,
       [=](hid_t f) {
         unwritten(f, "inputs/hidden", {41, 48}, {});
       },
       kFile,
       {"inputs/hidden", "holds no more than 0"}},
      {"partly_written",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         const hsize_t chunk[] = {8, 48}, count[] = {8, 48}, start[] = {0, 0};
         H5Pset_chunk(creation, 2, chunk);
         H5Pset_deflate(creation, 4);
         put_dataset(f, "inputs/hidden", H5T_IEEE_F64LE, {41, 48}, nullptr, creation);
         H5Pclose(creation);
         const hid_t dataset = H5Dopen2(f, "inputs/hidden", H5P_DEFAULT);
         const hid_t space = H5Dget_space(dataset), memory = H5Screate_simple(2, count, nullptr);
         H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr);
         H5Dwrite(dataset, H5T_NATIVE_DOUBLE, memory, space, H5P_DEFAULT, zeros(8 * 48).data());
         H5Sclose(memory);
         H5Sclose(space);
         H5Dclose(dataset);
       },
       kFile,
       {"inputs/hidden", "only 1 of its 6 chunks"}},
      {"giant_chunk",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         const std::vector<hsize_t> chunk{1 << 20, 48}, most{H5S_UNLIMITED, 48};
         H5Pset_chunk(creation, 2, chunk.data());
         H5Pset_deflate(creation, 1);
         put_dataset(f, "inputs/hidden", H5T_IEEE_F64LE, {41, 48}, zeros(41 * 48).data(), creation, most);
         H5Pclose(creation);
       },
       kFile,
       {"inputs/hidden", "chunks larger"}},
      {"unknown_filter",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         const hsize_t chunk[] = {41, 48};
         H5Pset_chunk(creation, 2, chunk);
         H5Pset_scaleoffset(creation, H5Z_SO_FLOAT_DSCALE, 2);
         put_dataset(f, "inputs/hidden", H5T_IEEE_F64LE, {41, 48}, zeros(41 * 48).data(), creation);
         H5Pclose(creation);
       },
       kFile,
       {"inputs/hidden", "filter 6", "allowed: shuffle"}},
      {"gzip_twice",
       csa,
       [](hid_t f) {
         const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
         const hsize_t chunk[] = {41, 48};
         H5Pset_chunk(creation, 2, chunk);
         H5Pset_deflate(creation, 9);
         H5Pset_deflate(creation, 9);
         put_dataset(f, "inputs/hidden", H5T_IEEE_F64LE, {41, 48}, zeros(41 * 48).data(), creation);
         H5Pclose(creation);
       },
       kFile,
       {"inputs/hidden", "twice"}},
  };
}

std::vector<Hostile> values() {
  const std::string csa = "csa_row_mask_nan", ties = "csa_ties";
  return {
      {"nan_in_hidden",
       ties,
       [](hid_t f) { poke(f, "inputs/hidden", 40 * 48 + 47, kNan); },
       kNonFinite,
       {"inputs/hidden", "NaN", "row 40, channel 47"}},
      {"inf_in_hidden",
       ties,
       [](hid_t f) { poke(f, "inputs/hidden", 0, kInf); },
       kNonFinite,
       {"inputs/hidden", "Inf", "row 0, channel 0"}},
      {"nan_in_hidden_of_masked_row",
       csa,
       [](hid_t f) { poke(f, "inputs/hidden", 1 * 48 + 3, kNan); },
       kNonFinite,
       {"inputs/hidden", "row 1, channel 3"}},
      {"nan_in_grad_out",
       csa,
       [](hid_t f) { poke(f, "inputs/grad_out", 48 * 48, kNan); },
       kNonFinite,
       {"inputs/grad_out", "row 48, channel 0"}},
      {"inf_in_grad_out",
       csa,
       [](hid_t f) { poke(f, "inputs/grad_out", 0, -kInf); },
       kNonFinite,
       {"inputs/grad_out", "-Inf"}},
      {"nan_in_weight",
       csa,
       [](hid_t f) { poke(f, "weights/compressor.ape", 5, kNan); },
       kNonFinite,
       {"weights/compressor.ape", "NaN", "element 5"}},
      {"inf_in_weight",
       csa,
       [](hid_t f) { poke(f, "weights/wo_b", 7, kInf); },
       kNonFinite,
       {"weights/wo_b", "Inf", "element 7"}},
      {"nan_in_sink",
       csa,
       [](hid_t f) { poke(f, "weights/attn_sink", 2, kNan); },
       kNonFinite,
       {"weights/attn_sink", "NaN"}},
      {"nan_in_stage",
       csa,
       [](hid_t f) { poke(f, "forward/out", 3, kNan); },
       kNonFinite,
       {"forward/out", "NaN", "row 0, element 3"}},
      {"inf_in_stage",
       csa,
       [](hid_t f) { poke(f, "forward/kv", 32 + 3, kInf); },
       kNonFinite,
       {"forward/kv", "Inf", "row 1, element 3"}},
      {"nan_in_gradient",
       csa,
       [](hid_t f) { poke(f, "grad/weights/wq_b", 24, kNan); },
       kNonFinite,
       {"grad/weights/wq_b", "row 1, element 0"}},
      {"nan_in_gradient_of_padding",
       csa,
       [](hid_t f) { poke(f, "grad/inputs/hidden", 55 * 48, kNan); },
       kNonFinite,
       {"grad/inputs/hidden", "row 55"}},
      {"nan_in_loss",
       csa,
       [](hid_t f) { poke(f, "forward/indexer_loss", 0, kNan); },
       kNonFinite,
       {"forward/indexer_loss", "NaN"}},
      {"score_nan",
       csa,
       [](hid_t f) { poke(f, "forward/index_scores", 8 * 6, kNan); },
       kNonFinite,
       {"forward/index_scores", "row 8"}},
      {"selection_out_of_range",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "forward/topk", 20 * 6 + 5, 6); },
       kFile,
       {"forward/topk", "row 20 selects entry 6"}},
      {"selection_not_visible",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "forward/topk", 3 * 6 + 1, 1); },
       kFile,
       {"forward/topk", "row 3 selects entry 1"}},
      {"selection_negative",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "forward/topk", 3 * 6 + 1, -2); },
       kFile,
       {"forward/topk", "row 3 selects entry -2"}},
      {"selection_twice",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "forward/topk", 8 * 6, 0); },
       kFile,
       {"forward/topk", "entry 0 twice"}},
      {"selection_on_masked_row",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "forward/topk", 18 * 6, 0); },
       kFile,
       {"forward/topk", "row 18"}},
      {"selection_huge",
       csa,
       [](hid_t f) { poke<std::int64_t>(f, "forward/topk", 8 * 6, INT64_MAX); },
       kFile,
       {"forward/topk", "row 8 selects"}},
  };
}

std::string name_of(const ::testing::TestParamInfo<Hostile>& item) { return item.param.name; }

INSTANTIATE_TEST_SUITE_P(RootAndConfig, HostileFile, ::testing::ValuesIn(root_and_config()), name_of);
INSTANTIATE_TEST_SUITE_P(Packing, HostileFile, ::testing::ValuesIn(packing()), name_of);
INSTANTIATE_TEST_SUITE_P(Names, HostileFile, ::testing::ValuesIn(names()), name_of);
INSTANTIATE_TEST_SUITE_P(Links, HostileFile, ::testing::ValuesIn(links()), name_of);
INSTANTIATE_TEST_SUITE_P(ShapesAndTypes, HostileFile, ::testing::ValuesIn(shapes_and_types()), name_of);
INSTANTIATE_TEST_SUITE_P(Values, HostileFile, ::testing::ValuesIn(values()), name_of);

TEST(HostilePath, EachHasItsOwnLine) {
  const TemporaryFolder folder;
  const auto refusal = [](const std::string& path) {
    ::testing::internal::CaptureStderr();
    const auto golden = read(path);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
    EXPECT_FALSE(golden.ok());
    EXPECT_EQ(golden.error().code, ErrorCode::kFile);
    const auto child = read_guarded(path);
    EXPECT_EQ(child.error().text(), golden.error().text());
    return golden.error().text();
  };
  EXPECT_EQ(refusal(folder.file("absent.h5")), folder.file("absent.h5") + ": no such file");
  EXPECT_EQ(refusal(folder.path()), folder.path() + ": is a folder, need a golden file");
  EXPECT_EQ(refusal("/dev/null"), "/dev/null: is not a regular file");
  write_bytes(folder.file("empty.h5"), "");
  EXPECT_EQ(refusal(folder.file("empty.h5")), folder.file("empty.h5") + ": is empty, need a golden file");
  std::string noise(5000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * i * 31 + i * 7);
  write_bytes(folder.file("noise.h5"), noise);
  EXPECT_EQ(refusal(folder.file("noise.h5")), folder.file("noise.h5") + ": is not an HDF5 file");
  const std::string other = folder.file("other.h5");
  H5Fclose(H5Fcreate(other.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_EQ(refusal(other), other + ": root attribute 'format': missing");
  EXPECT_NE(refusal(folder.file("noise.h5") + "/x").find("cannot be opened"), std::string::npos);
}

TEST(HostilePath, AFileThatNeedsTooMuchMemoryIsRefusedBeforeItIsRead) {
  for (const auto& golden : {read(oracle("csa_ties"), 1e5), read_guarded(oracle("csa_ties"), 1e5)}) {
    ASSERT_FALSE(golden.ok());
    EXPECT_EQ(golden.error().code, ErrorCode::kMemory);
    EXPECT_NE(golden.error().text().find("memory"), std::string::npos);
  }
}

// Real data that expands 1000-fold: within what deflate can do, so only the limit of memory stops it.
TEST(HostilePath, ADecompressionBombMeetsTheMemoryLimit) {
  const TemporaryFolder folder;
  const std::string path = edited(folder, "swa_window", [](hid_t file) {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t rows = 1 << 25, chunk = 1 << 20;
    H5Pset_chunk(creation, 1, &chunk);
    H5Pset_deflate(creation, 9);
    put_dataset(file, "packing/row_valid", H5T_STD_U8LE, {rows}, std::vector<std::uint8_t>(rows).data(), creation);
    H5Pclose(creation);
  });
  EXPECT_LT(std::filesystem::file_size(path), 1u << 20);
  const auto golden = read_guarded(path, 16e6);
  ASSERT_FALSE(golden.ok());
  EXPECT_EQ(golden.error().code, ErrorCode::kMemory) << golden.error().text();
}

herr_t count_errors(hid_t, void* count) {
  ++*static_cast<int*>(count);
  return 0;
}

TEST(HostilePath, TheLibrarysErrorPrinterIsLeftAsItWas) {
  H5E_auto2_t before = nullptr, after = nullptr;
  void *before_data = nullptr, *after_data = nullptr;
  int count = 0;
  H5Eget_auto2(H5E_DEFAULT, &before, &before_data);
  H5Eset_auto2(H5E_DEFAULT, count_errors, &count);
  const TemporaryFolder folder;
  write_bytes(folder.file("noise.h5"), "noise");
  EXPECT_FALSE(read(folder.file("noise.h5")).ok());
  H5Eget_auto2(H5E_DEFAULT, &after, &after_data);
  H5Eset_auto2(H5E_DEFAULT, before, before_data);
  EXPECT_EQ(after, count_errors);
  EXPECT_EQ(after_data, &count);
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace plumbline::golden::test
