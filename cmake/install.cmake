# Installs what `make install` does: library, headers, clattn.pc, the CMake package, the command, pages and examples.
install(TARGETS clattn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
file(GLOB CLATTN_HEADERS include/*.h)
install(FILES ${CLATTN_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# clattn.pc and the CMake package come from the files that Autotools fills in.
function(clattn_fill)
  set(prefix ${CMAKE_INSTALL_PREFIX})
  set(exec_prefix \${prefix})
  set(libdir \${prefix}/${CMAKE_INSTALL_LIBDIR})
  set(includedir \${prefix}/${CMAKE_INSTALL_INCLUDEDIR})
  set(PACKAGE_VERSION ${CLATTN_VERSION})
  set(CLATTN_PC_REQUIRES OpenCL)
  if(CLATTN_CLBLAST)
    set(CLATTN_PC_REQUIRES_PRIVATE clblast)
  endif()
  configure_file(clattn.pc.in ${CLATTN_MADE}/clattn.pc @ONLY)
  set(includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  configure_file(cmake/clattn-config.cmake.in ${CLATTN_MADE}/clattn-config.cmake @ONLY)
  configure_file(cmake/clattn-config-version.cmake.in ${CLATTN_MADE}/clattn-config-version.cmake @ONLY)
endfunction()
clattn_fill()
install(FILES ${CLATTN_MADE}/clattn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${CLATTN_MADE}/clattn-config.cmake ${CLATTN_MADE}/clattn-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/clattn)

if(CLATTN_COMMAND)
  install(TARGETS clattn_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES man/clattn.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES examples/data/money-bank-grows-layer0.safetensors DESTINATION ${CMAKE_INSTALL_DATADIR}/clattn)
endif()

# What shells complete with, by the command itself: a cross build cannot run it.
# clattn_completion(SHELL FILE FOLDER)
function(clattn_completion shell file folder)
  add_custom_command(OUTPUT ${CLATTN_MADE}/completions/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CLATTN_MADE}/completions
    COMMAND clattn_command completions ${shell} > ${CLATTN_MADE}/completions/${file}
    DEPENDS clattn_command VERBATIM)
  add_custom_target(clattn_completion_${shell} ALL DEPENDS ${CLATTN_MADE}/completions/${file})
  install(FILES ${CLATTN_MADE}/completions/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder})
endfunction()
if(CLATTN_COMMAND AND NOT CMAKE_CROSSCOMPILING)
  clattn_completion(bash clattn bash-completion/completions)
  clattn_completion(zsh _clattn zsh/site-functions)
  clattn_completion(fish clattn.fish fish/vendor_completions.d)
endif()

# The functions' pages and the site are made by python3, as far as there is one of 3.9 or later.
clattn_list(docs/local.mk nobase_dist_doc_DATA CLATTN_DOCS)
clattn_list(examples/local.mk nobase_dist_doc_DATA CLATTN_EXAMPLES)
clattn_list(examples/mpi/local.mk nobase_dist_doc_DATA CLATTN_MPI_EXAMPLES)
list(APPEND CLATTN_EXAMPLES ${CLATTN_MPI_EXAMPLES})
clattn_list(plugins/local.mk nobase_dist_doc_DATA CLATTN_PLUGINS)
foreach(file ${CLATTN_DOCS} ${CLATTN_EXAMPLES} ${CLATTN_PLUGINS})
  get_filename_component(folder ${file} DIRECTORY)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DOCDIR}/${folder})
endforeach()
find_program(CLATTN_PYTHON NAMES python3)
set(python_is_old 1)
if(CLATTN_PYTHON)
  execute_process(COMMAND ${CLATTN_PYTHON} -c "import sys; sys.exit(sys.version_info < (3, 9))"
    RESULT_VARIABLE python_is_old)
endif()
if(python_is_old EQUAL 0)
  clattn_list(docs/local.mk docs_makers CLATTN_DOCS_MAKERS)
  list(TRANSFORM CLATTN_DOCS_MAKERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_custom_command(OUTPUT ${CLATTN_MADE}/docs/stamp
    COMMAND ${CMAKE_COMMAND} -E remove_directory ${CLATTN_MADE}/docs
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CLATTN_MADE}/docs
    COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${CLATTN_PYTHON} scripts/docs/manual.py .
      ${CLATTN_MADE}/docs/man3
    COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${CLATTN_PYTHON} scripts/docs/site.py .
      ${CLATTN_MADE}/docs/site
    COMMAND ${CMAKE_COMMAND} -E touch ${CLATTN_MADE}/docs/stamp
    DEPENDS ${CLATTN_DOCS_MAKERS} ${CLATTN_HEADERS} ${CLATTN_DOCS} ${CLATTN_EXAMPLES} HACKING.md man/clattn.1
      docs/lessons/index.html
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} VERBATIM)
  add_custom_target(clattn_docs ALL DEPENDS ${CLATTN_MADE}/docs/stamp)
  install(DIRECTORY ${CLATTN_MADE}/docs/man3/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  install(DIRECTORY ${CLATTN_MADE}/docs/site/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/html)
endif()
