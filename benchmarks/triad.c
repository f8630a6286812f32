/* The memory bandwidth of this machine: the triad a = b + s c of McCalpin's STREAM, by all cores of the affinity.
 *
 *     triad CELLS        float arrays of CELLS elements each, which should be 4 x the last cache
 *
 * A worker of the benchmarks: it prints `ready`, and answers each line `run N` by the seconds that N passes took, of
 * 3 x 4 x CELLS bytes each. Stores into the cache first fetch what they overwrite, which STREAM does not count; stores
 * past the cache do not: both are tried, and the faster one counts.
 */
#include <immintrin.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *allocate(size_t n) {
    float *array = aligned_alloc(64, n * sizeof *array);
    if (!array) {
        fprintf(stderr, "triad: no memory for %zu floats\n", n);
        exit(1);
    }
    return array;
}

static void plain(float *restrict a, const float *restrict b, const float *restrict c, float s, long n) {
#pragma omp parallel for simd schedule(static) aligned(a, b, c : 64)
    for (long i = 0; i < n; i++) a[i] = b[i] + s * c[i];
}

static void streaming(float *restrict a, const float *restrict b, const float *restrict c, float s, long n) {
#if defined(__AVX512F__)
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i += 16)
        _mm512_stream_ps(a + i, _mm512_fmadd_ps(_mm512_set1_ps(s), _mm512_load_ps(c + i), _mm512_load_ps(b + i)));
#elif defined(__AVX__)
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i += 8)
        _mm256_stream_ps(a + i, _mm256_add_ps(_mm256_load_ps(b + i),
                                              _mm256_mul_ps(_mm256_set1_ps(s), _mm256_load_ps(c + i))));
#else
    plain(a, b, c, s, n);
#endif
}

int main(int argc, char **argv) {
    long n = argc > 1 ? atol(argv[1]) : 1L << 25;
    n = (n + 15) / 16 * 16;
    float *a = allocate(n), *b = allocate(n), *c = allocate(n);
#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) a[i] = 0.0f, b[i] = 1.0f, c[i] = 2.0f;
    printf("ready {\"threads\": %d, \"cells\": %ld}\n", omp_get_max_threads(), n);
    fflush(stdout);
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        long passes = 0;
        if (sscanf(line, "run %ld", &passes) != 1) break;
        double best = 0.0;
        for (int way = 0; way < 2; way++) {
            double begin = omp_get_wtime();
            for (long k = 0; k < passes; k++) (way ? streaming : plain)(a, b, c, 0.5f, n);
#if defined(__SSE__)
            _mm_sfence();
#endif
            double seconds = omp_get_wtime() - begin;
            if (way == 0 || seconds < best) best = seconds;
        }
        if (a[n / 2] != 2.0f) {
            fprintf(stderr, "triad: wrong sum\n");
            return 1;
        }
        printf("took %.9f\n", best);
        fflush(stdout);
    }
    return 0;
}
