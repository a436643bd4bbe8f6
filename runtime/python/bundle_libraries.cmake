# Run by the installation of the component `python`: copies the shared libraries that the program and libfusec_rt.so are linked with
# into fusec/lib, under the names by which they are loaded. The C library is not copied.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${program} LIBRARIES ${library} RESOLVED_DEPENDENCIES_VAR needed
     PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|fusec_rt)\\.so" "^ld-linux")
foreach(path ${needed})
  get_filename_component(name ${path} NAME)
  file(REAL_PATH ${path} file)
  file(INSTALL ${file} DESTINATION ${CMAKE_INSTALL_PREFIX}/fusec/lib TYPE FILE RENAME ${name})
endforeach()
