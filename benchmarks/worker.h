/* What the yardsticks in C share: rows of aligned floats in bands of rows, one a thread, and the commands of a worker.
 *
 * A worker prints `ready`, and answers each line `run N` by the seconds that N steps took, and `save FILE` by writing
 * u, v, eta to FILE.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BLOCK
#define BLOCK 512
#endif
#define LEFT 16 /* floats before the first cell of a row, the last of them its ghost: rows stay aligned */
#define RIGHT 32
#define ROW static inline __attribute__((always_inline)) void

static float *allocate(long n) {
    float *array = aligned_alloc(64, (n * sizeof *array + 63) / 64 * 64);
    if (!array) {
        fprintf(stderr, "no memory for %ld floats\n", n);
        exit(1);
    }
    return array;
}

static float *zeros(long n) {
    float *array = allocate(n);
    memset(array, 0, n * sizeof *array);
    return array + LEFT;
}

static long stride_of(long nx) { return (nx + LEFT + RIGHT + 15) / 16 * 16; }

static long band(long ny, int thread, int threads) { return ny * thread / threads; }

/* `ny` rows and `ghosts` more on both sides; every thread first touches its band, so that it lies in its memory. They
 * hold the next field of `file` (float32, (NY, NX)), or zeros without one. */
static float *field_of(FILE *file, long nx, long ny, long ghosts) {
    const long stride = stride_of(nx);
    float *whole = allocate(nx * ny), *field = allocate(stride * (ny + 2 * ghosts)) + LEFT + ghosts * stride;
    if (file && fread(whole, sizeof(float), nx * ny, file) != (size_t)(nx * ny)) {
        fprintf(stderr, "the file of the state does not hold a field of %ld x %ld float32\n", nx, ny);
        exit(1);
    }
#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const long j0 = band(ny, thread, threads), j1 = band(ny, thread + 1, threads);
        for (long j = thread ? j0 : -ghosts; j < (thread == threads - 1 ? ny + ghosts : j1); j++) {
            memset(field + j * stride - LEFT, 0, stride * sizeof(float));
            if (file && j >= 0 && j < ny) memcpy(field + j * stride, whole + j * nx, nx * sizeof(float));
        }
    }
    free(whole);
    return field;
}

static FILE *state_of(const char *name) {
    FILE *file = fopen(name, "rb");
    if (!file) {
        fprintf(stderr, "there is no file %s\n", name);
        exit(1);
    }
    return file;
}

static int save(const char *name, long nx, long ny, float *const fields[3]) {
    FILE *file = fopen(name, "wb");
    size_t written = 0;
    for (int k = 0; file && k < 3; k++)
        for (long j = 0; j < ny; j++) written += fwrite(fields[k] + j * stride_of(nx), sizeof(float), nx, file);
    return file && !fclose(file) && written == (size_t)(3 * nx * ny);
}

/* Answer lines of standard input until another one comes. `steps` makes a number of steps after those that were taken;
 * `fields` gives u, v, eta. */
static void serve(void (*steps)(long count, long taken), float *const *(*fields)(void), long nx, long ny) {
    printf("ready {\"threads\": %d, \"block\": %d}\n", omp_get_max_threads(), BLOCK);
    fflush(stdout);
    char line[4096], name[4096];
    for (long taken = 0, count; fgets(line, sizeof line, stdin);) {
        if (sscanf(line, "run %ld", &count) == 1) {
            const double begin = omp_get_wtime();
            steps(count, taken);
            printf("took %.9f\n", omp_get_wtime() - begin);
            taken += count;
        } else if (sscanf(line, "save %4095[^\n]", name) == 1)
            printf(save(name, nx, ny, fields()) ? "saved\n" : "failed\n");
        else
            break;
        fflush(stdout);
    }
}
