# The CUDA device, where there is a compiler for it: MUSEC_CUDA is AUTO (if nvcc is here), ON or OFF.
# Then cuda_sources has its files, and musec_dependencies what they link: the static run time, which
# starts without a driver.  The other libraries are opened at run time.  cuda_tools has what is built
# beside it.  Tests that look at the device's own headers link musec_cuda.
#
# With MUSEC_DEMO, AUTO looks for a GPU as well: without one there is no CUDA device, and with one it
# is compiled for that chip alone.

include(cmake/gpu.cmake)
set(all_chips 80-real 90a-real 90-virtual)
set(MUSEC_CUDA AUTO CACHE STRING "the CUDA device: AUTO (where nvcc is), ON or OFF")
set_property(CACHE MUSEC_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MUSEC_CUDA_ARCHITECTURES "${all_chips}" CACHE STRING
  "chips to compile for; the last is what later chips translate when they first run it")

set(cuda_sources "")
set(cuda_c_sources "") # those of them that clang-tidy knows: not nvcc's language
set(cuda_tools "")
set(hopper_objects "")
add_library(musec_cuda INTERFACE)
if(MUSEC_CUDA STREQUAL "OFF")
  return()
endif()

set(chips "${MUSEC_CUDA_ARCHITECTURES}")
set(say STATUS)
if(MUSEC_DEMO AND MUSEC_CUDA STREQUAL "AUTO")
  set(say NOTICE) # what the demo leaves out, and why
  musec_gpus(gpus)
  musec_chips(chips_here ${gpus})
  list(JOIN gpus ", " gpus)
  if(NOT gpus)
    message(${say} "no GPU here: building without CUDA")
    return()
  elseif(NOT chips_here)
    message(${say} "the GPU here has compute capability ${gpus}, 8.0 is needed: building without CUDA")
    return()
  endif()
  if(chips STREQUAL "${all_chips}") # else the caller has chosen
    set(chips "${chips_here}")
  endif()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(MUSEC_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MUSEC_CUDA is ON, but there is no nvcc: install CUDA 12 or later, or put "
      "its bin directory into PATH, or configure with -DMUSEC_CUDA=OFF")
  endif()
  message(${say} "no nvcc: building without CUDA")
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
  message(${say} "${nvcc_is}, 12 is needed: building without CUDA")
  return()
endif()

# Kernels that use instructions of Hopper alone have to be compiled for 90a, whose PTX no later chip
# takes: so a program for all chips has machine code for 90a and PTX for 90.  The machine code of all
# other kernels is the same for 90 and 90a, byte for byte, and one PTX for 90 gives both.
set(plain_chips ${chips})
if("90a-real" IN_LIST chips AND "90-virtual" IN_LIST chips)
  list(REMOVE_ITEM plain_chips 90a-real 90-virtual)
  list(APPEND plain_chips 90)
endif()
set(CMAKE_CUDA_ARCHITECTURES ${plain_chips})
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
enable_language(CUDA)
find_package(CUDAToolkit 12 REQUIRED)

set(definitions MS_HAVE_CUDA)
find_path(MUSEC_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(MUSEC_CUDNN_INCLUDE)
  list(APPEND definitions MS_HAVE_CUDNN)
else()
  message(STATUS "no cudnn.h: attention on GPUs by kernels of our own alone")
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS src/device/cuda/*.c src/device/cuda/*.cu)
target_link_libraries(musec_dependencies INTERFACE $<LINK_ONLY:CUDA::cudart_static>
  ${CMAKE_DL_LIBS})

# Files that include hopper.cuh, which asks for MS_CUDA_HOPPER.
set(hopper_sources ${cuda_sources})
list(FILTER hopper_sources INCLUDE REGEX "/(hopper_gemm_[0-9x]+|attention_wgmma(_grad)?)\\.cu$")
list(REMOVE_ITEM cuda_sources ${hopper_sources})
add_library(musec_hopper OBJECT ${hopper_sources})
target_include_directories(musec_hopper PRIVATE include src)
target_compile_definitions(musec_hopper PRIVATE MS_CUDA_HOPPER)
target_link_libraries(musec_hopper PRIVATE musec_flags)
set_target_properties(musec_hopper PROPERTIES CUDA_ARCHITECTURES "${chips}"
  POSITION_INDEPENDENT_CODE ON)
set(hopper_objects $<TARGET_OBJECTS:musec_hopper>)

# Only files that know of CUDA are compiled with more than the others: nothing else is compiled again
# when a build begins or ceases to have it.
target_compile_definitions(musec_cuda INTERFACE ${definitions})
target_include_directories(musec_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
set_source_files_properties(src/device/device.c ${cuda_sources} PROPERTIES
  COMPILE_DEFINITIONS "${definitions}")
set(cuda_c_sources ${cuda_sources})
list(FILTER cuda_c_sources INCLUDE REGEX "\\.c$")
list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND -isystem OUTPUT_VARIABLE includes)
set_source_files_properties(${cuda_c_sources} PROPERTIES COMPILE_OPTIONS "${includes}")

string(APPEND MUSEC_LIBS_PRIVATE " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt -lstdc++")
message(${say} "CUDA: ${CMAKE_CUDA_COMPILER_VERSION}, chips ${chips}")

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
