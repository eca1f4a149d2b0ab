# Everything Sluice takes from the system, found in one place and used by the
# build and by the installed package. `./dev deps` installs all of it.

# Stops with the Debian packages to install when a dependency was not found.
macro(_sluice_need found name packages)
  if(NOT ${found})
    message(FATAL_ERROR
      "Sluice needs ${name}, which was not found. Run `./dev deps` in the Sluice source tree, "
      "or install the Debian packages: ${packages}.")
  endif()
endmacro()

# A library that only pkg-config knows becomes the target <name>::<name>.
macro(_sluice_pkg name module packages)
  if(NOT TARGET ${name}::${name})
    pkg_check_modules(SLUICE_${name} QUIET IMPORTED_TARGET ${module})
    _sluice_need(SLUICE_${name}_FOUND ${name} "${packages}")
    add_library(${name}::${name} INTERFACE IMPORTED)
    target_link_libraries(${name}::${name} INTERFACE PkgConfig::SLUICE_${name})
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads QUIET)
_sluice_need(Threads_FOUND "a thread library" "build-essential")

find_package(fmt CONFIG QUIET)
_sluice_need(fmt_FOUND "fmt" "libfmt-dev")

# Sluice's headers need no more than this; its static libraries need the rest for linking.
if(SLUICE_SHARED_ONLY)
  return()
endif()

find_package(PkgConfig QUIET)
_sluice_need(PKG_CONFIG_FOUND "pkg-config" "pkg-config")

find_package(spdlog CONFIG QUIET)
_sluice_need(spdlog_FOUND "spdlog" "libspdlog-dev")

_sluice_pkg(zstd libzstd "libzstd-dev")

# dnnl's own config fails without OpenCL, although only its CPU engine is used.
find_package(dnnl CONFIG QUIET)
_sluice_need(dnnl_FOUND "oneDNN" "libdnnl-dev ocl-icd-opencl-dev opencl-headers")

# oneDNN runs on OpenMP; Sluice sets the number of its threads.
find_package(OpenMP QUIET COMPONENTS CXX)
_sluice_need(OpenMP_CXX_FOUND "OpenMP" "build-essential")

_sluice_pkg(hwy libhwy "libhwy-dev")

# ONNX's config names protobuf's target without looking for it.
find_package(Protobuf QUIET)
_sluice_need(Protobuf_FOUND "protobuf" "libprotobuf-dev protobuf-compiler")
find_package(ONNX CONFIG QUIET)
_sluice_need(ONNX_FOUND "ONNX" "libonnx-dev")

find_package(ZLIB QUIET)
_sluice_need(ZLIB_FOUND "zlib" "zlib1g-dev")

# The CUDA device is compiled with a toolkit's headers and its static runtime. Programs that use a GPU
# open the toolkit's other libraries by themselves; all others need no toolkit.
# Sanitizers do not see what a GPU does.
set(SLUICE_WITH_CUDA OFF)
if(SLUICE_CUDA AND NOT (SLUICE_CUDA STREQUAL "AUTO" AND (SLUICE_SANITIZE OR SLUICE_FUZZ)))
  find_package(CUDAToolkit 12.8 QUIET)
  if(CUDAToolkit_FOUND AND TARGET CUDA::cudart_static)
    set(SLUICE_WITH_CUDA ON)
  elseif(NOT SLUICE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "SLUICE_CUDA is ${SLUICE_CUDA}, and no CUDA toolkit from 12.8 on was found: "
      "set CUDAToolkit_ROOT to its folder.")
  endif()
endif()

# MPI is for programs of several processes; they open libsluice_mpi.so by themselves.
set(SLUICE_WITH_MPI OFF)
if(SLUICE_MPI AND NOT (SLUICE_MPI STREQUAL "AUTO" AND (SLUICE_SANITIZE OR SLUICE_FUZZ)))
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(SLUICE_WITH_MPI ON)
  elseif(NOT SLUICE_MPI STREQUAL "AUTO")
    message(FATAL_ERROR "SLUICE_MPI is ${SLUICE_MPI}, and no MPI was found. Run `./dev deps`, or "
      "install the Debian packages: libopenmpi-dev openmpi-bin.")
  endif()
endif()

# Only the source tree needs what follows; an installed package does not.
if(DEFINED Sluice_SOURCE_DIR)
  find_package(CLI11 CONFIG QUIET)
  _sluice_need(CLI11_FOUND "CLI11" "libcli11-dev")
  find_package(nlohmann_json CONFIG QUIET)  # headers only; no header of Sluice includes them
  _sluice_need(nlohmann_json_FOUND "nlohmann-json" "nlohmann-json3-dev")
  if(SLUICE_TESTS)
    find_package(GTest QUIET)
    _sluice_need(GTest_FOUND "GoogleTest" "libgtest-dev libgmock-dev")
  endif()
endif()
