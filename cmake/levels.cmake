# Some files of the CPU device are compiled once more for each level of x86-64, so that one program is
# fast on every processor: level_sources.  The device chooses when it opens (src/device/cpu/cpu.h).
# Elsewhere, and where the compiler makes code for one machine alone, there are none.

include(CheckCCompilerFlag)
set(level_sources "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT MUSEC_NATIVE)
  check_c_compiler_flag(-march=x86-64-v4 has_levels)
  if(has_levels)
    foreach(name element nn xent attention)
      foreach(level v3 v4)
        set(file ${PROJECT_BINARY_DIR}/levels/${name}_${level}.c)
        file(CONFIGURE OUTPUT ${file} CONTENT "#include \"device/cpu/${name}.c\"\n")
        set_source_files_properties(${file} PROPERTIES
          COMPILE_OPTIONS -march=x86-64-${level} COMPILE_DEFINITIONS MS_CPU_LEVEL=${level})
        list(APPEND level_sources ${file})
      endforeach()
    endforeach()
  endif()
endif()
