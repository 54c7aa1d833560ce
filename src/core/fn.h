/* fn.h - MS_FN: how a function is declared whose one definition serves every device. */
#ifndef MS_CORE_FN_H
#define MS_CORE_FN_H

#ifdef __CUDACC__
#define MS_FN static __host__ __device__ inline
#else
#define MS_FN static inline
#endif

#endif
