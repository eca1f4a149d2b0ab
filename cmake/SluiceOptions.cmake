# Compiler, linker and cache settings. Everything reaches targets through the
# interface target `sluice_options`; no directory-wide flags.

add_library(sluice_options INTERFACE)
target_compile_features(sluice_options INTERFACE cxx_std_20)
target_compile_options(sluice_options INTERFACE
  -ffp-contract=off  # results must not depend on whether a compiler fuses a*b+c
  -fno-semantic-interposition  # position-independent code calls and inlines its own functions directly
  -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  $<$<BOOL:${SLUICE_WERROR}>:-Werror>)

# g++ walks through all of its heap, precompiled headers included, whenever that has doubled. What it
# frees is not worth a tenth to a quarter of a file's time.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sluice_options INTERFACE
    "SHELL:--param ggc-min-heapsize=2000000" "SHELL:--param ggc-min-expand=1000")
endif()

# What tests and programs have besides the library runs once. Optimising it less saves a quarter of
# the time to compile it.
add_library(sluice_once_options INTERFACE)
target_compile_options(sluice_once_options INTERFACE $<$<NOT:$<CONFIG:Debug>>:-Og>)

add_library(sluice_test_options INTERFACE)
target_link_libraries(sluice_test_options INTERFACE sluice_once_options)
# Without it g++ 12 sees ends of strings that it has not followed to their beginning.
target_compile_options(sluice_test_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)

# No build path may end up in a binary. The second map is for ccache, which
# rewrites paths below its base directory to relative ones.
file(RELATIVE_PATH _sluice_up "${CMAKE_BINARY_DIR}" "${PROJECT_SOURCE_DIR}")
target_compile_options(sluice_options INTERFACE
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/="
  "-ffile-prefix-map=${_sluice_up}=")

if(SLUICE_SANITIZE STREQUAL "address")
  set(_sluice_sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(SLUICE_SANITIZE STREQUAL "thread")
  set(_sluice_sanitize -fsanitize=thread)
elseif(NOT SLUICE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "SLUICE_SANITIZE must be empty, address or thread, not '${SLUICE_SANITIZE}'")
endif()
if(_sluice_sanitize)
  target_compile_options(sluice_options INTERFACE ${_sluice_sanitize} -fno-omit-frame-pointer)
  target_link_options(sluice_options INTERFACE ${_sluice_sanitize})
endif()

if(SLUICE_FUZZ)  # the library counts its branches for the fuzzer, which sluice_fuzz() links
  target_compile_options(sluice_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

find_program(SLUICE_MOLD mold)
if(SLUICE_MOLD)
  target_link_options(sluice_options INTERFACE -fuse-ld=mold)
endif()

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/cmake/compile_cached.sh" "${SLUICE_CCACHE}")
endif()
