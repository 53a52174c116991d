# What ctest reads: an entry for each suite of a GoogleTest program, PREFIX.SUITE. One process runs all tests of a suite:
# loading LibTorch takes longer than most tests do. A suite all of whose tests are skipped is skipped.
# PROGRAM, PREFIX and ALONE (suites beside which nothing runs) are set by the file that includes this one.
if(NOT EXISTS "${PROGRAM}")
  add_test("${PREFIX}.NOT_BUILT" "${PROGRAM}")
  return()
endif()

set(listed "${PROGRAM}-suites.txt")
if(NOT EXISTS "${listed}" OR "${PROGRAM}" IS_NEWER_THAN "${listed}")
  execute_process(COMMAND "${PROGRAM}" --gtest_list_tests OUTPUT_VARIABLE output ERROR_VARIABLE said RESULT_VARIABLE code)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${code}\n${output}${said}")
  endif()
  # Suites stand at the beginning of a line, "Suite." or "Types/Suite/0.  # TypeParam = ..."
  string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${output}")
  string(REGEX REPLACE "[\n.]" "" suites "${suites}")
  file(WRITE "${listed}" "${suites}")
endif()

file(READ "${listed}" suites)
foreach(suite IN LISTS suites)
  add_test("${PREFIX}.${suite}" "${PROGRAM}" "--gtest_filter=${suite}.*")
  set_tests_properties("${PREFIX}.${suite}" PROPERTIES TIMEOUT 1800 SKIP_REGULAR_EXPRESSION
    "  PASSED  . 0 tests.\n.  SKIPPED . [0-9]+ tests?, listed below:\n(.  SKIPPED . [^\n]*\n?)+\n*$")
  if(suite IN_LIST ALONE)
    set_tests_properties("${PREFIX}.${suite}" PROPERTIES RUN_SERIAL TRUE)
  endif()
endforeach()
