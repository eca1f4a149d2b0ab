# How modules, programs and tests of Sluice are declared.
#
#   sluice_module(NAME ir
#     SOURCES graph.cpp               # explicit lists, no globbing
#     HEADERS graph.h                 # what sluice.h includes: installed under their path
#     PRIVATE_HEADERS users.h         # of the library alone
#     DEPS base tensor                # Sluice modules, public
#     LINK fmt::fmt                   # third party, private
#     PUBLIC_LINK spdlog::spdlog      # third party seen in the headers
#     TESTS graph_test.cpp            # become the program ir_test
#     TEST_DEPS test_support          # further modules or targets of the tests
#     TEST_LABELS threads             # labels besides `fast`
#     NO_TEST_MAIN                    # the tests bring their own main()
#     ALONE kernel.cpp                # further sources, each compiled by itself
#     RUNS_ONCE)                      # at most once per model or call: optimised less
#
#   sluice_program(NAME mlp SOURCES mlp.cpp DEPS sluice [LINK ...] [INSTALL] [TOOL])
#     TOOL: only tests and scripts run it; it is in <build>/tools, not among the programs
#   sluice_test(NAME e2e_test SOURCES ... DEPS ... [LINK ...] [LABELS fast] [NO_MAIN])
#   sluice_fuzz(NAME fuzz_parser SOURCES parser.cpp DEPS ir [LINK ...])
#
# Module devices/cpu has the name devices_cpu. The library of a module `x` is
# sluice_x, for others Sluice::x; includes are written "sluice/ir/graph.h".

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(GoogleTest)

# Turns module names into targets; another name that is already a target stays. A module may come
# later (for the tests of a lower one); one that never comes is an error when CMake generates.
function(_sluice_targets out)
  set(targets "")
  foreach(name IN LISTS ARGN)
    if(TARGET ${name} AND NOT TARGET Sluice::${name})
      list(APPEND targets ${name})
    else()
      list(APPEND targets Sluice::${name})
    endif()
  endforeach()
  set(${out} "${targets}" PARENT_SCOPE)
endfunction()

# sluice_join(<variable> <target> <files>): replaces files by a few that are made of up to SLUICE_JOIN each.
# Whatever one file includes and instantiates, the next one needs as well: together they take less than half
# the time, but one of them keeps only one core busy. Files may share names in anonymous namespaces, because
# the script tells them apart.
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
if(cores GREATER 4)
  set(SLUICE_JOIN 8 CACHE STRING "Files that are compiled as one")
else()
  set(SLUICE_JOIN 32 CACHE STRING "Files that are compiled as one")
endif()
function(sluice_join out target)
  list(LENGTH ARGN count)
  if(NOT SLUICE_UNITY OR count LESS 2)
    set(${out} "${ARGN}" PARENT_SCOPE)
    return()
  endif()
  set(script "${PROJECT_SOURCE_DIR}/scripts/join_sources.py")
  set(sources "")
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    list(APPEND sources "${source}")
  endforeach()
  math(EXPR parts "(${count} + ${SLUICE_JOIN} - 1) / ${SLUICE_JOIN}")
  math(EXPR size "(${count} + ${parts} - 1) / ${parts}")
  set(joined "")
  while(sources)
    list(SUBLIST sources 0 ${size} part)
    list(REMOVE_ITEM sources ${part})
    list(LENGTH joined number)
    set(file "${CMAKE_CURRENT_BINARY_DIR}/joined/${target}_${number}.cpp")
    set(names "")
    foreach(source IN LISTS part)
      file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${source}")
      list(APPEND names "${name}")
    endforeach()
    add_custom_command(OUTPUT "${file}"
      COMMAND /usr/bin/python3 "${script}" "${file}" ${names}
      DEPENDS ${part} "${script}"
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
      COMMENT "Joining ${target}_${number}.cpp" VERBATIM)
    list(APPEND joined "${file}")
  endwhile()
  file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/joined")
  set(${out} "${joined}" PARENT_SCOPE)
endfunction()

# Target `single_headers` compiles every header of the modules by itself.
function(_sluice_single_headers target)
  set(files "")
  foreach(header IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH header NORMALIZE)
    file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}" "${header}")
    set(file "${CMAKE_BINARY_DIR}/single_headers/${name}.cpp")
    file(CONFIGURE OUTPUT "${file}" CONTENT "#include \"${name}\"\n")
    list(APPEND files "${file}")
  endforeach()
  if(NOT files)
    return()
  endif()
  add_library(${target}_single_headers OBJECT EXCLUDE_FROM_ALL ${files})
  target_link_libraries(${target}_single_headers PRIVATE ${target} sluice_options)
  # A private header may include what the module keeps to itself.
  target_include_directories(${target}_single_headers PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  set_target_properties(${target}_single_headers PROPERTIES CXX_EXTENSIONS OFF)
  if(NOT TARGET single_headers)
    add_custom_target(single_headers)
  endif()
  add_dependencies(single_headers ${target}_single_headers)
endfunction()

function(sluice_module)
  cmake_parse_arguments(PARSE_ARGV 0 M "NO_TEST_MAIN;RUNS_ONCE" "NAME"
    "SOURCES;ALONE;HEADERS;PRIVATE_HEADERS;DEPS;LINK;PUBLIC_LINK;TESTS;TEST_DEPS;TEST_LABELS")
  _sluice_check_arguments("${M_UNPARSED_ARGUMENTS}" "${M_NAME}")
  set(target sluice_${M_NAME})
  _sluice_targets(deps ${M_DEPS})

  sluice_join(M_SOURCES ${target} ${M_SOURCES})
  add_library(${target} STATIC ${M_SOURCES} ${M_ALONE})
  add_library(Sluice::${M_NAME} ALIAS ${target})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${M_NAME}
    LINKER_LANGUAGE CXX  # also for a module of headers only
    POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden  # what is public says so itself, in its header
    CXX_EXTENSIONS OFF)
  target_sources(${target}
    PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${M_HEADERS})
  target_include_directories(${target} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>")
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target}
    PUBLIC ${deps} ${M_PUBLIC_LINK}
    PRIVATE ${M_LINK} $<BUILD_INTERFACE:sluice_options>)

  if(M_RUNS_ONCE)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:sluice_once_options>)
  endif()

  if("ir" IN_LIST M_DEPS)
    sluice_precompile(${target} graph_library)
  else()
    sluice_precompile(${target} library)
  endif()

  _sluice_single_headers(${target} ${M_HEADERS} ${M_PRIVATE_HEADERS})
  set_property(GLOBAL APPEND PROPERTY SLUICE_MODULES ${M_NAME})
  set_property(GLOBAL APPEND PROPERTY SLUICE_LINK ${M_LINK})
  set_property(GLOBAL APPEND PROPERTY SLUICE_PUBLIC_LINK ${M_PUBLIC_LINK})
  install(TARGETS ${target} EXPORT SluiceTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT static  # not in packages: SluicePackage
    FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

  if(M_TESTS)
    set(flags "")
    if(M_NO_TEST_MAIN)
      list(APPEND flags NO_MAIN)
    endif()
    sluice_test(NAME ${M_NAME}_test SOURCES ${M_TESTS} DEPS ${M_NAME} ${M_TEST_DEPS}
      LINK ${M_LINK} LABELS fast ${M_TEST_LABELS} ${flags})
  endif()
endfunction()

function(sluice_program)
  cmake_parse_arguments(PARSE_ARGV 0 P "INSTALL;TEST;TOOL" "NAME" "SOURCES;DEPS;LINK")
  _sluice_check_arguments("${P_UNPARSED_ARGUMENTS}" "${P_NAME}")
  _sluice_targets(deps ${P_DEPS})
  sluice_join(P_SOURCES ${P_NAME} ${P_SOURCES})
  add_executable(${P_NAME} ${P_SOURCES})
  set_target_properties(${P_NAME} PROPERTIES CXX_EXTENSIONS OFF)
  target_link_libraries(${P_NAME} PRIVATE ${deps} ${P_LINK} sluice_options)
  if(NOT P_NAME MATCHES "^bench_")  # which time loops of their own
    target_link_libraries(${P_NAME} PRIVATE sluice_once_options)
  endif()
  if(NOT P_TEST AND deps MATCHES "Sluice::(api|sluice)(;|$)")
    sluice_precompile(${P_NAME} program)
  endif()
  if(P_TOOL)
    set_target_properties(${P_NAME} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tools")
  endif()
  if(P_INSTALL)
    install(TARGETS ${P_NAME} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  endif()
endfunction()

# Every test of the program is a process.
function(_sluice_single_tests name labels)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    PROPERTIES TIMEOUT 600)
  # gtest_discover_tests keeps only the first of several labels, so they are set
  # by a file that ctest reads after the list of tests.
  set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${file}" "if(${name}_TESTS)
  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${labels}\")
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${file}")
endfunction()

# A few processes share the tests of the program.
function(_sluice_sharded_tests name labels)
  math(EXPR last "${SLUICE_TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_tests_properties(${name}.${shard} PROPERTIES LABELS "${labels}" TIMEOUT 1800
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${SLUICE_TEST_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# One process: a GPU takes longer to get ready than most tests take. Where there is none, the program
# says why in a line and returns 77 (tests/cuda/main.cpp).
function(_sluice_gpu_test name labels)
  add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 1800 SKIP_RETURN_CODE 77)
endfunction()

function(sluice_test)
  if(NOT SLUICE_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 0 T "NO_MAIN" "NAME" "SOURCES;DEPS;LINK;LABELS")
  _sluice_check_arguments("${T_UNPARSED_ARGUMENTS}" "${T_NAME}")
  set(gtest GTest::gmock GTest::gtest)
  if(NOT T_NO_MAIN)
    set(gtest GTest::gmock GTest::gtest_main)
  endif()
  sluice_program(NAME ${T_NAME} SOURCES ${T_SOURCES} DEPS ${T_DEPS}
    LINK ${T_LINK} ${gtest} sluice_test_options TEST)
  if(T_DEPS MATCHES "(^|;)(api|popart|tensorflow|sluice|sluice_shared)(;|$)")
    sluice_precompile(${T_NAME} model_test)
  else()
    sluice_precompile(${T_NAME} test)
  endif()
  # Tests stay out of the folder of the programs.
  set_target_properties(${T_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(NOT T_LABELS)
    set(T_LABELS fast)
  endif()
  # tests_threads builds what `ctest -L threads` runs, and all_tests everything; without being asked for,
  # only programs with fast tests are built.
  set(groups ${T_LABELS})
  list(TRANSFORM groups PREPEND tests_)
  foreach(group IN LISTS groups ITEMS all_tests)
    if(NOT TARGET ${group})
      add_custom_target(${group})
    endif()
    add_dependencies(${group} ${T_NAME})
  endforeach()
  if(NOT "fast" IN_LIST T_LABELS)
    set_target_properties(${T_NAME} PROPERTIES EXCLUDE_FROM_ALL TRUE)
  endif()
  if("cuda" IN_LIST T_LABELS)
    _sluice_gpu_test(${T_NAME} "${T_LABELS}")
  elseif(SLUICE_TEST_SHARDS)
    _sluice_sharded_tests(${T_NAME} "${T_LABELS}")
  else()
    _sluice_single_tests(${T_NAME} "${T_LABELS}")
  endif()
endfunction()

# A libFuzzer program; its name starts with fuzz_ so that `./dev fuzz` finds it. The target
# `fuzzers` builds them all.
function(sluice_fuzz)
  sluice_program(${ARGV})
  cmake_parse_arguments(PARSE_ARGV 0 F "" "NAME" "")
  target_link_options(${F_NAME} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${F_NAME})
endfunction()

# Runs scripts/<name>.py as a fast test with Debian's own interpreter.
function(sluice_script_test name)
  string(JOIN "" test "script.${name}" ${ARGN})
  add_test(NAME "${test}"
    COMMAND /usr/bin/python3 "${PROJECT_SOURCE_DIR}/scripts/${name}.py" ${ARGN}
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  set_tests_properties("${test}" PROPERTIES LABELS fast TIMEOUT 60)
endfunction()

# Sluice::sluice stands for all modules together.
function(sluice_umbrella)
  get_property(modules GLOBAL PROPERTY SLUICE_MODULES)
  _sluice_targets(targets ${modules})
  add_library(sluice_all INTERFACE)
  add_library(Sluice::sluice ALIAS sluice_all)
  set_target_properties(sluice_all PROPERTIES EXPORT_NAME sluice)
  target_link_libraries(sluice_all INTERFACE ${targets})
  install(TARGETS sluice_all EXPORT SluiceTargets)
endfunction()

# The package for find_package(Sluice).
function(sluice_install_package)
  set(dir "${CMAKE_INSTALL_LIBDIR}/cmake/Sluice")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/SluiceConfig.cmake.in"
    "${CMAKE_BINARY_DIR}/SluiceConfig.cmake" INSTALL_DESTINATION "${dir}")
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/SluiceConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
  install(EXPORT SluiceTargets NAMESPACE Sluice:: DESTINATION "${dir}" COMPONENT static)
  install(FILES
    "${CMAKE_BINARY_DIR}/SluiceConfig.cmake"
    "${CMAKE_BINARY_DIR}/SluiceConfigVersion.cmake"
    DESTINATION "${dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/cmake/Dependencies.cmake"
    DESTINATION "${dir}" RENAME SluiceDependencies.cmake)
endfunction()

function(_sluice_check_arguments unparsed name)
  if(unparsed OR NOT name)
    message(FATAL_ERROR "Sluice target '${name}': a NAME is needed, unknown arguments: ${unparsed}")
  endif()
endfunction()
