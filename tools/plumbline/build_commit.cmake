cmake_minimum_required(VERSION 3.25)
# Writes OUTPUT, a header with the commit of the tree in SOURCE ("+" behind it: with changes), when it is not what it
# was: run at every build, since a commit needs no new configuration.
set(commit "unknown")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit "${found}")
    execute_process(COMMAND ${GIT} -C ${SOURCE} diff --quiet HEAD RESULT_VARIABLE changed ERROR_QUIET)
    if(changed)
      string(APPEND commit "+")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#pragma once
namespace plumbline::tools {
inline constexpr const char* kBuildCommit = \"@commit@\";
}  // namespace plumbline::tools
" @ONLY)
