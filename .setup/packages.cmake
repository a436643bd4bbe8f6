# Debian packages, one per install component; .setup/deb.sh makes them. Debian allows no underscore in a package's name, so that the
# package of libfusec_rt.so.1 is libfusec-rt1.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(FUSEC_MAINTAINER "fusec maintainers <fusec@localhost>" CACHE STRING "who answers for the packages; whoever publishes them says so")
set(CPACK_PACKAGE_CONTACT ${FUSEC_MAINTAINER})
set(CPACK_COMPONENTS_ALL program runtime development)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # the packages of the libraries that the files are linked with
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # the same for packages of others that are linked with the library
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

# What Debian's policy wants in a package's folder of documents: copyright (12.5) and changelog.gz (12.7).
function(fusec_documents component package)
  set(made ${CMAKE_BINARY_DIR}/package/${package})
  fusec_write_notices(${made}/copyright ${ARGN})
  # Its date is that of the package (SOURCE_DATE_EPOCH).
  set(entry "${package} (${PROJECT_VERSION}) unstable; urgency=medium\n\n  * This is release ${PROJECT_VERSION}.\n\n -- ${FUSEC_MAINTAINER}")
  install(CODE "string(TIMESTAMP date \"%a, %d %b %Y %H:%M:%S +0000\" UTC)
                file(WRITE ${made}/changelog \"${entry}  \${date}\\n\")
                execute_process(COMMAND gzip -9nf ${made}/changelog COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  install(FILES ${made}/copyright ${made}/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${component})
endfunction()
set(parts_of_both gcc-12-base libxxhash-dev)  # libstdc++ is gcc-12-base's
fusec_documents(program fusec ${parts_of_both} libcli11-dev libexpected-dev libprotobuf-dev llvm-${llvm_version}-dev nlohmann-json3-dev onnx)
fusec_documents(runtime libfusec-rt${FUSEC_ABI_VERSION} ${parts_of_both})
fusec_documents(development libfusec-dev)

# The manual page is what the program says of itself.
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -D FUSEC=$<TARGET_FILE:fusec> -D VERSION=${PROJECT_VERSION}
                                      -D PAGE=${CMAKE_BINARY_DIR}/package/fusec.1
                                      -P ${CMAKE_SOURCE_DIR}/.setup/manual_page.cmake COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
install(FILES ${CMAKE_BINARY_DIR}/package/fusec.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME fusec)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION devel)
# For a CPU, fusec has C++ compiled. oneDNN and NVIDIA's libraries are opened at run time; Debian has only the first.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "g++ | c++-compiler")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS libdnnl2)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS libfusec-dev)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "graph compiler from ONNX to fused CUDA C
fusec compiles recommendation and LoRA models from ONNX into fused kernels,
ahead of time. The result is a folder that its runtime executes on an NVIDIA
GPU or a CPU. To compile for a GPU, NVRTC of CUDA 13 is needed.")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libfusec-rt${FUSEC_ABI_VERSION})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS libdnnl2)
file(WRITE ${CMAKE_BINARY_DIR}/package/triggers "activate-noawait ldconfig\n")  # the loader finds the library
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/package/triggers)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "runtime of models that fusec compiled
The library loads the folder that fusec wrote for a model and runs it on an
NVIDIA GPU or a CPU.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libfusec-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libfusec-rt${FUSEC_ABI_VERSION} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "fusec, cmake, pkg-config")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "headers of the runtime of models that fusec compiled
The headers are for C and C++. CMake finds the library by find_package(fusec),
other tools by pkg-config fusec.")
include(CPack)
