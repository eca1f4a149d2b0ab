# sluice_precompile(<target> library|graph_library|test|model_test|program): headers that all files of
# a kind include are read once per build and not once per file. The standard library, fmt and, for
# tests, GoogleTest are half of what compiling a file costs. Modules that see graphs have their header,
# too, and tests and programs that make models the headers it takes to make one: those are as much
# again, and who uses them is compiled anew when they change anyway.
#
# One target of each kind is compiled and the others reuse its result.
# Files still include what they use: the check of headers and clang-tidy run without these.

option(SLUICE_PRECOMPILE "Precompile headers" ON)

# Without <filesystem>: it brings <iomanip> along, whose std::quoted is found for every std::string.
set(_sluice_common_headers
  <algorithm> <array> <bit> <chrono> <cmath> <cstddef> <cstdint> <cstring> <deque> <functional>
  <limits> <map> <memory> <numeric> <optional> <ranges> <set> <span> <string> <string_view>
  <unordered_map> <unordered_set> <utility> <variant> <vector> <fmt/core.h>)
set(_sluice_test_headers <gmock/gmock.h> <gtest/gtest.h>)
set(_sluice_graph_headers
  "${PROJECT_SOURCE_DIR}/sluice/base/error.h" "${PROJECT_SOURCE_DIR}/sluice/ir/graph.h"
  "${PROJECT_SOURCE_DIR}/sluice/tensor/host_tensor.h")
set(_sluice_model_headers
  "${PROJECT_SOURCE_DIR}/sluice/api/model.h" "${PROJECT_SOURCE_DIR}/sluice/nn/modules.h"
  "${PROJECT_SOURCE_DIR}/sluice/optim/adam.h")

function(sluice_precompile target kind)
  if(NOT SLUICE_PRECOMPILE)
    return()
  endif()
  set(shared sluice_precompiled_${kind})
  if(NOT TARGET ${shared})
    set(empty "${CMAKE_BINARY_DIR}/${shared}.cpp")  # CMake takes the language from a file
    file(CONFIGURE OUTPUT "${empty}" CONTENT "")
    add_library(${shared} OBJECT EXCLUDE_FROM_ALL "${empty}")
    target_link_libraries(${shared} PRIVATE fmt::fmt sluice_options)
    set_target_properties(${shared} PROPERTIES CXX_EXTENSIONS OFF)
    set(headers ${_sluice_common_headers})
    if(kind MATCHES "library")
      set_target_properties(${shared} PROPERTIES
        POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden)
    endif()
    if(kind STREQUAL "graph_library")
      target_include_directories(${shared} PRIVATE "${PROJECT_SOURCE_DIR}")
      list(APPEND headers ${_sluice_graph_headers})
    endif()
    if(kind MATCHES "test")
      target_link_libraries(${shared} PRIVATE GTest::gmock GTest::gtest sluice_test_options)
      list(APPEND headers ${_sluice_test_headers})
    endif()
    if(kind MATCHES "model|program")
      target_include_directories(${shared} PRIVATE "${PROJECT_SOURCE_DIR}")
      list(APPEND headers ${_sluice_model_headers})
    endif()
    target_precompile_headers(${shared} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${shared})
endfunction()
