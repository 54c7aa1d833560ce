# The CUDA device, where there is a compiler for it: MUSEC_CUDA is AUTO (if nvcc is here), ON or OFF.
# MS_HAVE_CUDA is then true, cuda_sources has its files and musec_dependencies what they link: the
# static run time, which starts without a driver.  The other libraries are opened at run time.
# cuda_tools has what is built beside it.

set(MUSEC_CUDA AUTO CACHE STRING "the CUDA device: AUTO (where nvcc is), ON or OFF")
set_property(CACHE MUSEC_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MUSEC_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual" CACHE STRING
  "chips to compile for; the last is what later chips translate when they first run it")

set(MS_HAVE_CUDA FALSE)
set(cuda_sources "")
set(cuda_tools "")
if(MUSEC_CUDA STREQUAL "OFF")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(MUSEC_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MUSEC_CUDA is ON, but there is no nvcc: install CUDA 12 or later, or put "
      "its bin directory into PATH, or configure with -DMUSEC_CUDA=OFF")
  endif()
  message(STATUS "no nvcc: no CUDA device")
  return()
endif()

# Its version is asked before the language is enabled: an old nvcc does not know the chips and
# would end the configuration.
execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE nvcc_words ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" nvcc_release "${nvcc_words}")
if(NOT nvcc_release OR CMAKE_MATCH_1 LESS 12)
  set(nvcc_is "${CMAKE_CUDA_COMPILER} is of no known release")
  if(nvcc_release)
    set(nvcc_is "${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}")
  endif()
  if(MUSEC_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MUSEC_CUDA is ON, but ${nvcc_is}: install CUDA 12 or later and name its "
      "nvcc with -DCMAKE_CUDA_COMPILER, or configure with -DMUSEC_CUDA=OFF")
  endif()
  message(STATUS "${nvcc_is}, 12 is needed: no CUDA device")
  return()
endif()

set(CMAKE_CUDA_ARCHITECTURES ${MUSEC_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
enable_language(CUDA)
find_package(CUDAToolkit 12 REQUIRED)

find_path(MUSEC_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(MUSEC_CUDNN_INCLUDE)
  set(MS_HAVE_CUDNN TRUE)
else()
  message(STATUS "no cudnn.h: attention on GPUs by kernels of our own alone")
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS src/device/cuda/*.c src/device/cuda/*.cu)
set(MS_HAVE_CUDA TRUE)
target_include_directories(musec_dependencies SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(musec_dependencies INTERFACE CUDA::cudart_static ${CMAKE_DL_LIBS})
string(APPEND MUSEC_LIBS_PRIVATE " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt -lstdc++")
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, chips ${MUSEC_CUDA_ARCHITECTURES}")

# A library that times the kernels of a program from within, where CUPTI is: bench/tools.
find_path(MUSEC_CUPTI_INCLUDE cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
  PATHS ${CUDAToolkit_TARGET_DIR}/extras/CUPTI/include ${CUDAToolkit_ROOT_DIR}/extras/CUPTI/include)
find_library(MUSEC_CUPTI_LIBRARY cupti HINTS ${CUDAToolkit_LIBRARY_DIR}
  PATHS ${CUDAToolkit_TARGET_DIR}/extras/CUPTI/lib64 ${CUDAToolkit_ROOT_DIR}/extras/CUPTI/lib64)
if(MUSEC_CUPTI_INCLUDE AND MUSEC_CUPTI_LIBRARY)
  set(cuda_tools ${PROJECT_SOURCE_DIR}/bench/tools/kernel_times.c)
  add_library(kernel_times MODULE ${cuda_tools})
  target_include_directories(kernel_times SYSTEM PRIVATE
    ${MUSEC_CUPTI_INCLUDE} ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(kernel_times PRIVATE musec_flags ${MUSEC_CUPTI_LIBRARY} Threads::Threads)
  set_target_properties(kernel_times PROPERTIES C_VISIBILITY_PRESET default)
else()
  message(STATUS "no CUPTI: no libkernel_times.so")
endif()
