extern "C" __global__ void grey(const unsigned char *frame, unsigned char *out)
{
    out[threadIdx.x] = frame[threadIdx.x];
}
