# make install: header, libraries, musec.pc, CMake package, program, manual, completions, documents.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/musec)

set(headers include/musec/musec.h include/musec/optim.h include/musec/dlpack.h)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/musec)
install(TARGETS musec EXPORT musecTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS musec_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS musec_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# musec.pc finds its prefix from where it lies, so a staged or moved tree works too.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(pc_prefix "\${pcfiledir}/${up}")
endif()
foreach(dir LIBDIR INCLUDEDIR)
  set(pc_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${dir}}")
    set(pc_${dir} ${CMAKE_INSTALL_${dir}})
  endif()
endforeach()
configure_file(cmake/musec.pc.in musec.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/musec.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/musecConfig.cmake.in musecConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(musecConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/musecConfig.cmake ${PROJECT_BINARY_DIR}/musecConfigVersion.cmake
  DESTINATION ${package_dir})
install(EXPORT musecTargets NAMESPACE musec:: DESTINATION ${package_dir})

# The program writes its own manual page and completions.  A cross build without an emulator cannot run
# it and installs neither; there `musec completion` still prints them.
if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR)
  set(generated ${PROJECT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  add_custom_command(OUTPUT ${generated}/musec.1 ${generated}/musec.bash ${generated}/_musec
      ${generated}/musec.fish
    COMMAND musec_program help --man ${PROJECT_SOURCE_DIR}/docs/musec.1.in > ${generated}/musec.1
    COMMAND musec_program completion bash > ${generated}/musec.bash
    COMMAND musec_program completion zsh > ${generated}/_musec
    COMMAND musec_program completion fish > ${generated}/musec.fish
    DEPENDS musec_program docs/musec.1.in
    COMMENT "Writing the manual page and the completions" VERBATIM)
  add_custom_target(musec_generated ALL DEPENDS ${generated}/musec.1)
  install(FILES ${generated}/musec.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${generated}/musec.bash RENAME musec
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${generated}/_musec DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${generated}/musec.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES data/sources.json DESTINATION ${CMAKE_INSTALL_DATADIR}/musec)
# Documents lie to each other as in the source tree, with all that they link to.
install(FILES README.md CONTRIBUTING.md CHANGELOG.md CITATION.cff LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples experiments DESTINATION ${CMAKE_INSTALL_DOCDIR}
  PATTERN "musec.1.in" EXCLUDE)
install(DIRECTORY bench/results DESTINATION ${CMAKE_INSTALL_DOCDIR}/bench)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_DOCDIR}/include/musec)
install(FILES src/train/presets.c DESTINATION ${CMAKE_INSTALL_DOCDIR}/src/train)
