# A choice of the tests, for ctest: programs of one source file each, and the published cases. `make check` runs all.
# On Windows, where ctest runs none: what computes the cases, for tests/windows/under_wine.
clattn_list(tests/support/local.mk libclattn_test_la_SOURCES CLATTN_TEST_SOURCES)
if(WIN32)
  list(FILTER CLATTN_TEST_SOURCES INCLUDE REGEX "^tests/support/")
else()
  pkg_check_modules(CLATTN_CHECK REQUIRED IMPORTED_TARGET check>=0.10)
  set(CLATTN_TEST_LIBRARIES PkgConfig::CLATTN_CHECK)
endif()
add_library(clattn_test STATIC ${CLATTN_TEST_SOURCES})
target_link_libraries(clattn_test PUBLIC clattn_flags PkgConfig::CLATTN_CJSON ${CLATTN_TEST_LIBRARIES})

# Kernels that a test compiled are there for the next one; what the user tuned or keeps is no concern of tests.
set(CLATTN_TEST_ENVIRONMENT CLATTN_WISDOM_DIR= CLATTN_CACHE=off srcdir=${CMAKE_CURRENT_SOURCE_DIR}
  builddir=${CMAKE_CURRENT_BINARY_DIR})
if(NOT DEFINED ENV{POCL_CACHE_DIR})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/pocl-cache)
  list(APPEND CLATTN_TEST_ENVIRONMENT POCL_CACHE_DIR=${CMAKE_CURRENT_BINARY_DIR}/pocl-cache)
endif()

# clattn_test_program(NAME): builds tests/NAME.c as BUILD/tests/NAME.
function(clattn_test_program name)
  get_filename_component(folder tests/${name} DIRECTORY)
  get_filename_component(program ${name} NAME)
  string(REPLACE "/" "-" target test-${name})
  add_executable(${target} tests/${name}.c)
  target_link_libraries(${target} PRIVATE clattn_test clattn_tool clattn_core ${CMAKE_DL_LIBS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${program}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${folder})
endfunction()

clattn_test_program(solve_cases)
if(WIN32)
  return()
endif()

foreach(name api/calls api/host api/layers api/operations api/problems unit/alibi unit/call unit/half unit/overlap
    unit/problem unit/reference unit/stored_types)
  clattn_test_program(${name})
  string(REPLACE "/" "-" target test-${name})
  add_test(NAME ${name} COMMAND ${target})
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${CLATTN_TEST_ENVIRONMENT}" SKIP_RETURN_CODE 77)
endforeach()

add_test(NAME cases COMMAND ${CLATTN_SHELL} ${CMAKE_CURRENT_SOURCE_DIR}/tests/run_cases.sh reference staged)
set_tests_properties(cases PROPERTIES ENVIRONMENT "${CLATTN_TEST_ENVIRONMENT}" SKIP_RETURN_CODE 77)
add_test(NAME version COMMAND clattn_command --version)
set(CLATTN_VERSION_LINE "^clattn ${CLATTN_VERSION}")
if(NOT CLATTN_CLBLAST)
  string(APPEND CLATTN_VERSION_LINE ", without CLBlast")
endif()
if(NOT CLATTN_PICTURES)
  string(APPEND CLATTN_VERSION_LINE ", without pictures")
endif()
set_tests_properties(version PROPERTIES PASS_REGULAR_EXPRESSION "${CLATTN_VERSION_LINE}\n$")
