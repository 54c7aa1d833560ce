# The target `lint`: clang-tidy over every C file, each one checked again only after it, a header or
# the settings changed.  The checks are written for one version; others find other things.

set(tidy_version 14)
find_program(MUSEC_CLANG_TIDY NAMES clang-tidy-${tidy_version} clang-tidy)
set(tidy_fits FALSE)
if(MUSEC_CLANG_TIDY)
  execute_process(COMMAND ${MUSEC_CLANG_TIDY} --version OUTPUT_VARIABLE tidy_says)
  if(tidy_says MATCHES "version ${tidy_version}\\.")
    set(tidy_fits TRUE)
  endif()
endif()

if(NOT tidy_fits)
  add_custom_target(lint COMMAND ${CMAKE_COMMAND} -E echo
    "skipped: clang-tidy ${tidy_version} is not here")
  return()
endif()

file(GLOB_RECURSE headers CONFIGURE_DEPENDS include/*.h src/*.h bench/*.h tests/*.h
  fuzz/*.h)
musec_sources(test_sources tests fuzz examples)
set(stamps "")
foreach(file ${library_sources} ${cuda_c_sources} ${cuda_tools} ${trainer_sources} ${bench_sources} ${program_sources} ${test_sources})
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR} ${file})
  set(stamp ${PROJECT_BINARY_DIR}/lint/${name}.ok)
  get_filename_component(dir ${stamp} DIRECTORY)
  file(MAKE_DIRECTORY ${dir})
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${MUSEC_CLANG_TIDY} --quiet -p ${PROJECT_BINARY_DIR} ${file}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${file} ${headers} ${PROJECT_SOURCE_DIR}/.clang-tidy
    COMMENT "clang-tidy ${name}" VERBATIM)
  list(APPEND stamps ${stamp})
endforeach()
add_custom_target(lint DEPENDS ${stamps})
