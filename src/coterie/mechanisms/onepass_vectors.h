// Clipped sums with the vectors of one kind of processor. Included by onepass.c, which defines
//   BYTES   of a vector,   TALL  how many of them meet WIDE columns in registers,
//   TARGET  the instructions that may be used,   NAME(name)  what a function is called for them.

typedef float NAME(vector) __attribute__((vector_size(BYTES), aligned(4)));
#define vector NAME(vector)
#define LANES (BYTES / 4)
#define INLINE TARGET static inline __attribute__((always_inline))

// `lanes`: LANES, a constant then, or fewer at the end of a record.
INLINE vector NAME(load)(const float* from, uint32_t lanes) {
  if (lanes == LANES) return *(const vector*)from;
  vector found = {0};
  memcpy(&found, from, 4 * lanes);
  return found;
}

INLINE float NAME(total)(vector v) {
  float sums[LANES];
  memcpy(sums, &v, BYTES);
  UNROLL for (int half = LANES / 2; half; half /= 2)
    UNROLL for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
  return sums[0];
}

// Adds the products of a vector of each of `tall` records with one of each of `wide` columns.
INLINE void NAME(meet)(const Job* job, const float* x, const float* w, vector found[TALL][WIDE], uint32_t lanes,
                       int tall, int wide) {
  vector rows[TALL];
  UNROLL for (int r = 0; r < tall; r++) {
    rows[r] = NAME(load)(x + r * job->dim, lanes);
    HOLD(rows[r]);
  }
  UNROLL for (int c = 0; c < wide; c++) {
    vector column = NAME(load)(w + c * job->dim, lanes);
    UNROLL for (int r = 0; r < tall; r++) found[r][c] += rows[r] * column;
  }
}

// Scores of `tall` records in `wide` columns from `k` on. Both are constants wherever this is inlined, so that all stays
// in registers. Asks for the records that follow: half of them with each of the first two groups of columns.
INLINE void NAME(score)(const Job* job, const float* x, const float* w, Near* scores, int64_t k, int tall, int wide) {
  const float* ahead = x + (NEAR + (k ? tall / 2 : 0)) * job->dim;
  int asked = job->outputs <= WIDE ? tall : k <= WIDE ? tall / 2 : 0;
  vector found[TALL][WIDE] = {0};
  int64_t j = 0;
  for (; j + LANES <= job->dim; j += LANES) {
    UNROLL for (int r = 0; r < tall; r++)
      if (r < asked) __builtin_prefetch(ahead + r * job->dim + j, 0, 2);
    NAME(meet)(job, x + j, w + j, found, LANES, tall, wide);
  }
  if (j < job->dim) NAME(meet)(job, x + j, w + j, found, job->dim - j, tall, wide);
  UNROLL for (int c = 0; c < wide; c++)
    UNROLL for (int r = 0; r < tall; r++) scores[c][r] = NAME(total)(found[r][c]);
}

// Adds `tall` vectors of the records that have a weight to `wide` columns of sums.
INLINE void NAME(add)(const Job* job, const float* x, const Weighed* near, const Near* weights, float* sums,
                      uint32_t lanes, int tall, int wide) {
  vector found[TALL][WIDE];
  UNROLL for (int c = 0; c < wide; c++)
    UNROLL for (int v = 0; v < tall; v++) found[v][c] = NAME(load)(sums + c * job->dim + v * LANES, lanes);
  for (int n = 0; n < near->count; n++) {
    int r = near->which[n];
    vector row[TALL];
    UNROLL for (int v = 0; v < tall; v++) {
      row[v] = NAME(load)(x + r * job->dim + v * LANES, lanes);
      HOLD(row[v]);
    }
    UNROLL for (int c = 0; c < wide; c++)
      UNROLL for (int v = 0; v < tall; v++) found[v][c] += row[v] * weights[c][r];
  }
  UNROLL for (int c = 0; c < wide; c++)
    UNROLL for (int v = 0; v < tall; v++) memcpy(sums + c * job->dim + v * LANES, &found[v][c], 4 * lanes);
}

INLINE void NAME(score_columns)(const Job* job, const float* x, const float* w, Near* scores, int64_t k, int rows, int wide) {
  int r = 0;
  for (; r + TALL <= rows; r += TALL) NAME(score)(job, x + r * job->dim, w, (Near*)(scores[0] + r), k, TALL, wide);
  for (; r < rows; r++) NAME(score)(job, x + r * job->dim, w, (Near*)(scores[0] + r), k, 1, wide);
}

INLINE void NAME(add_columns)(const Job* job, const float* x, const Weighed* near, const Near* weights, float* sums,
                              int wide) {
  int64_t j = 0;
  for (; j + TALL * LANES <= job->dim; j += TALL * LANES)
    NAME(add)(job, x + j, near, weights, sums + j, LANES, TALL, wide);
  for (; j + LANES <= job->dim; j += LANES) NAME(add)(job, x + j, near, weights, sums + j, LANES, 1, wide);
  if (j < job->dim) NAME(add)(job, x + j, near, weights, sums + j, job->dim - j, 1, wide);
}

// `function(…, wide)` for every WIDE columns, and for those that remain.
#define BY_COLUMNS(k, function, ...)                             \
  for (int64_t k = 0; k < job->outputs; k += WIDE)               \
    switch (job->outputs - k) {                                  \
      case 1: function(__VA_ARGS__, 1); break;                   \
      case 2: function(__VA_ARGS__, 2); break;                   \
      case 3: function(__VA_ARGS__, 3); break;                   \
      case 4: function(__VA_ARGS__, 4); break;                   \
      default: function(__VA_ARGS__, WIDE);                      \
    }

TARGET static void NAME(clip_part)(const Job* job, int64_t task) {
  int64_t owner = task / job->parts, part = task % job->parts, length = (job->units + job->parts - 1) / job->parts;
  int64_t unit = part * length, end = unit + length < job->units ? unit + length : job->units;
  int together = NEAR / job->each;
  const float* w = job->w + owner * job->outputs * job->dim;
  float* sums = job->sums + task * job->outputs * job->dim;
  memset(sums, 0, 4 * job->outputs * job->dim);
  Near scores[MOST_OUTPUTS + 1] = {0};  // one more than are used: `weigh_units` looks beyond a column's end
  for (; unit < end; unit += together) {
    int units = end - unit < together ? end - unit : together, rows = units * job->each;
    int64_t at = owner * job->units + unit;
    const float* x = job->x + at * job->each * job->dim;
    BY_COLUMNS(k, NAME(score_columns), job, x, w + k * job->dim, scores + k, k, rows)
    Weighed near = job->gram ? weigh_units(job, owner, at, units, scores) : weigh(job, owner, at, rows, scores);
    BY_COLUMNS(k, NAME(add_columns), job, x, &near, scores + k, sums + k * job->dim)
  }
}

// Products of the features of each unit's records with each other, an owner's a task.
TARGET static void NAME(multiply)(const Job* job, int64_t owner) {
  for (int64_t unit = owner * job->units; unit < (owner + 1) * job->units; unit++) {
    const float* x = job->x + unit * job->each * job->dim;
    Near products[NEAR];
    BY_COLUMNS(k, NAME(score_columns), job, x, x + k * job->dim, products + k, k, job->each)
    float* found = job->found + unit * job->each * job->each;
    for (int64_t t = 0; t < job->each; t++)
      for (int64_t u = 0; u < job->each; u++) found[t * job->each + u] = products[u][t];
  }
}

#undef vector
#undef LANES
#undef INLINE
#undef BY_COLUMNS
