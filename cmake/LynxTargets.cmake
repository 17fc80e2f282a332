# lynx_library, lynx_test, lynx_fuzz: the only ways a target of ours is made, so flags live in one place.

find_package(Threads REQUIRED)
if(NOT LYNX_ONLY_CODEC)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(LIBDEFLATE REQUIRED IMPORTED_TARGET libdeflate)
  pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET "openssl >= 3.0")
  find_package(GTest REQUIRED)
endif()

add_library(lynx_flags INTERFACE)
# -ffp-contract=off: a fused a*b+c rounds once where the format says twice.
set(lynx_cxx_flags -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Woverloaded-virtual
    -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 sees uninitialised members in every moved std::variant and std::optional; the sanitizer runs look for the real ones.
  list(APPEND lynx_cxx_flags -Wno-maybe-uninitialized)
endif()
if(LYNX_WERROR)
  list(APPEND lynx_cxx_flags -Werror)
endif()
target_compile_options(lynx_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${lynx_cxx_flags}>")
if(LYNX_SANITIZE)
  target_compile_options(lynx_flags INTERFACE -fsanitize=${LYNX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(lynx_flags INTERFACE -fsanitize=${LYNX_SANITIZE})
endif()
target_include_directories(lynx_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(lynx_flags INTERFACE Threads::Threads)

# lynx_library(codec SOURCES a.cc b.cc DEPS lynx_kv ...): static library lynx_codec.
function(lynx_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(lynx_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(lynx_${name} PUBLIC lynx_flags ${ARG_DEPS})
endfunction()

# lynx_test(codec_test SOURCES codec_test.cc DEPS lynx_codec LABELS check TIMEOUT 60): a GoogleTest binary, one ctest entry.
# Labels: check (default; milliseconds to seconds), model (needs a real model), net (needs namespaces), long (./dev ci --long).
function(lynx_test name)
  if(LYNX_ONLY_CODEC)
    return()
  endif()
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE lynx_flags ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE LYNX_TESTS_DIR="${CMAKE_SOURCE_DIR}/tests" LYNX_MODELS_DIR="${LYNX_MODELS_DIR}"
                             LYNX_CLI="${CMAKE_BINARY_DIR}/lynxkv")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_LABELS)
    set(ARG_LABELS check)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# lynx_fuzz(frame_fuzz SOURCES frame_fuzz.cc DEPS lynx_wire): libFuzzer with LYNX_FUZZ, else a replay of fuzz/corpus/<name> run by ctest.
function(lynx_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(LYNX_FUZZ)
    add_executable(${name} ${ARG_SOURCES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  else()
    add_executable(${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/fuzz/replay_main.cc)
    add_test(NAME ${name}_replay COMMAND ${name} ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name})
    set_tests_properties(${name}_replay PROPERTIES LABELS check TIMEOUT 120)
  endif()
  target_link_libraries(${name} PRIVATE lynx_flags ${ARG_DEPS})
endfunction()
