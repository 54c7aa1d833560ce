/* weights.c - see weights.h. */
#include "train/weights.h"

#include <stdlib.h>
#include <string.h>

#include "core/safetensors.h"

/* ---- writing --------------------------------------------------------------------------------- */

struct weights_source {
    ms_device    *d;
    const ms_gpt *gpt;
    void         *host; /* a buffer for the largest tensor */
};

static size_t bytes_of(ms_mat x)
{
    return (size_t)x.rows * (size_t)x.cols * ms_dtype_bytes(x.dtype); /* Parameters are dense. */
}

size_t ms_weights_buffer(const ms_gpt *gpt)
{
    size_t max = 1;
    for (size_t i = 0; i < ms_gpt_n_params(gpt); i++) {
        const size_t bytes = bytes_of(ms_gpt_param(gpt, i)->weight);
        if (bytes > max) max = bytes;
    }
    return max;
}

static musec_status next_tensor(ms_error *e, void *arg, size_t index, const void **data)
{
    struct weights_source *s  = arg;
    const ms_mat           w  = ms_gpt_param(s->gpt, index)->weight;
    const musec_status     st = s->d->ops->download(s->d, w.data, bytes_of(w), s->host);
    if (st != MUSEC_OK) ms_error_set(e, "%s", s->d->error.text);
    *data = s->host;
    return st;
}

musec_status ms_weights_write(ms_error *e, const char *path, ms_device *d, const ms_gpt *gpt)
{
    static const char *const metadata[][2] = { { "format", "pt" } }; /* required by loaders */
    const size_t             n             = ms_gpt_n_params(gpt);
    struct weights_source    source        = { d, gpt, malloc(ms_weights_buffer(gpt)) };
    ms_tensor_out           *tensors       = calloc(n, sizeof *tensors);
    musec_status             st;

    if (tensors == NULL || source.host == NULL)
        TRY(ms_fail(e, MUSEC_ENOMEM, "%s: not enough memory", path));
    for (size_t i = 0; i < n; i++) {
        const ms_gpt_tensor *p = ms_gpt_param(gpt, i);
        tensors[i]             = (ms_tensor_out){ .name  = p->name,
                                                  .dtype = p->weight.dtype,
                                                  .ndim  = 2,
                                                  .shape = { p->weight.rows, p->weight.cols } };
    }
    st = ms_safetensors_write_from(e, path, &(ms_safetensors_writer){ next_tensor, &source },
                                   tensors, n, metadata, COUNT(metadata));
done:
    free(tensors);
    free(source.host);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static musec_status find(ms_error *e, const ms_safetensors *file, const ms_gpt_tensor *p,
                         size_t *index)
{
    const size_t          i = ms_safetensors_find(file, p->name);
    const ms_tensor_info *t;
    if (i == file->n_tensors)
        return ms_fail(e, MUSEC_EFORMAT, "%s: there is no tensor %s", file->path, p->name);
    t = &file->tensors[i];
    if (t->ndim != 2 || t->shape[0] != p->weight.rows || t->shape[1] != p->weight.cols ||
        strcmp(t->dtype, p->weight.dtype == MUSEC_F32 ? "F32" : "F64") != 0)
        return ms_fail(e, MUSEC_EFORMAT,
                       "%s: tensor %s does not have the model's shape, %lld x %lld", file->path,
                       p->name, (long long)p->weight.rows, (long long)p->weight.cols);
    *index = i;
    return MUSEC_OK;
}

musec_status ms_weights_read(ms_error *e, const char *path, ms_device *d, ms_gpt *gpt)
{
    const size_t   n    = ms_gpt_n_params(gpt);
    ms_safetensors file = { 0 };
    ms_npy         data = { 0 };
    size_t         at;
    musec_status   st;

    TRY(ms_safetensors_open(e, path, &file));
    if (file.n_tensors != n)
        TRY(ms_fail(e, MUSEC_EFORMAT, "%s: %zu tensors, but the model has %zu parameters", path,
                    file.n_tensors, n));
    for (size_t i = 0; i < n; i++) /* check all before changing any */
        TRY(find(e, &file, ms_gpt_param(gpt, i), &at));
    for (size_t i = 0; i < n; i++) {
        const ms_mat w = ms_gpt_param(gpt, i)->weight;
        TRY(find(e, &file, ms_gpt_param(gpt, i), &at));
        TRY(ms_safetensors_read(e, &file, at, &data));
        st = d->ops->upload(d, data.data, bytes_of(w), w.data);
        if (st != MUSEC_OK) TRY(ms_fail(e, st, "%s: %s", path, d->error.text));
        ms_npy_free(&data);
    }
    st = ms_gpt_refresh(gpt);
    if (st != MUSEC_OK) ms_error_set(e, "%s: %s", path, d->error.text);
done:
    ms_npy_free(&data);
    ms_safetensors_close(&file);
    return st;
}
