# libmusec_mpi.so: the calls of MPI, compiled by the MPI that is found here.  The program opens it when
# it is used, and is complete without (src/comm/plugin/mpi_plugin.h).

set(MUSEC_MPI AUTO CACHE STRING "libmusec_mpi.so for several ranks: AUTO (where an MPI is), ON or OFF")
set_property(CACHE MUSEC_MPI PROPERTY STRINGS AUTO ON OFF)

if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(plugin_dir "")
else()
  file(RELATIVE_PATH plugin_up /${CMAKE_INSTALL_BINDIR} /)
  set(plugin_dir "${plugin_up}${CMAKE_INSTALL_LIBDIR}/musec/")
endif()
set_property(SOURCE src/comm/mpi.c APPEND PROPERTY COMPILE_DEFINITIONS "MS_PLUGIN_DIR=\"${plugin_dir}\"")

if(MUSEC_MPI AND NOT MUSEC_WHEEL AND NOT MUSEC_STATIC_DEPS) # not what is carried to other machines
  if(MUSEC_MPI STREQUAL "ON")
    find_package(MPI REQUIRED COMPONENTS C)
  else()
    find_package(MPI QUIET COMPONENTS C)
  endif()
endif()
if(MPI_C_FOUND)
  message(STATUS "MPI: ${MPI_C_LIBRARIES}")
  add_library(musec_mpi MODULE src/comm/plugin/mpi_plugin.c)
  target_include_directories(musec_mpi PRIVATE src)
  target_link_libraries(musec_mpi PRIVATE musec_flags MPI::MPI_C)
  set_target_properties(musec_mpi PROPERTIES C_VISIBILITY_PRESET default
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  install(TARGETS musec_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/musec)
endif()
if(NOT MUSEC_STATIC_DEPS) # for the MPI of another machine
  install(DIRECTORY src/comm/plugin DESTINATION ${CMAKE_INSTALL_DATADIR}/musec/mpi/comm)
endif()
if(CMAKE_DL_LIBS) # what opens it
  string(APPEND MUSEC_LIBS_PRIVATE " -l${CMAKE_DL_LIBS}")
endif()
