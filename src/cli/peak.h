/* peak.h - what a device reaches here, measured through its op table in about a second. */
#ifndef MS_CLI_PEAK_H
#define MS_CLI_PEAK_H

#include "device/device.h"

typedef struct ms_peak {
    double copy_gb_s;                   /* bytes read and written */
    double gemm_gflop_s[MUSEC_F16 + 1]; /* by dtype; 0: the device does not have it */
} ms_peak;

musec_status ms_peak_measure(ms_error *error, ms_device *d, ms_peak *out);

#endif
