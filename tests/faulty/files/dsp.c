int smooth(void *state, const float *x, float *y, const smooth_params *p)
{
    y[0] = p->weight * x[0]
    return 0;
}
