#include <cstdio>

#include "golden/golden_file.hpp"

/// Reads one golden file and writes it anew: what a reader that shares no code with us (h5py) is shown.
int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: golden_copy FROM TO\n");
    return 2;
  }
  const auto golden = plumbline::golden::read(argv[1]);
  if (!golden) {
    std::fprintf(stderr, "%s\n", golden.error().text().c_str());
    return plumbline::contract::exit_code(golden.error().code);
  }
  const auto written = plumbline::golden::write(argv[2], *golden);
  if (!written) {
    std::fprintf(stderr, "%s\n", written.error().text().c_str());
    return plumbline::contract::exit_code(written.error().code);
  }
  return 0;
}
