/* device_list.c - the devices that share the runs of a sweep. */
#define _POSIX_C_SOURCE 200809L /* strdup */
#include "experiment/device_list.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"

musec_status ms_device_list_read(ms_error *e, const char *list, ms_device_list *out)
{
    musec_ctx   *ctx = NULL;
    musec_status st  = MUSEC_OK;

    if (list == NULL) return MUSEC_OK;
    out->text = strdup(list);
    if (out->text == NULL) return ms_fail(e, MUSEC_ENOMEM, "not enough memory");
    for (char *at = out->text, *next = at; next != NULL; at = next) {
        next = strchr(at, ',');
        if (next != NULL) *next++ = '\0';
        if (out->n == MS_DEVICE_LIST)
            return ms_fail(e, MUSEC_EINVAL, "--device names more than %d devices", MS_DEVICE_LIST);
        TRY(musec_ctx_create_why(&ctx, at, e->text, sizeof e->text));
        musec_ctx_destroy(ctx);
        out->name[out->n++] = at;
    }
done:
    return st;
}

void ms_device_list_free(ms_device_list *list)
{
    free(list->text);
    *list = (ms_device_list){ 0 };
}
