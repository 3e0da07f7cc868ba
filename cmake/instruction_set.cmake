# PLUMBLINE_ARCH: -march of the CPU code. By default x86-64-v3 (AVX2 and FMA) where this machine runs it, else the
# compiler's own default. Eigen's dgemm is faster with it than with AVX-512 on the machines measured so far.
include(CheckCXXSourceRuns)

if(NOT DEFINED PLUMBLINE_ARCH)
  set(default_arch "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    check_cxx_source_runs("
      int main() { return __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") ? 0 : 1; }"
      PLUMBLINE_HAS_AVX2)
    if(PLUMBLINE_HAS_AVX2)
      set(default_arch "x86-64-v3")
    endif()
  endif()
  set(PLUMBLINE_ARCH "${default_arch}" CACHE STRING "-march of the CPU code; empty: the compiler's default")
endif()
