# musec_gpus(VAR): the compute capabilities of the GPUs of this machine, each once, as "8.0;9.0".
# `unknown` is among them where there is a GPU, but nvidia-smi is missing, fails, or is too old to
# know its capability; without a GPU the list is empty.  MUSEC_DEV is /dev, but in tests.

if(NOT DEFINED MUSEC_DEV)
  set(MUSEC_DEV /dev)
endif()

function(musec_gpus var)
  set(found "")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader TIMEOUT 20
    RESULT_VARIABLE result OUTPUT_VARIABLE words ERROR_QUIET)
  if(result STREQUAL "0") # where there is no such program it is a sentence
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${words}")
  endif()
  if(NOT found)
    file(GLOB files ${MUSEC_DEV}/nvidia[0-9]* ${MUSEC_DEV}/dxg) # dxg: Windows' GPU under WSL
    if(files)
      set(found unknown)
    endif()
  endif()
  list(REMOVE_DUPLICATES found)
  list(SORT found COMPARE NATURAL)
  set(${var} "${found}" PARENT_SCOPE)
endfunction()

# musec_chips(VAR GPU...): what such GPUs run of a program that was compiled for all chips, and so
# what has to be compiled for them: the code of 8.0 serves 8.6 too, and later chips translate what
# was made for 9.0.  An unknown GPU takes all.  Where none can be used, the list is empty.
function(musec_chips var)
  set(chips "")
  foreach(gpu ${ARGN})
    if(gpu STREQUAL "unknown")
      list(APPEND chips ${all_chips})
    elseif(gpu VERSION_GREATER_EQUAL 10)
      list(APPEND chips 90-virtual)
    elseif(gpu VERSION_GREATER_EQUAL 9)
      list(APPEND chips 90a-real)
    elseif(gpu VERSION_GREATER_EQUAL 8)
      list(APPEND chips 80-real)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES chips)
  set(${var} "${chips}" PARENT_SCOPE)
endfunction()
