/* What a .cu file needs to be compiled by a C++ compiler and run on one core: see cuda.py beside this file.

   Blocks run one after the other. The threads of a block are fibers that take turns at barriers, or a plain loop where
   the source has no barrier. Everything here is static: one shared library belongs to one .cu file. */
#ifndef FLOWC_CUDA_SHIM
#define FLOWC_CUDA_SHIM

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <type_traits>
#include <utility>

#define __CUDACC__ 1
#define __CUDA_ARCH__ FLOWC_ARCH
#define __global__
#define __device__
#define __host__
#define __managed__
#define __constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
/* One block at a time: what its threads share can be static. `extern __shared__` is rewritten before. */
#define __shared__ static

/* -- vectors ------------------------------------------------------------------------------------------------------ */
#define FLOWC_VECTORS(T, name)                                                              \
    struct name##1 { T x; };                                                                \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; };                                      \
    struct name##3 { T x, y, z; };                                                          \
    struct alignas(4 * sizeof(T) > 16 ? 16 : 4 * sizeof(T)) name##4 { T x, y, z, w; };      \
    static inline name##1 make_##name##1(T x) { return {x}; }                               \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                       \
    static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }               \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FLOWC_VECTORS(signed char, char)
FLOWC_VECTORS(unsigned char, uchar)
FLOWC_VECTORS(short, short)
FLOWC_VECTORS(unsigned short, ushort)
FLOWC_VECTORS(int, int)
FLOWC_VECTORS(unsigned int, uint)
FLOWC_VECTORS(long long, longlong)
FLOWC_VECTORS(unsigned long long, ulonglong)
FLOWC_VECTORS(float, float)
FLOWC_VECTORS(double, double)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

/* -- mathematics --------------------------------------------------------------------------------------------------- */
template <class A, class B>
static inline typename std::common_type<A, B>::type min(A a, B b) {
    typedef typename std::common_type<A, B>::type T;
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
static inline typename std::common_type<A, B>::type max(A a, B b) {
    typedef typename std::common_type<A, B>::type T;
    return T(a) < T(b) ? T(b) : T(a);
}
/* The C library declares functions of these names for itself. */
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __frsqrt_rn(float x) { return rsqrtf(x); }
static inline int __float2int_rn(float x) { return (int)rintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline int __float2int_rd(float x) { return (int)floorf(x); }
static inline int __float2int_ru(float x) { return (int)ceilf(x); }
static inline unsigned __float2uint_rn(float x) { return (unsigned)rintf(x); }
static inline float __int2float_rn(int x) { return (float)x; }
static inline int __float_as_int(float x) { int y; memcpy(&y, &x, 4); return y; }
static inline float __int_as_float(int x) { float y; memcpy(&y, &x, 4); return y; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __mul24(int x, int y) { return x * y; }
template <class T> static inline T __ldg(const T *p) { return *p; }

struct __half {
    uint16_t bits;
    __half() = default;
    __half(float x);
    operator float() const;
};
typedef __half half;
inline __half::operator float() const {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, rest = bits & 1023, out;
    float value;
    if (exponent == 0) {
        value = ldexpf((float)rest, -24);
        return sign ? -value : value;
    }
    out = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (rest << 13);
    memcpy(&value, &out, 4);
    return value;
}
inline __half::__half(float x) {
    uint32_t in;
    memcpy(&in, &x, 4);
    uint16_t sign = (uint16_t)((in >> 16) & 0x8000);
    float size = fabsf(x);
    if (x != x) bits = sign | 0x7e00;
    else if (size >= 65520.0f) bits = sign | 0x7c00;
    else if (size < 6.103515625e-5f) bits = sign | (uint16_t)rintf(ldexpf(size, 24));
    else {
        int exponent;
        float fraction = frexpf(size, &exponent); /* in [0.5, 1) */
        int rest = (int)rintf(ldexpf(fraction, 11)) - 1024;
        bits = sign | (uint16_t)(((exponent + 14) << 10) + rest);
    }
}
static inline float __half2float(__half x) { return (float)x; }
static inline __half __float2half(float x) { return __half(x); }
static inline __half __float2half_rn(float x) { return __half(x); }

/* -- atomics: no other thread works -------------------------------------------------------------------------------- */
#define FLOWC_ATOMIC(name, expression)                                                      \
    template <class T, class V> static inline T name(T *p, V given) {                       \
        T old = *p, value = (T)given;                                                       \
        *p = (T)(expression);                                                               \
        return old;                                                                         \
    }
FLOWC_ATOMIC(atomicAdd, old + value)
FLOWC_ATOMIC(atomicSub, old - value)
FLOWC_ATOMIC(atomicMax, old < value ? value : old)
FLOWC_ATOMIC(atomicMin, value < old ? value : old)
FLOWC_ATOMIC(atomicExch, value)
FLOWC_ATOMIC(atomicOr, old | value)
FLOWC_ATOMIC(atomicAnd, old & value)
FLOWC_ATOMIC(atomicXor, old ^ value)
FLOWC_ATOMIC(atomicInc, old >= value ? 0 : old + 1)
template <class T> static inline T atomicCAS(T *p, T expected, T value) {
    T old = *p;
    if (old == expected) *p = value;
    return old;
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}

/* -- threads of a block ---------------------------------------------------------------------------------------------- */
enum { FLOWC_RUNS, FLOWC_AT_BLOCK, FLOWC_AT_WARP, FLOWC_OVER };
struct flowc_fiber {
    ucontext_t context;
    int state, line;
    dim3 index;
};
static const size_t flowc_stack = 256 << 10;
static flowc_fiber flowc_fibers[1024];
static ucontext_t flowc_scheduler;
static unsigned flowc_current, flowc_threads;
static char *flowc_stacks;
static char *flowc_dynamic_shared;
static unsigned long long flowc_slots[1024];
static void (*flowc_body)(void **);
static void **flowc_arguments;

static void flowc_yield(int state, int line) {
    flowc_fiber &own = flowc_fibers[flowc_current];
    own.state = state;
    own.line = line;
    swapcontext(&own.context, &flowc_scheduler);
}
#define __syncthreads() flowc_yield(FLOWC_AT_BLOCK, __LINE__)
#define __syncwarp(...) flowc_yield(FLOWC_AT_WARP, __LINE__)

template <class T> static T flowc_shuffle(T value, int other, int width) {
    flowc_slots[flowc_current] = 0;
    memcpy(&flowc_slots[flowc_current], &value, sizeof(T));
    flowc_yield(FLOWC_AT_WARP, 0);
    unsigned lane = flowc_current % 32, first = lane / width * width, wanted = first + (unsigned)other;
    if (other >= 0 && other < width && flowc_current - lane + wanted < flowc_threads)
        memcpy(&value, &flowc_slots[flowc_current - lane + wanted], sizeof(T));
    flowc_yield(FLOWC_AT_WARP, 0);
    return value;
}
#define FLOWC_LANE(width) ((int)(flowc_current % 32) % (width))
template <class T> static T __shfl_sync(unsigned, T v, int from, int w = 32) { return flowc_shuffle(v, from % w, w); }
template <class T> static T __shfl_down_sync(unsigned, T v, unsigned d, int w = 32) {
    return flowc_shuffle(v, FLOWC_LANE(w) + (int)d, w);
}
template <class T> static T __shfl_up_sync(unsigned, T v, unsigned d, int w = 32) {
    return flowc_shuffle(v, FLOWC_LANE(w) - (int)d, w);
}
template <class T> static T __shfl_xor_sync(unsigned, T v, int mask, int w = 32) {
    return flowc_shuffle(v, FLOWC_LANE(w) ^ mask, w);
}
static inline unsigned __ballot_sync(unsigned, int yes) {
    unsigned bits = 0, first = flowc_current / 32 * 32;
    flowc_slots[flowc_current] = yes != 0;
    flowc_yield(FLOWC_AT_WARP, 0);
    for (unsigned i = 0; i < 32 && first + i < flowc_threads; i++)
        if (flowc_fibers[first + i].state != FLOWC_OVER && flowc_slots[first + i]) bits |= 1u << i;
    flowc_yield(FLOWC_AT_WARP, 0);
    return bits;
}
static inline int __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
static inline int __all_sync(unsigned mask, int yes) { return __ballot_sync(mask, !yes) == 0; }

static void flowc_start() {
    flowc_body(flowc_arguments);
    flowc_yield(FLOWC_OVER, 0);
}

/* All threads of the block in turns; false where they wait for each other at different barriers. */
static bool flowc_block() {
    for (unsigned i = 0; i < flowc_threads; i++) {
        flowc_fiber &one = flowc_fibers[i];
        getcontext(&one.context);
        one.context.uc_stack.ss_sp = flowc_stacks + i * flowc_stack;
        one.context.uc_stack.ss_size = flowc_stack;
        one.context.uc_link = 0;
        makecontext(&one.context, flowc_start, 0);
        one.state = FLOWC_RUNS;
        one.index = dim3(i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y);
    }
    for (;;) {
        for (flowc_current = 0; flowc_current < flowc_threads; flowc_current++) {
            flowc_fiber &one = flowc_fibers[flowc_current];
            if (one.state != FLOWC_RUNS) continue;
            threadIdx = one.index;
            swapcontext(&flowc_scheduler, &one.context);
        }
        unsigned over = 0, at_block = 0, released = 0;
        int line = -1;
        bool together = true;
        for (unsigned i = 0; i < flowc_threads; i++) {
            flowc_fiber &one = flowc_fibers[i];
            over += one.state == FLOWC_OVER;
            at_block += one.state == FLOWC_AT_BLOCK;
            if (one.state == FLOWC_AT_BLOCK) {
                together = together && (line < 0 || line == one.line);
                line = one.line;
            }
            if (one.state == FLOWC_AT_WARP) one.state = FLOWC_RUNS, released++;
        }
        if (over == flowc_threads) return true;
        if (released) continue;
        if (!together) return false;
        for (unsigned i = 0; i < flowc_threads; i++)
            if (flowc_fibers[i].state == FLOWC_AT_BLOCK) flowc_fibers[i].state = FLOWC_RUNS;
    }
}

template <class... P, size_t... I>
static inline void flowc_spread(void (*kernel)(P...), void **arguments, std::index_sequence<I...>) {
    kernel(*reinterpret_cast<P *>(arguments[I])...);
}
template <class... P> static inline void flowc_apply(void (*kernel)(P...), void **arguments) {
    flowc_spread(kernel, arguments, std::make_index_sequence<sizeof...(P)>());
}

/* 0, or 1 where threads wait at different barriers. */
static int flowc_launch(void (*body)(void **), void **arguments, const unsigned *grid, const unsigned *block,
                        size_t shared, int barriers) {
    gridDim = dim3(grid[0], grid[1], grid[2]);
    blockDim = dim3(block[0], block[1], block[2]);
    flowc_threads = block[0] * block[1] * block[2];
    flowc_body = body;
    flowc_arguments = arguments;
    if (barriers && !flowc_stacks)
        flowc_stacks = (char *)mmap(0, flowc_stack * 1024, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    flowc_dynamic_shared = (char *)aligned_alloc(256, (shared + 511) / 256 * 256);
    int status = 0;
    for (unsigned z = 0; z < grid[2] && !status; z++)
        for (unsigned y = 0; y < grid[1] && !status; y++)
            for (unsigned x = 0; x < grid[0] && !status; x++) {
                blockIdx = dim3(x, y, z);
                memset(flowc_dynamic_shared, 0xA5, shared);
                if (barriers) {
                    if (!flowc_block()) status = 1;
                    continue;
                }
                for (unsigned c = 0; c < block[2]; c++)
                    for (unsigned b = 0; b < block[1]; b++)
                        for (unsigned a = 0; a < block[0]; a++) {
                            threadIdx = dim3(a, b, c);
                            body(arguments);
                        }
            }
    free(flowc_dynamic_shared);
    return status;
}

/* -- what a kernel takes: `r8` a pointer to constant things aligned to 8, `w8` to others, `v4` a value of 4 bytes ------ */
template <class T> struct flowc_parameter {
    static int text(char *to) { return sprintf(to, "v%d ", (int)sizeof(T)); }
};
template <class T, bool = std::is_void<T>::value> struct flowc_alignment { static const int value = alignof(T); };
template <class T> struct flowc_alignment<T, true> { static const int value = 1; };
template <class T> struct flowc_parameter<T *> {
    static int text(char *to) {
        return sprintf(to, "%c%d ", std::is_const<T>::value ? 'r' : 'w', flowc_alignment<T>::value);
    }
};
template <class... P> static const char *flowc_signature(void (*)(P...)) {
    static char text[16 * sizeof...(P) + 1];
    char *end = text;
    *end = 0;
    int unused[] = {0, (end += flowc_parameter<P>::text(end), 0)...};
    (void)unused;
    return text;
}
#define FLOWC_KERNEL(name)                                                                                        \
    extern "C" const char *flowc_signature_of_##name() { return flowc_signature(name); }                           \
    static void flowc_body_of_##name(void **arguments) { flowc_apply(name, arguments); }                           \
    extern "C" int flowc_launch_##name(void **arguments, const unsigned *grid, const unsigned *block,              \
                                       size_t shared, int barriers) {                                              \
        return flowc_launch(flowc_body_of_##name, arguments, grid, block, shared, barriers);                       \
    }
#endif
