# Writes FILES (a list of paths) to OUTPUT as entries `{"path", R"(text)"},` of a C++ array.
set(entries "")
foreach(path IN LISTS FILES)
  file(READ ${path} text)
  string(APPEND entries "{\"${path}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${entries}")
