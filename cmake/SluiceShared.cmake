# libsluice.so: the objects of all modules in one shared library, beside the static ones. Nothing is
# compiled again. It exports names of namespace sluice that are visible (public headers say so) and
# nothing else (cmake/sluice.map.in): neither what it is made with nor instantiations of the standard library can meet those of a program.
#
# Called after all modules, so that a new one is part of it without an edit.

function(sluice_shared_library)
  get_property(modules GLOBAL PROPERTY SLUICE_MODULES)
  get_property(private_links GLOBAL PROPERTY SLUICE_LINK)
  get_property(public_links GLOBAL PROPERTY SLUICE_PUBLIC_LINK)
  list(REMOVE_DUPLICATES private_links)
  list(REMOVE_DUPLICATES public_links)
  list(TRANSFORM modules REPLACE "(.+)" "$<TARGET_OBJECTS:sluice_\\1>" OUTPUT_VARIABLE objects)

  set(SLUICE_ABI "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
  set(map "${CMAKE_BINARY_DIR}/sluice.map")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/sluice.map.in" "${map}" @ONLY)

  add_library(sluice_shared SHARED ${objects})
  add_library(Sluice::sluice_shared ALIAS sluice_shared)
  set_target_properties(sluice_shared PROPERTIES
    OUTPUT_NAME sluice
    VERSION "${PROJECT_VERSION}"
    SOVERSION "${SLUICE_ABI}"  # before 1.0 every minor version may change the interface
    LINKER_LANGUAGE CXX
    LINK_DEPENDS "${map}"
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
  target_compile_features(sluice_shared INTERFACE cxx_std_20)
  target_include_directories(sluice_shared INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(sluice_shared
    PUBLIC ${public_links}
    PRIVATE ${private_links} $<BUILD_INTERFACE:sluice_options>)
  # Calls inside of the library go straight to their function.
  target_link_options(sluice_shared PRIVATE
    "LINKER:--version-script=${map}" LINKER:-Bsymbolic-functions LINKER:--as-needed LINKER:-z,defs)

  install(TARGETS sluice_shared EXPORT SluiceSharedTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT SluiceSharedTargets NAMESPACE Sluice::
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/Sluice")
  sluice_install_pkgconfig()
endfunction()

# sluice.pc, which works wherever the installed folder is moved to.
function(sluice_install_pkgconfig)
  set(dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH SLUICE_UP "/${dir}" "/")
  string(REGEX REPLACE "/$" "" SLUICE_UP "${SLUICE_UP}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/sluice.pc.in" "${CMAKE_BINARY_DIR}/sluice.pc" @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/sluice.pc" DESTINATION "${dir}")
endfunction()
