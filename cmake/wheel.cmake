# MUSEC_WHEEL: libmusec.so as the Python package carries it (python/build_backend.py), for machines
# that have none of our dependencies.  Static libraries are linked into it where they are compiled as
# position independent code; the package takes the other ones along, and the library looks for them
# where it lies.

# musec_prefer_static(VAR): replaces the shared library that VAR names by the static one beside it,
# or by one that the compiler finds, if it can be a part of a shared library.
function(musec_prefer_static var)
  get_filename_component(name "${${var}}" NAME)
  get_filename_component(dir "${${var}}" DIRECTORY)
  string(REGEX REPLACE "\\.so.*$" ".a" archive "${name}")
  find_library(${var}_ARCHIVE ${archive} HINTS ${dir} PATHS ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
  mark_as_advanced(${var}_ARCHIVE)
  if(NOT ${var}_ARCHIVE)
    return()
  endif()
  set(trial ${PROJECT_BINARY_DIR}/CMakeFiles/${name}_trial)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -shared -nostdlib -o ${trial}
    -Wl,--unresolved-symbols=ignore-all -Wl,--whole-archive ${${var}_ARCHIVE}
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  file(REMOVE ${trial})
  if(failed)
    message(STATUS "${${var}_ARCHIVE} is not position independent: ${name} goes along")
  else()
    set(${var} ${${var}_ARCHIVE} PARENT_SCOPE)
  endif()
endfunction()
