/* What kernels take from here is in cuda_shim.h. */
