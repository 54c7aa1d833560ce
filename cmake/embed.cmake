# musec_embed(VAR NAME FILE): a C file in VAR that holds the bytes of FILE and a NUL as
# ms_embedded_NAME, and their number without the NUL as ms_embedded_NAME_bytes.  It is made again
# when FILE changes.

function(musec_bytes var file) # as they stand in a C array
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "((0x..,){20})" "\\1\n" bytes "${bytes}")
  set(${var} "${bytes}" PARENT_SCOPE)
endfunction()

function(musec_embed var name file)
  musec_bytes(bytes ${file})
  set(source ${PROJECT_BINARY_DIR}/embedded/${name}.c)
  file(CONFIGURE OUTPUT ${source} CONTENT "/* ${name}.c - made from ${file} by cmake/embed.cmake. */
#include \"core/embedded.h\"

const unsigned char ms_embedded_${name}[] = {
${bytes}0};
const size_t ms_embedded_${name}_bytes = sizeof ms_embedded_${name} - 1;
")
  set(${var} ${source} PARENT_SCOPE)
endfunction()

musec_embed(embedded_sources sources data/sources.json)
musec_embed(embedded_parquet parquet scripts/parquet_to_jsonl)
musec_embed(embedded_page_css page_css src/report/page.css)
musec_embed(embedded_page_js page_js src/report/page.js)
musec_embed(embedded_watch_page watch_page src/report/watch.html)
musec_embed(embedded_hf_configuration hf_configuration src/train/hf/configuration_musec.py)
musec_embed(embedded_hf_modeling hf_modeling src/train/hf/modeling_musec.py)

# musec_embed_all(VAR NAME GLOB): the same for all files that match, as the table
# ms_embedded_NAME[] of ms_embedded_file, in the order of their names, without their endings; a row
# of NULL ends it.

function(musec_embed_all var name glob)
  file(GLOB files CONFIGURE_DEPENDS ${glob})
  set(arrays "")
  set(rows "")
  foreach(file ${files})
    get_filename_component(stem ${file} NAME_WE)
    string(MAKE_C_IDENTIFIER ${stem} array)
    musec_bytes(bytes ${file})
    string(APPEND arrays "static const unsigned char file_${array}[] = {\n${bytes}0};\n")
    string(APPEND rows "    { \"${stem}\", file_${array}, sizeof file_${array} - 1 },\n")
  endforeach()
  set(source ${PROJECT_BINARY_DIR}/embedded/${name}.c)
  file(CONFIGURE OUTPUT ${source} CONTENT "/* ${name}.c - made by cmake/embed.cmake. */
#include \"core/embedded.h\"

${arrays}
const ms_embedded_file ms_embedded_${name}[] = {
${rows}    { NULL, NULL, 0 },
};
")
  set(${var} ${source} PARENT_SCOPE)
endfunction()

musec_embed_all(embedded_experiments experiments experiments/*.json)
