# Texts of licences, which packages and the wheel carry: fusec's own state, and the licence of each part of others that is linked into
# their files or lies beside them.
set(fusec_license_state
    "Copyright (C) 2026 the authors of fusec\n\nLicense: none. The authors have chosen none yet. Until they do, no right to use, copy, \
change or\ndistribute fusec follows from this package.\n")

set(fusec_license_of_onnx
    "Copyright (c) ONNX Project Contributors\nLicense: Apache-2.0, whose text is in /usr/share/common-licenses/Apache-2.0\n")

# The file with the licence of `part`: nanobind, which brings robin_map, comes from PyPI; all others but ONNX are packages of Debian.
function(fusec_license_file part out)
  if(part STREQUAL nanobind)
    file(GLOB file ${nanobind_ROOT}/../../nanobind-*.dist-info/licenses/LICENSE)
  elseif(part STREQUAL boost)
    file(GLOB file /usr/share/doc/libboost1.*-dev/copyright)
  elseif(part STREQUAL robin_map)  # in the first comment
    set(file ${nanobind_ROOT}/../ext/robin_map/include/tsl/robin_map.h)
  else()
    set(file /usr/share/doc/${part}/copyright)
  endif()
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "the licence of ${part} is not on this machine, and the packages of fusec carry it: ${file}")
  endif()
  set(${out} ${file} PARENT_SCOPE)
endfunction()

# Writes `path`: the state of fusec, then the licences of the parts behind it.
function(fusec_write_notices path)
  set(text "${fusec_license_state}")
  foreach(part ${ARGN})
    if(DEFINED fusec_license_of_${part})
      set(license "${fusec_license_of_${part}}")
    else()
      fusec_license_file(${part} file)
      file(READ ${file} license)
      if(file MATCHES "\\.h$")
        string(FIND "${license}" "*/" end)
        string(SUBSTRING "${license}" 0 ${end} license)
      endif()
    endif()
    string(APPEND text "\n---- contains: ${part} ----\n\n${license}")
  endforeach()
  file(WRITE ${path} "${text}")
endfunction()

# Appends to `path` the texts that it only names, as /usr/share/common-licenses/NAME: other systems have no such folder.
function(fusec_append_common_licenses path)
  file(READ ${path} text)
  string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]" files "${text}")
  list(REMOVE_DUPLICATES files)
  list(SORT files)
  foreach(file ${files})
    file(READ ${file} license)
    file(APPEND ${path} "\n---- text of ${file} ----\n\n${license}")
  endforeach()
endfunction()
