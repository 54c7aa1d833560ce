# musec_embed(VAR NAME FILE): a C file in VAR that holds the bytes of FILE and a NUL as
# ms_embedded_NAME, and their number without the NUL as ms_embedded_NAME_bytes.  It is made again
# when FILE changes.

function(musec_embed var name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
  set(source ${PROJECT_BINARY_DIR}/embedded/${name}.c)
  file(CONFIGURE OUTPUT ${source} CONTENT "/* ${name}.c - made from ${file} by cmake/embed.cmake. */
#include \"data/embedded.h\"

const unsigned char ms_embedded_${name}[] = {
${bytes}0};
const size_t ms_embedded_${name}_bytes = sizeof ms_embedded_${name} - 1;
")
  set(${var} ${source} PARENT_SCOPE)
endfunction()

musec_embed(embedded_sources sources data/sources.json)
musec_embed(embedded_parquet parquet scripts/parquet_to_jsonl)
