# How everything is compiled: musec_flags, which every target links.
#
# Never fast-math: it lets the compiler drop the test for NaN.  No contraction either: a fused
# multiply-add changes the last bit, and results must not depend on where the compiler found one.
# Nothing reads the errno of a math function, and a sqrt that may set it is no vector instruction.
# Assertions stay in Release: they cost nothing beside a matrix product.
# "#pragma omp simd" asks for vector code; threads are our own (src/device/cpu/workers.h).

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")

add_library(musec_flags INTERFACE)
target_compile_options(musec_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wvla -Werror -ffp-contract=off -fno-math-errno -fopenmp-simd>
  $<$<COMPILE_LANG_AND_ID:C,Clang>:-Wno-missing-field-initializers> # in rows, what is not named is 0
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers,-fno-gnu-unique -Werror=all-warnings>
  $<$<AND:$<BOOL:${MUSEC_NATIVE}>,$<COMPILE_LANGUAGE:C>>:-march=native>)

if(MUSEC_SANITIZE OR MUSEC_FUZZ)
  set(sanitize -fsanitize=address,undefined$<$<BOOL:${MUSEC_FUZZ}>:,fuzzer-no-link>
    -fno-sanitize-recover=all -fno-omit-frame-pointer
    $<$<BOOL:${MUSEC_FUZZ}>:-fsanitize-coverage-ignorelist=${PROJECT_SOURCE_DIR}/fuzz/uncovered.txt>)
  # -g1 is enough for the lines of a stack trace, and compiles and links faster than -g.  At -O1 clang
  # warns of every "omp simd" loop that it did not vectorize.
  target_compile_options(musec_flags INTERFACE -O1 -g1 ${sanitize}
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
  target_link_options(musec_flags INTERFACE ${sanitize})
endif()
# The many test programs are linked by a fast linker, where there is one.  What is installed and what is
# carried to other machines keeps the default.
set(musec_test_link_options "")
if(NOT MUSEC_STATIC_DEPS)
  include(CheckLinkerFlag)
  foreach(linker lld gold)
    check_linker_flag(C -fuse-ld=${linker} MUSEC_HAS_${linker})
    if(MUSEC_HAS_${linker})
      set(musec_test_link_options -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()
if(MUSEC_STATIC_DEPS) # a shared library that remains is looked for beside the program as well,
  # and so are those that it needs, which takes the older kind of path
  target_link_options(musec_flags INTERFACE -static-libgcc LINKER:--disable-new-dtags)
  set(CMAKE_BUILD_RPATH "$ORIGIN")
endif()
