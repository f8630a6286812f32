/* The yardstick: the model's benchmark step in C with OpenMP, by hand.
 *
 *     du/dt   = + mean_y(q mean_x(V)) - ddx(g eta + K) + [ddx(h nu T) + ddy(h_q nu S)] / h_u
 *     dv/dt   = - mean_x(q mean_y(U)) - ddy(g eta + K) + [ddx(h_q nu S) - ddy(h nu T)] / h_v
 *     deta/dt = - ddx(U) - ddy(V)
 *     h = H + eta,  U = mean_x(h) u,  V = mean_y(h) v,  q = (f + dv/dx - du/dy) / h_q,  h_q = mean_xy(h)
 *     K = (mean_x(u^2) + mean_y(v^2)) / 2,  T = du/dx - dv/dy,  S = du/dy + dv/dx
 *     AB2: x += dt [(3/2 + eps) F_n - (1/2 + eps) F_{n-1}], the first step Euler's
 *
 * Sadourny (1975), energy form, doi:10.1175/1520-0469(1975)032<0680:TDOFDM>2.0.CO;2, on a C-grid with u on east, v on
 * north faces; free-slip walls by ghost cells; f on a beta-plane; H an array.
 *
 * One sweep over the rows a step, in place: 6 arrays are read and written, and H is read, 52 bytes a cell. A row's
 * intermediates are computed once, into buffers of two rows that stay in the cache, in blocks of BLOCK columns. Each
 * thread has a band of rows, and keeps copies of its neighbours' edge rows, which they overwrite meanwhile.
 *
 *     shallow_water NX NY DX DY GRAVITY F0 BETA NU DT EPSILON STATE [THREADS [WAVEFRONT]]
 *
 * With WAVEFRONT = 1 several steps go over the rows in one sweep (temporal blocking): each thread makes a step of its own,
 * and follows the thread of the step before at a distance of LAG rows, which are still in the shared cache.
 *
 * STATE: a file of float32, H, u, v, eta, (NY, NX) each; a worker of the benchmarks (worker.h).
 */
#include <sched.h>
#include <stdatomic.h>

#include "worker.h"

#ifndef LAG
#define LAG 2 /* rows, 1 or more: a row needs the one north of it as the step before left it */
#endif

typedef struct {
    long nx, ny, stride;
    float per_dx, per_dy, gravity, nu, dt, epsilon;
    float *depth, *u, *v, *eta, *du, *dv, *deta, *f; /* f of the corners north of a row */
} Model;

typedef struct { /* rows that steps have finished, each counter on a cache line of its own */
    _Alignas(64) atomic_long rows;
} Progress;

typedef struct { /* one thread's rolling rows and copies of its neighbours' edge rows */
    float *h[2], *U[2], *B[2], *N[2], *V[2], *qV[2], *S[2], *qU, *south[3], *north[3];
} Rows;

/* Cells [a, b): thickness, transport, Bernoulli function and h nu T, from rows j and (v only) j - 1. */
ROW centres(const Model *m, const float *restrict depth, const float *restrict u, const float *restrict v,
            const float *restrict v_south, const float *restrict eta, float *restrict h, float *restrict U,
            float *restrict B, float *restrict N, long a, long b) {
    const float per_dx = m->per_dx, per_dy = m->per_dy, g = m->gravity, nu = m->nu;
#pragma omp simd
    for (long i = a; i < b; i++) {
        float here = depth[i] + eta[i], east = depth[i + 1] + eta[i + 1];
        h[i] = here;
        U[i] = 0.5f * (here + east) * u[i];
        B[i] = g * eta[i] + 0.25f * (u[i] * u[i] + u[i - 1] * u[i - 1] + v[i] * v[i] + v_south[i] * v_south[i]);
        N[i] = nu * here * ((u[i] - u[i - 1]) * per_dx - (v[i] - v_south[i]) * per_dy);
    }
}

/* Corners [a, b) between rows j and j + 1 (of u, h, U: *_north): V, q mean_x(V), q mean_y(U), h_q nu S. */
ROW corners(const Model *m, float f, const float *restrict u, const float *restrict u_north, const float *restrict v,
            const float *restrict h, const float *restrict h_north, const float *restrict U,
            const float *restrict U_north, float *restrict V, float *restrict qV, float *restrict qU,
            float *restrict S, long a, long b) {
    const float per_dx = m->per_dx, per_dy = m->per_dy, nu = 0.25f * m->nu;
#pragma omp simd
    for (long i = a; i < b; i++) {
        float west = h[i] + h_north[i], east = h[i + 1] + h_north[i + 1];
        float dv = (v[i + 1] - v[i]) * per_dx, du = (u_north[i] - u[i]) * per_dy;
        float q = (f + dv - du) / (west + east); /* a quarter of it: the 4 goes into what it multiplies */
        V[i] = 0.5f * west * v[i];
        qV[i] = q * (west * v[i] + east * v[i + 1]);
        qU[i] = 2.0f * q * (U[i] + U_north[i]);
        S[i] = nu * (west + east) * (du + dv);
    }
}

typedef struct {
    float now, before;
} Weights; /* of the two tendencies, times dt */

/* Cells [a, b) of row j, one step older, from rows of intermediates; faces on the walls are put back by `walls`. */
ROW update(const Model *m, Weights w, int moves, const Rows *r, int now, float *restrict u, float *restrict v,
           float *restrict eta, float *restrict du, float *restrict dv, float *restrict deta, long a, long b) {
    const float per_dx = m->per_dx, per_dy = m->per_dy;
    const float *restrict h = r->h[now], *restrict hn = r->h[!now], *restrict B = r->B[now], *restrict Bn = r->B[!now];
    const float *restrict N = r->N[now], *restrict Nn = r->N[!now], *restrict U = r->U[now], *restrict qU = r->qU;
    const float *restrict V = r->V[now], *restrict Vs = r->V[!now], *restrict qV = r->qV[now];
    const float *restrict qVs = r->qV[!now], *restrict S = r->S[now], *restrict Ss = r->S[!now];
    const float north = moves ? 1.0f : 0.0f; /* 0: this row's north faces are a wall */
#pragma omp simd
    for (long i = a; i < b; i++) {
        float force_x = 2.0f * ((N[i + 1] - N[i]) * per_dx + (S[i] - Ss[i]) * per_dy) / (h[i] + h[i + 1]);
        float force_y = 2.0f * ((S[i] - S[i - 1]) * per_dx - (Nn[i] - N[i]) * per_dy) / (h[i] + hn[i]);
        float along_x = 0.5f * (qV[i] + qVs[i]) - (B[i + 1] - B[i]) * per_dx + force_x;
        float along_y = north * (-0.5f * (qU[i] + qU[i - 1]) - (Bn[i] - B[i]) * per_dy + force_y);
        float rise = -(U[i] - U[i - 1]) * per_dx - (V[i] - Vs[i]) * per_dy;
        u[i] += w.now * along_x + w.before * du[i];
        v[i] += w.now * along_y + w.before * dv[i];
        eta[i] += w.now * rise + w.before * deta[i];
        du[i] = along_x, dv[i] = along_y, deta[i] = rise;
    }
}

static Rows rows_of_thread(long stride) {
    Rows r;
    float **pairs[] = {r.h, r.U, r.B, r.N, r.V, r.qV, r.S};
    for (int k = 0; k < 7; k++)
        for (int parity = 0; parity < 2; parity++) pairs[k][parity] = zeros(stride);
    for (int k = 0; k < 3; k++) r.south[k] = zeros(stride), r.north[k] = zeros(stride);
    r.qU = zeros(stride);
    return r;
}

/* What is needed of the rows south and north of the band [j0, j1), before their thread overwrites them. */
static void copy_edges(const Model *m, Rows *r, long j0, long j1) {
    const float *fields[] = {m->u, m->v, m->eta};
    for (int k = 0; k < 3; k++) {
        if (j0 > 0) memcpy(r->south[k], fields[k] + (j0 - 1) * m->stride, (m->nx + 1) * sizeof(float));
        if (j1 < m->ny) memcpy(r->north[k], fields[k] + j1 * m->stride, (m->nx + 1) * sizeof(float));
    }
}

/* The corners south of the band: at a wall nothing crosses them. */
static void first_corners(const Model *m, Rows *r, long j0, const float *wall) {
    const long s = m->stride, now = j0 & 1, n = m->nx;
    if (j0 == 0) {
        float *rows[] = {r->V[!now], r->qV[!now], r->S[!now]};
        for (int k = 0; k < 3; k++) memset(rows[k], 0, n * sizeof(float));
        centres(m, m->depth, m->u, m->v, wall, m->eta, r->h[now], r->U[now], r->B[now], r->N[now], 0, n + 1);
        return;
    }
    const float *u = r->south[0], *v = r->south[1], *eta = r->south[2];
    centres(m, m->depth + (j0 - 1) * s, u, v, v, eta, r->h[!now], r->U[!now], r->B[!now], r->N[!now], 0, n + 1);
    centres(m, m->depth + j0 * s, m->u + j0 * s, m->v + j0 * s, v, m->eta + j0 * s, r->h[now], r->U[now], r->B[now],
            r->N[now], 0, n + 1);
    corners(m, m->f[j0 - 1], u, m->u + j0 * s, v, r->h[!now], r->h[now], r->U[!now], r->U[now], r->V[!now],
            r->qV[!now], r->qU, r->S[!now], 0, n);
}

/* Wait until the step before has finished `rows` rows. */
static void wait_for(Progress *before, long rows) {
    for (long tries = 0; before && atomic_load_explicit(&before->rows, memory_order_acquire) < rows;)
        if (++tries % 1024 == 0) sched_yield();
}

/* One step of the rows [j0, j1). Row j is updated once row j + 1 has given its intermediates; block by block.
 * In a wavefront `before` is the progress of the step before and `mine` this step's; else they are NULL. */
static void sweep(const Model *m, Rows *r, Weights w, long j0, long j1, const float *wall, Progress *before,
                  Progress *mine) {
    const long s = m->stride, n = m->nx;
    wait_for(before, j0 + LAG < m->ny ? j0 + LAG : m->ny);
    first_corners(m, r, j0, wall);
    for (long j = j0; j < j1; j++) {
        wait_for(before, j + 1 + LAG < m->ny ? j + 1 + LAG : m->ny);
        const int now = j & 1, last = j == m->ny - 1;
        const long north = last ? j * s : (j + 1) * s; /* behind the wall, the last row again */
        const int copied = j + 1 == j1 && !last;
        float *u = m->u + j * s, *v = m->v + j * s, *eta = m->eta + j * s;
        const float *un = copied ? r->north[0] : m->u + north, *vn = copied ? r->north[1] : last ? wall : m->v + north;
        const float *en = copied ? r->north[2] : m->eta + north, *depth = m->depth + north;
        for (long a = 0; a < n; a += BLOCK) {
            const long b = a + BLOCK < n ? a + BLOCK : n, from = a ? a + 1 : 0;
            centres(m, depth, un, vn, v, en, r->h[!now], r->U[!now], r->B[!now], r->N[!now], from, b + 1);
            corners(m, m->f[j], u, un, v, r->h[now], r->h[!now], r->U[now], r->U[!now], r->V[now], r->qV[now], r->qU,
                    r->S[now], a, b);
            update(m, w, !last, r, now, u, v, eta, m->du + j * s, m->dv + j * s, m->deta + j * s, a, b);
        }
        u[n - 1] = 0.0f, m->du[j * s + n - 1] = 0.0f, v[n] = v[n - 1];
        if (mine) atomic_store_explicit(&mine->rows, j + 1, memory_order_release);
    }
}

static Weights weights(const Model *m, long step) {
    const float older = step ? 0.5f + m->epsilon : 0.0f;
    return (Weights){m->dt * (1.0f + older), -m->dt * older};
}

/* `count` steps, each thread's following the one before it over all rows. */
static void wavefront(const Model *m, long count, long taken, const float *wall) {
    Progress *progress = aligned_alloc(64, (count + 1) * sizeof *progress);
    for (long k = 0; k < count; k++) atomic_init(&progress[k].rows, 0);
#pragma omp parallel
    {
        static __thread Rows rows;
        static __thread int made;
        if (!made) rows = rows_of_thread(m->stride), made = 1;
        for (long k = omp_get_thread_num(); k < count; k += omp_get_num_threads())
            sweep(m, &rows, weights(m, taken + k), 0, m->ny, wall, k ? &progress[k - 1] : NULL, &progress[k]);
    }
    free(progress);
}

static void in_bands(const Model *m, long count, long taken, const float *wall) {
#pragma omp parallel
    {
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        const long j0 = band(m->ny, thread, threads), j1 = band(m->ny, thread + 1, threads);
        static __thread Rows rows;
        static __thread int made;
        if (!made) rows = rows_of_thread(m->stride), made = 1;
        for (long k = 0; k < count; k++) {
            copy_edges(m, &rows, j0, j1);
#pragma omp barrier
            sweep(m, &rows, weights(m, taken + k), j0, j1, wall, NULL, NULL);
#pragma omp barrier
        }
    }
}

static Model model;
static float *wall;
static int several;

static void steps(long count, long taken) { (several ? wavefront : in_bands)(&model, count, taken, wall); }

static float *const *fields(void) {
    static float *all[3];
    all[0] = model.u, all[1] = model.v, all[2] = model.eta;
    return all;
}

int main(int argc, char **argv) {
    if (argc < 12) {
        fprintf(stderr, "usage: shallow_water NX NY DX DY GRAVITY F0 BETA NU DT EPSILON STATE [THREADS [WAVEFRONT]]\n");
        return 2;
    }
    if (argc > 12) omp_set_num_threads(atoi(argv[12]));
    several = argc > 13 && atoi(argv[13]);
    Model *m = &model;
    const double dx = atof(argv[3]), dy = atof(argv[4]), f0 = atof(argv[6]), beta = atof(argv[7]);
    m->nx = atol(argv[1]), m->ny = atol(argv[2]), m->stride = stride_of(m->nx);
    m->per_dx = 1.0 / dx, m->per_dy = 1.0 / dy, m->gravity = atof(argv[5]);
    m->nu = atof(argv[8]), m->dt = atof(argv[9]), m->epsilon = atof(argv[10]);
    m->f = zeros(m->ny + LEFT + RIGHT), wall = zeros(m->stride);
    for (long j = 0; j < m->ny; j++) m->f[j] = f0 + beta * dy * (j + 1);
    float **state[] = {&m->depth, &m->u, &m->v, &m->eta, &m->du, &m->dv, &m->deta};
    FILE *file = state_of(argv[11]);
    for (int k = 0; k < 7; k++) *state[k] = field_of(k < 4 ? file : NULL, m->nx, m->ny, 0);
    fclose(file);
    for (long j = 0; j < m->ny; j++) { /* ghost cells behind the walls */
        float *depth = m->depth + j * m->stride, *v = m->v + j * m->stride;
        depth[m->nx] = depth[m->nx + 1] = depth[m->nx - 1], v[m->nx] = v[m->nx - 1];
    }
    serve(steps, fields, m->nx, m->ny);
    return 0;
}
