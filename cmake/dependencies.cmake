# What the library stands on: musec_dependencies (CBLAS, LAPACKE, jansson, threads, libm),
# and, for a static link, MUSEC_LIBS_PRIVATE for musec.pc.
#
# The linker's default directories come before those that pkg-config names: where a distribution
# lets the administrator switch between BLAS builds, they hold the one that is chosen.

include(CheckSymbolExists)
find_package(PkgConfig)
add_library(musec_dependencies INTERFACE)
set(MUSEC_LIBS_PRIVATE "")

if(MUSEC_STATIC_DEPS)
  list(INSERT CMAKE_FIND_LIBRARY_SUFFIXES 0 .a)
endif()

# musec_missing(WHAT DEBIAN FEDORA ARCH MACOS): stops, and says which package to install.
function(musec_missing what debian fedora arch macos)
  message(FATAL_ERROR "${what} is missing.  scripts/setup installs what a default build needs; by hand:\n"
    "  Debian, Ubuntu  apt-get install ${debian}\n"
    "  Fedora          dnf install ${fedora}\n"
    "  Arch            pacman -S ${arch}\n"
    "  macOS           brew install ${macos}\n")
endfunction()

# musec_find(VAR HEADER MODULE LIBRARY...): sets VAR_INCLUDE and VAR_LIBRARY, and VAR_FOUND if both
# are there.  MODULE is a pkg-config name whose directories are searched last.
function(musec_find var header module)
  if(PkgConfig_FOUND)
    pkg_check_modules(${var}_PC QUIET ${module})
  endif()
  find_path(${var}_INCLUDE ${header} PATHS ${${var}_PC_INCLUDE_DIRS} PATH_SUFFIXES openblas blis)
  find_library(${var}_LIBRARY NAMES ${ARGN}
    PATHS ${${var}_PC_LIBRARY_DIRS} ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
  mark_as_advanced(${var}_INCLUDE ${var}_LIBRARY)
  if(${var}_INCLUDE AND ${var}_LIBRARY)
    set(${var}_FOUND TRUE PARENT_SCOPE)
  endif()
endfunction()

# musec_link(VAR): what musec_find found becomes a dependency.
function(musec_link var)
  if(MUSEC_WHEEL)
    musec_prefer_static(${var}_LIBRARY)
  endif()
  target_include_directories(musec_dependencies SYSTEM INTERFACE ${${var}_INCLUDE})
  target_link_libraries(musec_dependencies INTERFACE ${${var}_LIBRARY})
  get_filename_component(dir "${${var}_LIBRARY}" DIRECTORY)
  get_filename_component(name "${${var}_LIBRARY}" NAME_WE)
  string(REGEX REPLACE "^lib" "-l" flags "${name}")
  if(NOT dir IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    string(PREPEND flags "-L${dir} ")
  endif()
  set(MUSEC_LIBS_PRIVATE "${MUSEC_LIBS_PRIVATE} ${flags}" PARENT_SCOPE)
endfunction()

# musec_provides(VAR SYMBOL HEADER RESULT): does the library VAR hold SYMBOL, declared in HEADER?
function(musec_provides var symbol header result)
  set(CMAKE_REQUIRED_INCLUDES ${${var}_INCLUDE})
  set(CMAKE_REQUIRED_LIBRARIES ${${var}_LIBRARY} ${fortran_libraries} Threads::Threads m)
  check_symbol_exists(${symbol} ${header} ${result})
  set(${result} "${${result}}" PARENT_SCOPE)
endfunction()

find_package(Threads REQUIRED)

# BLAS libraries that were compiled from Fortran want its run time: a static one from us, while a
# shared one brings it.
set(fortran_libraries "")
set(fortran_flags "")
foreach(name gfortran quadmath)
  find_library(MUSEC_${name}_LIBRARY ${name} PATHS ${CMAKE_C_IMPLICIT_LINK_DIRECTORIES})
  mark_as_advanced(MUSEC_${name}_LIBRARY)
  if(MUSEC_${name}_LIBRARY)
    string(APPEND fortran_flags " -l${name}")
    if(MUSEC_WHEEL)
      musec_prefer_static(MUSEC_${name}_LIBRARY)
    endif()
    if(MUSEC_STATIC_DEPS OR MUSEC_WHEEL)
      list(APPEND fortran_libraries ${MUSEC_${name}_LIBRARY})
    endif()
  endif()
endforeach()

# ---- CBLAS and LAPACKE -------------------------------------------------------------------------

if(MUSEC_BLAS STREQUAL "openblas")
  musec_find(MUSEC_CBLAS cblas.h openblas openblas openblasp)
  if(NOT MUSEC_CBLAS_FOUND)
    musec_missing("OpenBLAS" "libopenblas-dev" "openblas-devel" "openblas" "openblas")
  endif()
elseif(MUSEC_BLAS STREQUAL "blis")
  musec_find(MUSEC_CBLAS cblas.h blis blis)
  if(NOT MUSEC_CBLAS_FOUND)
    musec_missing("BLIS" "libblis-dev" "blis-devel" "blis" "blis")
  endif()
  target_compile_definitions(musec_dependencies INTERFACE _POSIX_C_SOURCE=200809L) # for its cblas.h
elseif(MUSEC_BLAS STREQUAL "mkl")
  musec_find(MUSEC_CBLAS mkl_cblas.h mkl-sdl mkl_rt)
  if(NOT MUSEC_CBLAS_FOUND)
    musec_missing("MKL" "intel-mkl" "intel-oneapi-mkl-devel" "intel-oneapi-mkl" "(none: use openblas)")
  endif()
  foreach(name cblas lapacke) # the sources know the usual names only
    file(WRITE ${PROJECT_BINARY_DIR}/mkl/${name}.h "#include <mkl_${name}.h>\n")
  endforeach()
  target_include_directories(musec_dependencies SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/mkl)
elseif(MUSEC_BLAS STREQUAL "generic")
  musec_find(MUSEC_CBLAS cblas.h cblas cblas blas)
  if(NOT MUSEC_CBLAS_FOUND)
    musec_missing("CBLAS" "libblas-dev" "blas-devel" "cblas" "openblas")
  endif()
else()
  message(FATAL_ERROR "MUSEC_BLAS is '${MUSEC_BLAS}': choose openblas, blis, mkl or generic")
endif()
musec_provides(MUSEC_CBLAS openblas_get_config cblas.h MS_HAVE_OPENBLAS)

# OpenBLAS and MKL may hold LAPACKE; otherwise it is a library of its own, on top of LAPACK.
if(MUSEC_BLAS STREQUAL "mkl")
  set(blas_has_lapacke TRUE)
else()
  musec_provides(MUSEC_CBLAS LAPACKE_dgesdd lapacke.h blas_has_lapacke)
endif()
if(NOT blas_has_lapacke)
  musec_find(MUSEC_LAPACKE lapacke.h lapacke lapacke)
  if(NOT MUSEC_LAPACKE_FOUND)
    musec_missing("LAPACKE" "liblapacke-dev" "lapack-devel" "lapacke" "lapack")
  endif()
  musec_link(MUSEC_LAPACKE)
  if(NOT MUSEC_BLAS STREQUAL "openblas")
    musec_find(MUSEC_LAPACK lapacke.h lapack lapack)
    if(NOT MUSEC_LAPACK_FOUND)
      musec_missing("LAPACK" "liblapack-dev" "lapack-devel" "lapack" "lapack")
    endif()
    musec_link(MUSEC_LAPACK)
  endif()
endif()
musec_link(MUSEC_CBLAS)
target_link_libraries(musec_dependencies INTERFACE ${fortran_libraries})

# ---- the rest ----------------------------------------------------------------------------------

musec_find(MUSEC_JANSSON jansson.h jansson jansson)
if(NOT MUSEC_JANSSON_FOUND)
  musec_missing("jansson" "libjansson-dev" "jansson-devel" "jansson" "jansson")
endif()
musec_link(MUSEC_JANSSON)
target_link_libraries(musec_dependencies INTERFACE Threads::Threads m)

string(APPEND MUSEC_LIBS_PRIVATE "${fortran_flags} -lpthread -lm")
string(STRIP "${MUSEC_LIBS_PRIVATE}" MUSEC_LIBS_PRIVATE)

# ---- what only the trainer uses, and can do without -----------------------------------------------

# musec_optional(NAME HEADER MODULE LIBRARY WHAT): if it is here, musec_trainer_dependencies has it
# and defines MS_HAVE_NAME; else there is no WHAT.  musec info lists them all.
add_library(musec_trainer_dependencies INTERFACE)
function(musec_optional name header module library what)
  musec_find(MUSEC_${name} ${header} ${module} ${library})
  if(MUSEC_${name}_FOUND)
    target_include_directories(musec_trainer_dependencies SYSTEM INTERFACE ${MUSEC_${name}_INCLUDE})
    target_link_libraries(musec_trainer_dependencies INTERFACE ${MUSEC_${name}_LIBRARY})
    target_compile_definitions(musec_trainer_dependencies INTERFACE MS_HAVE_${name})
  else()
    message(STATUS "${module} is missing: no ${what}")
  endif()
endfunction()

musec_optional(UTF8PROC utf8proc.h libutf8proc utf8proc "GPT-2 tokenizer") # classes of characters
musec_optional(ZLIB zlib.h zlib z "reading of .gz files")
musec_optional(ZSTD zstd.h libzstd zstd "reading of .zst files")
musec_optional(LZMA lzma.h liblzma lzma "reading of .xz files")
if(NOT MUSEC_STATIC_DEPS) # a static one drags in a dozen others
  musec_optional(CURL curl/curl.h libcurl curl "fetching of data sets")
  musec_optional(MICROHTTPD microhttpd.h libmicrohttpd microhttpd "live page of musec watch")
endif()

if(MUSEC_TESTS)
  musec_find(MUSEC_CMOCKA cmocka.h cmocka cmocka)
  if(NOT MUSEC_CMOCKA_FOUND)
    musec_missing("cmocka (or configure with -DMUSEC_TESTS=OFF)"
      "libcmocka-dev" "libcmocka-devel" "cmocka" "cmocka")
  endif()
endif()

message(STATUS "BLAS: ${MUSEC_BLAS}, ${MUSEC_CBLAS_LIBRARY}")
