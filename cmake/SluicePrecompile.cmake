# sluice_precompile(<target> library|test): the headers of the standard library, fmt and, for tests,
# GoogleTest are read once per build and not once per file. They are half of what compiling a file
# costs, and none of them is ours, so no edit makes them stale.
#
# One target of each kind is compiled and the others reuse its result. A target with flags that the
# compiler cannot match (OpenMP) asks for one of its own: sluice_precompile(<target> own).
# Files still include what they use: the check of headers and clang-tidy run without these.

option(SLUICE_PRECOMPILE "Precompile the headers of other libraries" ON)

# Without <filesystem>: it brings <iomanip> along, whose std::quoted is found for every std::string.
set(_sluice_common_headers
  <algorithm> <array> <bit> <chrono> <cmath> <cstddef> <cstdint> <cstring> <deque> <functional>
  <limits> <map> <memory> <numeric> <optional> <ranges> <set> <span> <string> <string_view>
  <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/core.h>)

function(sluice_precompile target kind)
  if(NOT SLUICE_PRECOMPILE)
    return()
  endif()
  if(kind STREQUAL "own")
    target_precompile_headers(${target} PRIVATE ${_sluice_common_headers})
    return()
  endif()
  set(shared sluice_precompiled_${kind})
  if(NOT TARGET ${shared})
    set(empty "${CMAKE_BINARY_DIR}/${shared}.cpp")  # CMake takes the language from a file
    file(CONFIGURE OUTPUT "${empty}" CONTENT "")
    add_library(${shared} OBJECT EXCLUDE_FROM_ALL "${empty}")
    target_link_libraries(${shared} PRIVATE fmt::fmt sluice_options)
    set_target_properties(${shared} PROPERTIES CXX_EXTENSIONS OFF)
    if(kind STREQUAL "library")
      set_target_properties(${shared} PROPERTIES POSITION_INDEPENDENT_CODE ON)
      target_precompile_headers(${shared} PRIVATE ${_sluice_common_headers})
    else()
      target_link_libraries(${shared} PRIVATE GTest::gmock GTest::gtest sluice_test_options)
      target_precompile_headers(${shared} PRIVATE
        ${_sluice_common_headers} <gmock/gmock.h> <gtest/gtest.h>)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
endfunction()
