/* The yardstick of steps over a coast: ForwardBackwardHancock with MomentumConserving, WettingDrying, a beta-plane and
 * Manning's drag, in C with OpenMP, by hand; swmodel/dynamics/conserving.py and the modules that it names have the
 * equations.
 *
 *     coast NX NY DX DY GRAVITY F0 BETA ROUGHNESS THIN DT STATE [THREADS]
 *
 * STATE: a file of float32, H, u, v, eta, (NY, NX) each; a worker of the benchmarks (worker.h). u is on east, v on
 * north faces, and walls surround the cells, each of which may be wet.
 *
 * One sweep over the rows a step reads u, v, eta and H and writes u, v and eta to other arrays: 28 bytes a cell. What
 * one stage computes for the next ones is in RING rows of BLOCK columns and MARGIN more on each side, which stay in the
 * cache. A stage runs one row or more behind the one whose rows it reads; each thread has a band of rows, and computes
 * LEAD rows of its neighbours again.
 */
#include <math.h>
#include <stdint.h>

#define BLOCK 1024
#include "worker.h"

#define MARGIN 16 /* columns; a stage reads 8 at most */
#define RING 8    /* rows, a power of 2 */
#define LEAD 6
#define LAST 5 /* how many rows the last stage lies behind the first one */
#define GHOSTS 12
#define INLINE static inline __attribute__((always_inline))
#define EACH(a, b) _Pragma("omp simd") for (long i = (a); i < (b); i++)
#define MIN(a, b) ((b) < (a) ? (b) : (a))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define FROM(flow, low, high) ((flow) > 0.0f ? (low) : (high))

static const float STEEP = 0.015f, FROUDE = 2e-3f, SPEED_FLOOR = 1e-6f;

typedef float Row[BLOCK + 2 * MARGIN];

typedef struct {
    long nx, ny, stride;
    float per_dx, per_dy, gravity, thin, drag, dt; /* drag: gravity times the square of the roughness */
    float *depth, *now[3], *new[3];                /* H; u, v and eta before and after the step */
    float *f, *inside, *joined; /* f of the corners north of each row; 1 in columns within walls; 1 on their faces */
} Model;

typedef struct {                                           /* of a thread: rows of its block */
    Row h[RING], along_x[RING], along_y[RING], turn[RING]; /* thickness, h u, h v, f / h at corners */
    Row step_y[RING], rise[RING], gain_u[RING], gain_v[RING], drag_u[RING], drag_v[RING];
    Row raw_x[RING], raw_y[RING], share[RING], flux_x[RING], flux_y[RING], after[RING], level[RING];
} Rings;

/* The columns [start, start + count) of the grid, and the factors of walls there. */
typedef struct {
    const Model *m;
    Rings *r;
    long start, count;
    const float *inside, *joined;
} Block;

INLINE const float *row_of(const Block *at, const float *field, long j) {
    return field + j * at->m->stride + at->start;
}
#define STATE(k, j) row_of(at, m->now[k], j)
#define KEPT(name, j) (at->r->name[(j) & (RING - 1)] + MARGIN)
#define WET(j) ((j) >= 0 && (j) < m->ny ? 1.0f : 0.0f)

INLINE float cube_root(float a) {
    int32_t bits;
    float r;
    memcpy(&bits, &a, 4);
    bits = (int32_t)(1419890000.0f - (float)bits * (1.0f / 3.0f));
    memcpy(&r, &bits, 4);
    float e = 1.0f - a * r * r * r;
    r += r * e * (1.0f / 3.0f + e * (2.0f / 9.0f + e * (14.0f / 81.0f)));
    const float y = a * r * r;
    return y + y * (1.0f - y * r) * (2.0f / 3.0f);
}

/* Half of the monotonized central slope. */
INLINE float half_slope(float a, float b) {
    const float mean = 0.25f * (a + b), large = MAX(a, b), small = MIN(a, b);
    const float lowest = MIN(large, 0.0f), highest = MAX(small, 0.0f), x = MAX(mean, lowest);
    return MIN(x, highest);
}

INLINE float within(float x, float most) {
    const float low = MIN(x, most);
    return MAX(low, -most);
}

INLINE float four_thirds(float x) { return x * cube_root(x); }

/* dt k |u'| of an implicit step of drag from `star`. */
INLINE float resistance(float star, float old, float across, float k, float dt) {
    const float b = dt * k, size = fabsf(star), other = across * across, least = SPEED_FLOOR * SPEED_FLOOR;
    const float guess = size / (1.0f + b * sqrtf(old * old + other + least));
    const float per_length = 1.0f / sqrtf(guess * guess + other + least);
    const float a = 1.0f + b * other * per_length, c = b * guess * per_length;
    const float size_after = 2.0f * size / (a + sqrtf(a * a + 4.0f * c * size));
    return b * ((guess * size_after + other) * per_length);
}

/* The part of the difference of level across faces, step[i], that the flux is damped by; the jump J and h_u there. */
INLINE float damped(float before2, float before, float step, float next, float next2, float jump, float h) {
    const float curvature_before = before2 + step - 2.0f * before, curvature = before + next - 2.0f * step;
    const float curvature_next = step + next2 - 2.0f * next;
    const float sixth = 0.0625f * (curvature_before + curvature_next - 2.0f * curvature);
    const float lowest = MIN(step, 0.0f), highest = MAX(step, 0.0f), above = MAX(sixth, lowest);
    const float smooth = MIN(above, highest);
    const float steep = (STEEP * h) * (STEEP * h), square = step * step;
    return smooth + (MIN(square, steep) / steep) * (jump - smooth);
}

/* The difference of level across a face where water lies over both beds. */
INLINE float connected(float low, float high, float bed, float thin) {
    const float over = MAX(low, high) + bed;
    return over > thin ? high - low : 0.0f;
}

/* Rows of what lies around the faces of one axis: cells 1 and 2 on both sides, 0 and 3 beyond them; `on` is 1 on the
 * faces before, here and after, and `walls` another factor of it for the whole row. */
typedef struct {
    const float *h[4], *eta[2], *depth[2], *rise[2], *slope[2], *step[5], *on[3], *u, *gain;
    float walls[3];
} Around;

/* The fluxes per unit width through the faces, before the outflow is limited. */
ROW fluxes_through(const Model *m, Around r, float *restrict flux, long a, long b) {
    const float g = m->gravity, thin = m->thin;
    EACH (a, b) {
        const float on_before = r.on[0][i] * r.walls[0], on = r.on[1][i] * r.walls[1],
                    on_next = r.on[2][i] * r.walls[2];
        const float u = r.u[i] + r.gain[i], eta0 = r.eta[0][i], eta1 = r.eta[1][i], h0 = r.h[1][i], h1 = r.h[2][i];
        const float bed = MIN(r.depth[0][i], r.depth[1][i]), water = MIN(eta0, eta1) + bed;
        const float low = eta0 + r.slope[0][i], high = eta1 - r.slope[1][i], up = FROM(u, r.rise[0][i], r.rise[1][i]);
        const float from_level = FROM(u, low, high) + 0.5f * (r.depth[0][i] + r.depth[1][i]) + up;
        const float behind = FROM(u, (h0 - r.h[0][i]) * on_before, (r.h[3][i] - h1) * on_next);
        const float half = half_slope(behind, (h1 - h0) * on), from_h = FROM(u, h0 + half, h1 - half) + up;
        const float over = MAX(water, 0.0f), face = from_h + within(from_level - from_h, over);
        const float h_face = MAX(face, 0.0f), held = MAX(h_face, thin),
                    ledge = fabsf(r.depth[1][i] - r.depth[0][i]) + thin;
        const float deep = water - ledge > 0.0f ? on_before * on * on_next : 0.0f;
        const float unresolved =
            damped(r.step[0][i], r.step[1][i], r.step[2][i], r.step[3][i], r.step[4][i], high - low, held);
        flux[i] = h_face * u - 0.5f * deep * sqrtf(g * held) * unresolved;
    }
}

/* Row j: the thickness, and h u. */
ROW thickness(const Block *at, long j) {
    const Model *m = at->m;
    const float *depth = row_of(at, m->depth, j), *u = STATE(0, j), *eta = STATE(2, j), wet = WET(j);
    float *restrict h = KEPT(h, j), *restrict along = KEPT(along_x, j);
    EACH (-7, at->count + 8) {
        const float water = depth[i] + eta[i];
        h[i] = MAX(water, 0.0f) * (at->inside[i] * wet);
    }
    EACH (-7, at->count + 7)
        along[i] = 0.5f * (h[i] + h[i + 1]) * u[i];
}

/* Row j and its north neighbour: h v, the step of the level, and f / h at corners. */
ROW between_rows(const Block *at, long j) {
    const Model *m = at->m;
    const float *depth = row_of(at, m->depth, j), *depth_n = row_of(at, m->depth, j + 1);
    const float *v = STATE(1, j), *eta = STATE(2, j), *eta_n = STATE(2, j + 1), *h = KEPT(h, j), *h_n = KEPT(h, j + 1);
    float *restrict along = KEPT(along_y, j), *restrict step = KEPT(step_y, j), *restrict turn = KEPT(turn, j);
    const float both = WET(j) * WET(j + 1), rows = WET(j) + WET(j + 1), f = m->f[j < 0 ? 0 : j];
    EACH (-7, at->count + 7) {
        along[i] = 0.5f * (h[i] + h_n[i]) * v[i];
        step[i] = connected(eta[i], eta_n[i], MIN(depth[i], depth_n[i]), m->thin) * (both * at->inside[i]);
        const float cells = (at->inside[i] + at->inside[i + 1]) * rows, dry = cells > 0.0f ? 0.0f : 1.0f;
        const float water = h[i] + h[i + 1] + h_n[i] + h_n[i + 1], least = m->thin * cells + dry;
        turn[i] = f * cells / MAX(water, least);
    }
}

/* Rows of what a velocity u is stepped from: the other component v and the flow across it at the four points around,
 * f / h at the corners on both sides, and the values of u on the faces before and after it, along and across; `on` is 1
 * on faces that water may pass, `beside` on those of both sides. */
typedef struct {
    const float *u, *before, *after, *low, *high, *v[4], *flow[4], *turn[2], *on, *beside[2], *h[2], *eta[2];
    float sign, per_along, per_across, walls, walls_beside[2];
} Stepped;

/* The gains of a velocity in half a step, and the coefficients of its drag. */
ROW gains(const Model *m, Stepped r, float *restrict gain, float *restrict drag, long a, long b) {
    const float half = 0.5f * m->dt, g = m->gravity, thin = m->thin, k = m->drag;
    EACH (a, b) {
        const float on = r.on[i] * r.walls, u = r.u[i], h0 = r.h[0][i], h1 = r.h[1][i], mean = 0.5f * (h0 + h1);
        const float force = r.turn[0][i] * (r.flow[0][i] + r.flow[1][i]) + r.turn[1][i] * (r.flow[2][i] + r.flow[3][i]);
        const float along = u * (0.5f * (r.after[i] - r.before[i]));
        const float slope = (r.high[i] - u) * (r.beside[1][i] * r.walls_beside[1]) +
                            (u - r.low[i]) * (r.beside[0][i] * r.walls_beside[0]);
        const float across = 0.25f * (r.v[0][i] + r.v[1][i] + r.v[2][i] + r.v[3][i]);
        float rate = (0.25f * r.sign) * force - (g * (r.eta[1][i] - r.eta[0][i]) + along) * r.per_along -
                     across * (0.5f * slope) * r.per_across;
        drag[i] = k * on * four_thirds(1.0f / MAX(mean, thin));
        const float friction = resistance(u + half * rate, u, across, drag[i], half);
        rate = (rate - friction / half * u) / (1.0f + friction);
        const float covered = h0 > thin && h1 > thin ? on : 0.0f;
        gain[i] = within(half * rate * (half * r.per_along), 0.25f) * (covered / (r.per_along * half));
    }
}

/* The rows of u in row j, with the flow along y in that row and in the one south of it. */
INLINE Stepped rows_of_u(const Block *at, long j, const float *y, const float *y_s) {
    const Model *m = at->m;
    const float *u = STATE(0, j), *v = STATE(1, j), *v_s = STATE(1, j - 1), *h = KEPT(h, j), *eta = STATE(2, j);
    return (Stepped){.u = u,
                     .before = u - 1,
                     .after = u + 1,
                     .low = STATE(0, j - 1),
                     .high = STATE(0, j + 1),
                     .v = {v, v + 1, v_s, v_s + 1},
                     .flow = {y, y + 1, y_s, y_s + 1},
                     .turn = {KEPT(turn, j), KEPT(turn, j - 1)},
                     .on = at->joined,
                     .beside = {at->joined, at->joined},
                     .h = {h, h + 1},
                     .eta = {eta, eta + 1},
                     .sign = 1.0f,
                     .per_along = m->per_dx,
                     .per_across = m->per_dy,
                     .walls = WET(j),
                     .walls_beside = {WET(j) * WET(j - 1), WET(j) * WET(j + 1)}};
}

/* The rows of v on the faces between row j and the one north of it, with the flow along x in both. */
INLINE Stepped rows_of_v(const Block *at, long j, const float *x, const float *x_n) {
    const Model *m = at->m;
    const float *u = STATE(0, j), *u_n = STATE(0, j + 1), *v = STATE(1, j), *turn = KEPT(turn, j);
    const float north = WET(j) * WET(j + 1);
    return (Stepped){.u = v,
                     .before = STATE(1, j - 1),
                     .after = STATE(1, j + 1),
                     .low = v - 1,
                     .high = v + 1,
                     .v = {u, u - 1, u_n, u_n - 1},
                     .flow = {x, x_n, x - 1, x_n - 1},
                     .turn = {turn, turn - 1},
                     .on = at->inside,
                     .beside = {at->joined - 1, at->joined},
                     .h = {KEPT(h, j), KEPT(h, j + 1)},
                     .eta = {STATE(2, j), STATE(2, j + 1)},
                     .sign = -1.0f,
                     .per_along = m->per_dy,
                     .per_across = m->per_dx,
                     .walls = north,
                     .walls_beside = {north, north}};
}

/* Row j: the rise of the level and the gains of both velocities in half a step. */
ROW half_step(const Block *at, long j) {
    const Model *m = at->m;
    const float half = 0.5f * m->dt, per_dx = m->per_dx, per_dy = m->per_dy, *h = KEPT(h, j);
    const float *x = KEPT(along_x, j), *x_n = KEPT(along_x, j + 1), *y = KEPT(along_y, j), *y_s = KEPT(along_y, j - 1);
    float *restrict rise = KEPT(rise, j);
    EACH (-6, at->count + 6) {
        rise[i] = within(-half * ((x[i] - x[i - 1]) * per_dx + (y[i] - y_s[i]) * per_dy), 0.5f * h[i]);
    }
    gains(m, rows_of_u(at, j, y, y_s), KEPT(gain_u, j), KEPT(drag_u, j), -5, at->count + 5);
    gains(m, rows_of_v(at, j, x, x_n), KEPT(gain_v, j), KEPT(drag_v, j), -5, at->count + 5);
}

/* Rows j of fluxes through east and north faces. */
ROW raw_fluxes(const Block *at, long j) {
    const Model *m = at->m;
    const float *eta = STATE(2, j), *depth = row_of(at, m->depth, j), *h = KEPT(h, j), *rise = KEPT(rise, j);
    const float wet = WET(j), *in = at->inside, *on = at->joined;
    Row rows[4];
    float *restrict step = rows[0] + MARGIN, *restrict slope = rows[1] + MARGIN;
    float *restrict low = rows[2] + MARGIN, *restrict high = rows[3] + MARGIN;
    EACH (-6, at->count + 6) {
        step[i] = connected(eta[i], eta[i + 1], MIN(depth[i], depth[i + 1]), m->thin) * (wet * on[i]);
    }
    EACH (-5, at->count + 6)
        slope[i] = half_slope(step[i - 1], step[i]);
    const Around x = {{h - 1, h, h + 1, h + 2}, {eta, eta + 1},     {depth, depth + 1},
                      {rise, rise + 1},         {slope, slope + 1}, {step - 2, step - 1, step, step + 1, step + 2},
                      {on - 1, on, on + 1},     STATE(0, j),        KEPT(gain_u, j),
                      {wet, wet, wet}};
    fluxes_through(m, x, KEPT(raw_x, j), -4, at->count + 4);
    const float *before = KEPT(step_y, j - 1), *here = KEPT(step_y, j), *next = KEPT(step_y, j + 1);
    EACH (-4, at->count + 4)
        low[i] = half_slope(before[i], here[i]), high[i] = half_slope(here[i], next[i]);
    const Around y = {{KEPT(h, j - 1), h, KEPT(h, j + 1), KEPT(h, j + 2)},
                      {eta, STATE(2, j + 1)},
                      {depth, row_of(at, m->depth, j + 1)},
                      {rise, KEPT(rise, j + 1)},
                      {low, high},
                      {KEPT(step_y, j - 2), before, here, next, KEPT(step_y, j + 2)},
                      {in, in, in},
                      STATE(1, j),
                      KEPT(gain_v, j),
                      {wet * WET(j - 1), wet * WET(j + 1), WET(j + 1) * WET(j + 2)}};
    fluxes_through(m, y, KEPT(raw_y, j), -4, at->count + 4);
}

/* Row j: the share of what leaves a cell that it has. */
ROW shares(const Block *at, long j) {
    const Model *m = at->m;
    const float *h = KEPT(h, j), *x = KEPT(raw_x, j), *y = KEPT(raw_y, j), *y_s = KEPT(raw_y, j - 1);
    float *restrict share = KEPT(share, j);
    const float safe = (1.0f + 32.0f * 1.1920929e-7f) * m->dt;
    EACH (-3, at->count + 4) {
        const float leaving = safe * ((MAX(x[i], 0.0f) - MIN(x[i - 1], 0.0f)) * m->per_dx +
                                      (MAX(y[i], 0.0f) - MIN(y_s[i], 0.0f)) * m->per_dy);
        share[i] = leaving <= h[i] ? 1.0f : h[i] / leaving;
    }
}

/* Row j: fluxes with that share, and the thickness and the level after the step. */
ROW fluxes(const Block *at, long j) {
    const Model *m = at->m;
    const float *x = KEPT(raw_x, j), *y = KEPT(raw_y, j), *share = KEPT(share, j), *share_n = KEPT(share, j + 1);
    const float *h = KEPT(h, j), *eta = STATE(2, j), *y_s = KEPT(flux_y, j - 1);
    float *restrict along_x = KEPT(flux_x, j), *restrict along_y = KEPT(flux_y, j);
    float *restrict after = KEPT(after, j), *restrict level = KEPT(level, j);
    EACH (-3, at->count + 3) {
        along_x[i] = x[i] * FROM(x[i], share[i], share[i + 1]);
        along_y[i] = y[i] * FROM(y[i], share[i], share_n[i]);
    }
    EACH (-2, at->count + 3) {
        const float rate = -((along_x[i] - along_x[i - 1]) * m->per_dx + (along_y[i] - y_s[i]) * m->per_dy);
        after[i] = h[i] + m->dt * rate;
        level[i] = eta[i] + m->dt * rate;
    }
}

/* The velocity that `through` carries past a cell or corner, less the one on its low side: from the differences before,
 * across and after it, limited, and the gains of half a step on both sides. */
INLINE float beyond(float through, float before, float step, float next, float gain_low, float gain_high) {
    const float half = half_slope(FROM(through, before, next), step);
    return FROM(through, half, step - half) + FROM(through, gain_low, gain_high);
}

/* Rows of what the last stage needs besides Stepped: u on the five faces along and across the flow, the gains on the
 * three in the middle of both, the fluxes along on those, and the factors of the four steps across. */
typedef struct {
    const float *u[5], *across[5], *gain[3], *gain_across[3], *flux[3], *steps_on[4], *after[2], *level[2], *depth[2];
    const float *drag;
    float steps_walls[4];
} Advected;

/* The velocities after the step. */
ROW velocities(const Model *m, Stepped s, Advected r, float *restrict new, long count) {
    const float g = m->gravity, thin = m->thin, dt = m->dt, per_d = s.per_along,
                per_froude = 1.0f / (FROUDE * FROUDE * g);
    EACH (0, count) {
        const float on = s.on[i] * s.walls, u = r.u[2][i], after0 = r.after[0][i], after1 = r.after[1][i];
        const float force = s.turn[0][i] * (s.flow[0][i] + s.flow[1][i]) + s.turn[1][i] * (s.flow[2][i] + s.flow[3][i]);
        const float thick = 0.5f * (s.h[0][i] + s.h[1][i]), held = 0.5f * (after0 + after1), most = MAX(thick, held);
        const float per_h = 1.0f / MAX(most, thin), per_square = per_h * per_froude;
        /* along: the fluxes through the cells on both sides */
        const float low = 0.5f * (r.flux[0][i] + r.flux[1][i]), high = 0.5f * (r.flux[1][i] + r.flux[2][i]);
        const float step0 = r.u[1][i] - r.u[0][i], step1 = u - r.u[1][i], step2 = r.u[3][i] - u;
        const float step3 = r.u[4][i] - r.u[3][i];
        const float slope_low = beyond(low, step0, step1, step2, 0.0f, 0.0f) - step1;
        const float slope_high = beyond(high, step1, step2, step3, 0.0f, 0.0f);
        const float gain_low = FROM(low, r.gain[0][i], r.gain[1][i]),
                    gain_high = FROM(high, r.gain[1][i], r.gain[2][i]);
        const float growth = (slope_high - slope_low) + (gain_high - gain_low);
        const float to_low = slope_low + gain_low, to_high = slope_high + gain_high;
        const float advected = (high * to_high - low * to_low) * (per_h * per_d);
        const float head = (u + 0.5f * (to_high + to_low)) * growth * per_d;
        const float rising = u * (r.depth[1][i] - r.depth[0][i]), spreading = MAX(growth, 0.0f);
        const float contracting = growth - spreading,
                    faster = (rising < 0.0f ? fabsf(u) * spreading : 0.0f) * per_square;
        const float share = MIN(faster, 1.0f), whole = 1.0f - contracting * contracting * per_square;
        /* across: the fluxes past the corners on both sides */
        const float south = 0.5f * (s.flow[2][i] + s.flow[3][i]), north = 0.5f * (s.flow[0][i] + s.flow[1][i]);
        const float side0 = (r.across[1][i] - r.across[0][i]) * (r.steps_on[0][i] * r.steps_walls[0]);
        const float side1 = (u - r.across[1][i]) * (r.steps_on[1][i] * r.steps_walls[1]);
        const float side2 = (r.across[3][i] - u) * (r.steps_on[2][i] * r.steps_walls[2]);
        const float side3 = (r.across[4][i] - r.across[3][i]) * (r.steps_on[3][i] * r.steps_walls[3]);
        const float from_north = beyond(north, side1, side2, side3, r.gain_across[1][i], r.gain_across[2][i]);
        const float from_south = beyond(south, side0, side1, side2, r.gain_across[0][i], r.gain_across[1][i]) - side1;
        const float carried =
            advected + share * (head - advected) + (north * from_north - south * from_south) * (per_h * s.per_across);
        const float of_now = thick * per_h, of_new = held * per_h;
        const float push = (s.eta[1][i] - s.eta[0][i]) * MAX(of_now, whole);
        const float later = (r.level[1][i] - r.level[0][i]) * MAX(of_new, whole);
        const float half_covered = s.h[0][i] > thin && s.h[1][i] > thin ? 0.5f * on : 0.0f;
        const float pressure = g * (later + half_covered * (push - later)) * per_d;
        const float moved = u + dt * ((0.25f * s.sign) * force - carried - pressure);
        const float given = FROM(moved, after0, after1), star = given > thin ? moved * on : 0.0f;
        const float v = 0.25f * (s.v[0][i] + s.v[1][i] + s.v[2][i] + s.v[3][i]);
        const float slowed = star / (1.0f + resistance(star, u, v, r.drag[i], dt));
        new[i] = held - 0.5f * thin > 0.0f ? slowed : 0.0f;
    }
}

/* Row j of the new state. */
ROW update(const Block *at, long j) {
    const Model *m = at->m;
    const float *u = STATE(0, j), *u_n = STATE(0, j + 1), *u_s = STATE(0, j - 1), *on = at->joined;
    const float *v = STATE(1, j), *v_n = STATE(1, j + 1), *v_s = STATE(1, j - 1), *depth = row_of(at, m->depth, j);
    const float *x = KEPT(flux_x, j), *x_n = KEPT(flux_x, j + 1), *y = KEPT(flux_y, j), *y_s = KEPT(flux_y, j - 1);
    const float *gain_u = KEPT(gain_u, j), *gain_v = KEPT(gain_v, j), *after = KEPT(after, j), *level = KEPT(level, j);
    const float n = WET(j + 1), s = WET(j - 1);
    const Advected more_of_u = {{u - 2, u - 1, u, u + 1, u + 2},
                                {STATE(0, j - 2), u_s, u, u_n, STATE(0, j + 2)},
                                {gain_u - 1, gain_u, gain_u + 1},
                                {KEPT(gain_u, j - 1), gain_u, KEPT(gain_u, j + 1)},
                                {x - 1, x, x + 1},
                                {on, on, on, on},
                                {after, after + 1},
                                {level, level + 1},
                                {depth, depth + 1},
                                KEPT(drag_u, j),
                                {s * WET(j - 2), s, n, n * WET(j + 2)}};
    velocities(m, rows_of_u(at, j, y, y_s), more_of_u, (float *)row_of(at, m->new[0], j), at->count);
    const Advected more_of_v = {{STATE(1, j - 2), v_s, v, v_n, STATE(1, j + 2)},
                                {v - 2, v - 1, v, v + 1, v + 2},
                                {KEPT(gain_v, j - 1), gain_v, KEPT(gain_v, j + 1)},
                                {gain_v - 1, gain_v, gain_v + 1},
                                {y_s, y, KEPT(flux_y, j + 1)},
                                {on - 2, on - 1, on, on + 1},
                                {after, KEPT(after, j + 1)},
                                {level, KEPT(level, j + 1)},
                                {depth, row_of(at, m->depth, j + 1)},
                                KEPT(drag_v, j),
                                {n, n, n, n}};
    velocities(m, rows_of_v(at, j, x, x_n), more_of_v, (float *)row_of(at, m->new[1], j), at->count);
    memcpy((float *)row_of(at, m->new[2], j), level, at->count * sizeof(float));
}

/* A step of the rows [j0, j1) of one block. */
static void sweep(const Block *at, long j0, long j1) {
    for (long t = j0 - LEAD; t < j1 + LAST; t++) {
        thickness(at, t);
        between_rows(at, t - 1);
        half_step(at, t - 2);
        raw_fluxes(at, t - 3);
        shares(at, t - 3);
        fluxes(at, t - 4);
        if (t - LAST >= j0)
            update(at, t - LAST);
    }
}

static Model model;

static void steps(long count, long taken) {
    (void)taken;
#pragma omp parallel
    {
        Model *m = &model;
        static __thread Rings *rings;
        if (!rings) {
            rings = aligned_alloc(64, (sizeof *rings + 63) / 64 * 64);
            memset(rings, 0, sizeof *rings);
        }
        const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
        for (long k = 0; k < count; k++) {
            for (long a = 0; a < m->nx; a += BLOCK) {
                const Block at = {m, rings, a, a + BLOCK < m->nx ? BLOCK : m->nx - a, m->inside + a, m->joined + a};
                sweep(&at, band(m->ny, thread, threads), band(m->ny, thread + 1, threads));
            }
#pragma omp barrier
#pragma omp single
            for (int field = 0; field < 3; field++) {
                float *now = m->now[field];
                m->now[field] = m->new[field], m->new[field] = now;
            }
        }
    }
}

static float *const *fields(void) { return model.now; }

int main(int argc, char **argv) {
    if (argc < 12) {
        fprintf(stderr, "usage: coast NX NY DX DY GRAVITY F0 BETA ROUGHNESS THIN DT STATE [THREADS]\n");
        return 2;
    }
    if (argc > 12)
        omp_set_num_threads(atoi(argv[12]));
    Model *m = &model;
    const double dx = atof(argv[3]), dy = atof(argv[4]), f0 = atof(argv[6]), beta = atof(argv[7]), n = atof(argv[8]);
    m->nx = atol(argv[1]), m->ny = atol(argv[2]), m->stride = stride_of(m->nx);
    m->per_dx = 1.0 / dx, m->per_dy = 1.0 / dy, m->gravity = atof(argv[5]);
    m->drag = m->gravity * n * n, m->thin = atof(argv[9]), m->dt = atof(argv[10]);
    m->f = zeros(m->ny + 2 * GHOSTS + LEFT), m->inside = zeros(m->stride), m->joined = zeros(m->stride);
    for (long j = 0; j < m->ny + GHOSTS; j++)
        m->f[j] = f0 + beta * dy * (j + 1);
    for (long i = 0; i < m->nx; i++)
        m->inside[i] = 1.0f, m->joined[i] = i + 1 < m->nx;
    FILE *file = state_of(argv[11]);
    m->depth = field_of(file, m->nx, m->ny, GHOSTS);
    for (int k = 0; k < 3; k++)
        m->now[k] = field_of(file, m->nx, m->ny, GHOSTS);
    fclose(file);
    for (int k = 0; k < 3; k++)
        m->new[k] = field_of(NULL, m->nx, m->ny, GHOSTS);
    serve(steps, fields, m->nx, m->ny);
    return 0;
}
