# What packages hold besides the library: documents, examples, completion; and how CPack makes a .deb
# and an archive (`./dev package`). They have the shared library and no static ones.

function(sluice_install_documents)
  set(dir "${CMAKE_INSTALL_DATADIR}/doc/sluice")
  install(FILES README.md CHANGELOG.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md DESTINATION "${dir}")
  install(FILES tests/coverage.md DESTINATION "${dir}/tests")
  install(FILES LICENSE DESTINATION "${dir}" RENAME copyright)
  install(DIRECTORY docs DESTINATION "${dir}" FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.png")
  install(DIRECTORY examples DESTINATION "${dir}"
    FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h" PATTERN "*.py" PATTERN "CMakeLists.txt")
endfunction()

sluice_install_documents()

set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR "Sluice")
set(CPACK_PACKAGE_CONTACT "Sluice maintainers <maintainers@sluice.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains and runs one neural network across several memory-limited devices")
set(CPACK_PACKAGE_DESCRIPTION
  "A C++ library with its headers, the command line 'sluice', documents and examples.")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_RESOURCE_FILE_README "${PROJECT_SOURCE_DIR}/README.md")
set(CPACK_GENERATOR DEB TXZ)
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
# One package of everything but the static libraries.
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)       # the packages of the libraries that it loads
set(CPACK_DEBIAN_PACKAGE_DEPENDS libfmt-dev)  # of its headers
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3, python3-numpy, python3-torch")  # of its Python module
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}/lib")
include(CPack)
