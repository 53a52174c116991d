# cmake -D OUTPUT=FILE.cpp -D HEADER=PATH -D NAMESPACE=NAME -D "FILES=function=FILE,..." -P Embed.cmake: writes a source
# that holds the bytes of files, each behind a function that returns them as a std::string_view.
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
string(REPLACE "," ";" files "${FILES}")
foreach(entry IN LISTS files)
  string(REGEX MATCH "^([^=]+)=(.*)$" _ "${entry}")
  set(function ${CMAKE_MATCH_1})
  file(READ "${CMAKE_MATCH_2}" hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(APPEND text "\nstd::string_view ${function}() {\n  static constexpr char bytes[] = {\n${bytes}0};\n"
    "  return {bytes, ${length}};\n}\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}\n}  // namespace ${NAMESPACE}\n")
