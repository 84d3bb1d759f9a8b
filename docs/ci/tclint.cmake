# include(tclint.cmake) behind enable_testing(): ctest lints the PTX below ptx/ of the build folder.
find_program(TCLINT tclint REQUIRED)
add_test(NAME tclint COMMAND ${TCLINT} check --output-format concise ${CMAKE_BINARY_DIR}/ptx)
