/* bases.h - the base optimizers that have a file of their own: rows of the table in
 * base_optimizers.c. */
#ifndef MS_OPTIM_BASES_H
#define MS_OPTIM_BASES_H

#include "optim/optim.h"

musec_status ms_soap_direction(ms_device *d, const ms_direction *p);
uint64_t     ms_soap_bytes(const musec_optim_config *cfg, ms_mat whole);
musec_status ms_shampoo_direction(ms_device *d, const ms_direction *p);
uint64_t     ms_shampoo_bytes(const musec_optim_config *cfg, ms_mat whole);
musec_status ms_kl_shampoo_direction(ms_device *d, const ms_direction *p);
uint64_t     ms_kl_shampoo_bytes(const musec_optim_config *cfg, ms_mat whole);
double ms_kl_shampoo_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max);
musec_status ms_dion2_direction(ms_device *d, const ms_direction *p);
uint64_t     ms_dion2_bytes(const musec_optim_config *cfg, ms_mat whole);
double       ms_dion2_max_grad(const musec_optim_config *cfg, double threshold, double dtype_max);

#endif
