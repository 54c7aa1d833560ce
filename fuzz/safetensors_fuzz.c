/* safetensors_fuzz.c - any bytes as a .safetensors file: the header, then every tensor.
 *
 * Tensors and metadata that are read, written and read again are unchanged. */
#include <stdlib.h>
#include <string.h>

#include "core/safetensors.h"
#include "fuzz.h"

static void check_again(ms_safetensors *s, const ms_tensor_out *tensors, size_t n)
{
    const char *path = fuzz_path("again.safetensors");
    const char *(*texts)[2];
    ms_error       e = { "" };
    ms_safetensors again;

    texts = calloc(s->n_metadata + 1, sizeof *texts);
    REQUIRE(texts != NULL);
    for (size_t i = 0; i < s->n_metadata; i++) {
        texts[i][0] = s->metadata[i][0];
        texts[i][1] = s->metadata[i][1];
    }
    REQUIRE(fuzz_ok(
        ms_safetensors_write(&e, path, tensors, n, (const char *const(*)[2])texts, s->n_metadata),
        &e));
    REQUIRE(fuzz_ok(ms_safetensors_open(&e, path, &again), &e));
    REQUIRE(again.n_tensors == n && again.n_metadata == s->n_metadata);
    for (size_t i = 0; i < s->n_metadata; i++) {
        const char *text = ms_safetensors_metadata(&again, texts[i][0]);
        REQUIRE(text != NULL && strcmp(text, texts[i][1]) == 0);
    }
    for (size_t i = 0; i < n; i++) { /* in another order: larger dtypes come first */
        ms_npy a;
        size_t k = 0;
        REQUIRE(fuzz_ok(ms_safetensors_read(&e, &again, i, &a), &e));
        while (k < n && strcmp(tensors[k].name, again.tensors[i].name) != 0)
            k++;
        REQUIRE(k < n && tensors[k].dtype == a.dtype && tensors[k].ndim == a.ndim);
        REQUIRE(memcmp(tensors[k].shape, a.shape, sizeof a.shape) == 0);
        REQUIRE(memcmp(tensors[k].data, a.data, fuzz_array_bytes(&a)) == 0);
        ms_npy_free(&a);
    }
    ms_safetensors_close(&again);
    free(texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char    *path = fuzz_file("in.safetensors", data, size);
    ms_error       e    = { "" };
    ms_safetensors s;
    ms_npy        *arrays;
    ms_tensor_out *tensors;
    size_t         n = 0;

    if (!fuzz_ok(ms_safetensors_open(&e, path, &s), &e)) return 0;
    arrays  = calloc(s.n_tensors + 1, sizeof *arrays);
    tensors = calloc(s.n_tensors + 1, sizeof *tensors);
    REQUIRE(arrays != NULL && tensors != NULL);
    for (size_t i = 0; i < s.n_tensors; i++) {
        if (!fuzz_ok(ms_safetensors_read(&e, &s, i, &arrays[n]), &e)) {
            REQUIRE(!ms_safetensors_readable(&s.tensors[i]) || s.tensors[i].ndim > MS_NPY_DIMS);
            continue;
        }
        REQUIRE(fuzz_array_bytes(&arrays[n]) <= 2 * size);
        tensors[n] = (ms_tensor_out){ .name  = s.tensors[i].name,
                                      .dtype = arrays[n].dtype,
                                      .ndim  = arrays[n].ndim,
                                      .data  = arrays[n].data };
        memcpy(tensors[n].shape, arrays[n].shape, sizeof tensors[n].shape);
        n++;
    }
    check_again(&s, tensors, n);
    for (size_t i = 0; i < n; i++)
        ms_npy_free(&arrays[i]);
    free(tensors);
    free(arrays);
    ms_safetensors_close(&s);
    return 0;
}
