# libmusec.so and libmusec.a as they are installed: both export musec_* alone.

add_library(musec SHARED ${library_objects})
target_link_libraries(musec PRIVATE musec_flags musec_dependencies)
target_include_directories(musec INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
if(NOT APPLE)
  target_link_options(musec PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exports.map)
  set_property(TARGET musec APPEND PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exports.map)
endif()
set_target_properties(musec PROPERTIES LINKER_LANGUAGE C)
if(MUSEC_WHEEL) # the loader also looks beside it for what the libraries that go along need
  target_link_options(musec PRIVATE -s -Wl,--gc-sections,--as-needed,--disable-new-dtags)
  set_target_properties(musec PROPERTIES NO_SONAME ON BUILD_WITH_INSTALL_RPATH ON
    INSTALL_RPATH "$ORIGIN")
  add_custom_target(wheel_library) # under a name that no file of the build has
  add_dependencies(wheel_library musec)
else()
  set_target_properties(musec PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endif()

# The archive is one object in which every internal name has become local.

find_program(CMAKE_OBJCOPY NAMES objcopy llvm-objcopy)
if(CMAKE_OBJCOPY AND NOT APPLE)
  set(whole ${PROJECT_BINARY_DIR}/musec_whole.o)
  add_custom_command(OUTPUT ${whole}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${whole} ${library_objects}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=musec_* ${whole}
    DEPENDS musec_objects ${library_objects}
    COMMAND_EXPAND_LISTS VERBATIM)
  add_library(musec_static STATIC ${whole})
  set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
else() # no tool for it: internal names stay visible under their prefix ms_
  add_library(musec_static STATIC ${library_objects})
endif()
set_target_properties(musec_static PROPERTIES OUTPUT_NAME musec LINKER_LANGUAGE C)
