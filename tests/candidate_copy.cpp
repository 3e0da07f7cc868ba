#include <cstdio>

#include "golden/candidate_file.hpp"

/// Reads a candidate file for the problem of a golden file and writes it anew: for files that h5py wrote.
int main(int argc, char** argv) {
  using namespace plumbline;
  if (argc != 4) {
    std::fprintf(stderr, "usage: candidate_copy GOLDEN FROM TO\n");
    return 2;
  }
  const auto fail = [](const contract::Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return contract::exit_code(error.code);
  };
  const auto golden = golden::read(argv[1]);
  if (!golden) return fail(golden.error());
  const auto candidate = golden::read_candidate_guarded(argv[2], golden->problem);
  if (!candidate) return fail(candidate.error());
  const auto written = golden::write_candidate(argv[3], *candidate);
  return written ? 0 : fail(written.error());
}
