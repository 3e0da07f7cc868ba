# Third-party libraries as archives, so that the program needs nothing beyond the C library of the machine it is carried to.
set(HDF5_USE_STATIC_LIBRARIES ON)
set(OPENSSL_USE_STATIC_LIBS ON)
target_link_options(plumbline_options INTERFACE -static-libgcc -static-libstdc++)

# Sets variable to the path of the archive that the compiler would link.
function(find_archive variable name)
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${name} OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT IS_ABSOLUTE "${path}")
    message(FATAL_ERROR "PLUMBLINE_BUNDLE needs ${name}, which the compiler does not find")
  endif()
  set(${variable} "${path}" CACHE FILEPATH "Archive linked into the bundle" FORCE)
endfunction()

find_archive(OpenMP_gomp_LIBRARY libgomp.a)
# FindHDF5 names only the archive itself. Its network driver would need more, but nothing here refers to it.
find_archive(PLUMBLINE_LIBSZ libsz.a)
find_archive(PLUMBLINE_LIBAEC libaec.a)
find_archive(PLUMBLINE_LIBZ libz.a)
set(PLUMBLINE_HDF5_NEEDS ${PLUMBLINE_LIBSZ} ${PLUMBLINE_LIBAEC} ${PLUMBLINE_LIBZ} ${CMAKE_DL_LIBS} m)
