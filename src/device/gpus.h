/* gpus.h - the GPUs of this machine, counted without opening one: that takes long, and memory of
 * each. */
#ifndef MS_DEVICE_GPUS_H
#define MS_DEVICE_GPUS_H

/* "cuda:0", "cuda:1", ... up to this number can be used; 0 also in builds that have no GPUs. */
int ms_device_gpus(void);

int ms_device_cuda_count(void); /* only in builds that have it */

#endif
