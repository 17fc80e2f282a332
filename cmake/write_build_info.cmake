# Run at every build: the commit may change without a configure. The header is rewritten only when its content changes.
execute_process(COMMAND git rev-parse --short HEAD WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE LYNX_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT LYNX_COMMIT)
  set(LYNX_COMMIT unknown)
endif()
configure_file(${IN} ${OUT} @ONLY)
