# What `cmake --install` puts where (GNUInstallDirs): the codec library with its C header, find_package and pkg-config files, the CLI,
# licence and format documents. The C++ headers stay out: they have no stable binary interface.
include(CMakePackageConfigHelpers)

install(TARGETS lynxkv_codec EXPORT lynxkvTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS lynxkv EXPORT lynxkvTargets RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# Made by the program from its own option table, when it is installed.
install(CODE "
  foreach(made \"man;lynxkv.1\" \"completion;lynxkv.bash\")
    list(GET made 0 command)
    list(GET made 1 file)
    execute_process(COMMAND $<TARGET_FILE:lynxkv> \${command} OUTPUT_FILE ${CMAKE_BINARY_DIR}/\${file} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()")
install(FILES ${CMAKE_BINARY_DIR}/lynxkv.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${CMAKE_BINARY_DIR}/lynxkv.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lynxkv)
install(FILES include/lynx/codec_abi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lynx)
install(FILES LICENSE THIRD_PARTY.md README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES docs/format/FORMAT.md docs/format/WIRE.md docs/format/ERRATA.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/format)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lynxkv)
install(EXPORT lynxkvTargets NAMESPACE lynxkv:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/lynxkvConfig.cmake.in ${CMAKE_BINARY_DIR}/lynxkvConfig.cmake INSTALL_DESTINATION ${package_dir})
# Below 1.0 every minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lynxkvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lynxkvConfig.cmake ${CMAKE_BINARY_DIR}/lynxkvConfigVersion.cmake DESTINATION ${package_dir})

# The .pc file finds its prefix from its own place, so that an installed tree can be moved.
cmake_path(SET pc_dir NORMALIZE "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${pc_dir}" OUTPUT_VARIABLE prefix_from_pc)
configure_file(${CMAKE_SOURCE_DIR}/cmake/lynxkv.pc.in ${CMAKE_BINARY_DIR}/lynxkv.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lynxkv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
