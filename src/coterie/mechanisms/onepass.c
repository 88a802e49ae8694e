// Clipped sums of a linear softmax model's gradients in one pass over the records: scores, slopes, norms, clip, sum,
// while a few records are in the nearest cache. XLA needs three passes (a copy of a slice, and two products), and its
// products with few columns do not fill a processor's vectors.
//
// The same sums as mechanisms/clipping.py, to float tolerance, with its guarantee and its care for hostile records: a
// record whose norm is no number below MOST has no weight, and a record without weight is never multiplied with.
// They do not depend on the number of threads: which records are added up together follows from shapes alone.
//
// Of units of several records, the same with the summed gradient of a unit's records in a record's place, clipped by the
// norm of mechanisms/places.py.

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

enum { NEAR = 32 };           // records at a time
enum { WIDE = 5 };            // columns in registers
enum { MOST_OUTPUTS = 128 };  // as onepass.py says

static const float TINY = 1.17549435e-38f, MOST = 1e38f;  // as in clipping.py

typedef float Near[NEAR];  // a number of each record at hand

// A unit is a record, and then each = 1 and there is no gram; or it is `each` records one after the other.
typedef struct {
  const float *x, *w, *y;             // (owners, units, each, dim), (owners, outputs, dim), (owners, units, each)
  const float *mask, *norms, *clip;   // (owners, units), (owners, units), (owners)
  const float *gram, *weight;         // (owners, units, each, each), (owners, units, each): 0 where there is no record
  float *sums, *found;                // (owners, parts, outputs, dim), (owners, units)
  int64_t units, each, dim, outputs, parts;
  int32_t order;  // of the norm: 1 or 2
} Job;

typedef struct {
  int count, which[NEAR];  // the records that have a weight
} Weighed;

// e to the x (Cephes, `expf`), written so that compilers vectorise it. NaN stays NaN.
static inline __attribute__((always_inline)) float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  float shifted = x * 1.44269504f + 12582912.0f;  // a whole number in its last bits
  float whole = shifted - 12582912.0f;
  x = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float series = 1.9875691500e-4f;
  series = series * x + 1.3981999507e-3f;
  series = series * x + 8.3334519073e-3f;
  series = series * x + 4.1665795894e-2f;
  series = series * x + 1.6666665459e-1f;
  series = series * x + 5.0000001201e-1f;
  series = series * x * x + x + 1.0f;
  uint32_t bits;
  memcpy(&bits, &shifted, 4);
  bits = (bits + 127) << 23;
  float power;
  memcpy(&power, &bits, 4);
  return series * power;
}

// The slopes of the cross-entropy in the scores, in their place: probabilities, less one for the record's class.
static inline __attribute__((always_inline)) void slope(const Job* job, const float* y, Near* scores) {
  Near most, sum = {0};
  memcpy(most, scores[0], sizeof most);
  for (int64_t k = 1; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) most[r] = scores[k][r] > most[r] ? scores[k][r] : most[r];
  for (int64_t k = 0; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) sum[r] += scores[k][r] = exponential(scores[k][r] - most[r]);
  for (int64_t k = 0; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) scores[k][r] = scores[k][r] / sum[r] - (y[r] == (float)k ? 1.0f : 0.0f);
}

// Scores become weights: clipped slopes. `at`: the first record's place among everyone's.
static inline __attribute__((always_inline)) Weighed weigh(const Job* job, int64_t owner, int64_t at, int rows,
                                                           Near* scores) {
  Near y = {0}, mask = {0}, norms = {0}, factor;
  memcpy(y, job->y + at, 4 * rows);
  memcpy(mask, job->mask + at, 4 * rows);
  memcpy(norms, job->norms + at, 4 * rows);
  slope(job, y, scores);
  Near size;
  for (int r = 0; r < NEAR; r++) size[r] = (float)job->outputs * TINY;
  for (int64_t k = 0; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) size[r] += job->order == 1 ? fabsf(scores[k][r]) : scores[k][r] * scores[k][r];
  float clip = job->clip[owner];
  for (int r = 0; r < NEAR; r++) {
    norms[r] *= job->order == 1 ? size[r] : sqrtf(size[r]);
    float share = clip / (norms[r] > TINY ? norms[r] : TINY);
    factor[r] = norms[r] < MOST ? mask[r] * (share < 1.0f ? share : 1.0f) : 0.0f;
  }
  memcpy(job->found + at, norms, 4 * rows);
  for (int64_t k = 0; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) scores[k][r] *= factor[r];
  Weighed near = {0};
  for (int r = 0; r < rows; r++)
    if (factor[r] > 0) near.which[near.count++] = r;
  return near;
}

// At least the norm of what a unit adds, as `norms` of places.py has it, with its argument: `left` has the products of
// the features of its records, right[shift][at + t] those of the slopes of its records t and t + shift. Each of these
// rounds at most as often as there, the sums over t and u too, as twice a number is exact, and so does the sum that the
// unit is added to.
static inline __attribute__((always_inline)) float unit_norm(const Job* job, const float* left, const Near* right,
                                                             int at) {
  const float addition = 2.5f / 16777216.0f;
  float epsilon = addition * (float)(job->dim + job->outputs + 2 * job->each + 4);
  float floors[2] = {(float)job->dim * TINY / epsilon, (float)job->outputs * TINY / epsilon};
  float square = 0, reach = 0;
  for (int64_t t = 0; t < job->each; t++) {
    float own = left[t * job->each + t], inner = own * right[0][at + t];
    for (int64_t u = t + 1; u < job->each; u++) inner += 2 * (left[t * job->each + u] * right[u - t][at + t]);
    square += inner;
    reach += sqrtf(own + floors[0]) * sqrtf(right[0][at + t] + floors[1]);
  }
  float hidden = sqrtf(epsilon) * reach;
  hidden = hidden * hidden + (float)(job->each * job->each) * TINY;
  return sqrtf(fabsf(square) + hidden) + (addition * (float)job->each + 1.0f / 8388608.0f) * reach;
}

// The same of units: slopes are weighed first, so that norm and sum see the same numbers, and zero without a record.
static inline __attribute__((always_inline)) Weighed weigh_units(const Job* job, int64_t owner, int64_t at, int units,
                                                                 Near* scores) {
  int each = job->each, rows = units * each;
  Near y = {0}, weight = {0}, factor = {0}, right[NEAR] = {0};
  memcpy(y, job->y + at * each, 4 * rows);
  memcpy(weight, job->weight + at * each, 4 * rows);
  slope(job, y, scores);
  for (int64_t k = 0; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) scores[k][r] = weight[r] > 0 ? scores[k][r] * weight[r] : 0.0f;
  for (int shift = 0; shift < each; shift++)
    for (int64_t k = 0; k < job->outputs; k++) {
      const float* later = scores[k] + shift;  // beyond the last record: of the next column, and not used
      for (int r = 0; r < NEAR; r++) right[shift][r] += scores[k][r] * later[r];
    }
  for (int u = 0; u < units; u++) {
    float norm = unit_norm(job, job->gram + (at + u) * each * each, (const Near*)right, u * each);
    float share = job->clip[owner] / (norm > TINY ? norm : TINY);
    job->found[at + u] = norm;
    for (int t = 0; t < each; t++)
      factor[u * each + t] = norm < MOST ? job->mask[at + u] * (share < 1.0f ? share : 1.0f) : 0.0f;
  }
  for (int64_t k = 0; k < job->outputs; k++)
    for (int r = 0; r < NEAR; r++) scores[k][r] *= factor[r];
  Weighed near = {0};
  for (int r = 0; r < rows; r++)
    if (factor[r] > 0 && weight[r] > 0) near.which[near.count++] = r;
  return near;
}

#define UNROLL _Pragma("GCC unroll 8")
#define HOLD(vector) __asm__("" : "+v"(vector))  // in its register: it would be loaded anew for every column

#define BYTES 64
#define TALL 4
#define TARGET __attribute__((target("avx512f,fma,prefer-vector-width=512")))
#define NAME(name) name##_avx512
#include "onepass_vectors.h"
#undef BYTES
#undef TALL
#undef TARGET
#undef NAME

#define BYTES 32
#define TALL 2
#define TARGET __attribute__((target("avx2,fma")))
#define NAME(name) name##_avx2
#include "onepass_vectors.h"

// Bytes of the widest vectors that this processor has; 0: none that are known here.
int onepass_vectors(void) {
  if (__builtin_cpu_supports("avx512f")) return 64;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 32 : 0;
}

// Tasks that threads take from one another. Whoever leaves last frees it: a helper may come when all is done.
typedef struct {
  Job job;
  void (*work)(const Job*, int64_t);
  int64_t tasks;
  atomic_int_fast64_t next, done, users;
} Shared;

static void take_tasks(Shared* shared) {
  int64_t task;
  while ((task = atomic_fetch_add(&shared->next, 1)) < shared->tasks) {
    shared->work(&shared->job, task);
    atomic_fetch_add(&shared->done, 1);
  }
}

static void leave(Shared* shared) {
  if (atomic_fetch_sub(&shared->users, 1) == 1) free(shared);
}

static void help(void* shared) {
  take_tasks(shared);
  leave(shared);
}

static XLA_FFI_Error* call_helpers(XLA_FFI_CallFrame* call, Shared* shared) {
  int64_t threads = 1;
  XLA_FFI_ThreadPool_NumThreads_Args count = {.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE,
                                              .ctx = call->ctx, .num_threads = &threads};
  XLA_FFI_Error* error = call->api->XLA_FFI_ThreadPool_NumThreads(&count);
  for (int64_t helper = 1; !error && helper < threads && helper < shared->tasks; helper++) {
    XLA_FFI_ThreadPool_Schedule_Args one = {.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE,
                                            .ctx = call->ctx, .task = help, .data = shared};
    atomic_fetch_add(&shared->users, 1);
    if ((error = call->api->XLA_FFI_ThreadPool_Schedule(&one))) leave(shared);
  }
  return error;
}

// Whether XLA asked which interface this is, and not to work.
static int introduced(XLA_FFI_CallFrame* call) {
  __typeof__(call->extension_start) extension = call->extension_start;  // JAX 0.11 gave its type another name
  if (!extension || extension->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  return 1;
}

static XLA_FFI_Error* run(XLA_FFI_CallFrame* call, Job job, int64_t tasks, void (*work)(const Job*, int64_t)) {
  Shared* shared = malloc(sizeof *shared);
  if (!shared) abort();  // without memory not even that can be reported
  memset(shared, 0, sizeof *shared);
  shared->work = work;
  shared->tasks = tasks;
  shared->job = job;
  atomic_init(&shared->users, 1);
  XLA_FFI_Error* error = call_helpers(call, shared);
  take_tasks(shared);
  while (atomic_load(&shared->done) < shared->tasks) sched_yield();
  leave(shared);
  return error;
}

static XLA_FFI_Error* clip(XLA_FFI_CallFrame* call, void (*work)(const Job*, int64_t)) {
  if (introduced(call)) return NULL;
  XLA_FFI_Buffer **given = (XLA_FFI_Buffer**)call->args.args, **made = (XLA_FFI_Buffer**)call->rets.rets;
  const int64_t* shape = made[0]->dims;  // (owners, parts, outputs, dim)
  Job job = {.x = given[0]->data, .w = given[1]->data, .y = given[2]->data, .mask = given[3]->data,
             .norms = given[4]->data, .clip = given[5]->data, .sums = made[0]->data, .found = made[1]->data,
             .units = made[1]->dims[1], .each = 1, .parts = shape[1], .outputs = shape[2], .dim = shape[3],
             .order = *(const int32_t*)given[6]->data};
  if (given[4]->rank == 4) {  // in place of norms, the products of units of several records
    job.gram = given[4]->data;
    job.each = given[4]->dims[2];
    job.weight = given[7]->data;
  }
  return run(call, job, shape[0] * shape[1], work);
}

static XLA_FFI_Error* gram(XLA_FFI_CallFrame* call, void (*work)(const Job*, int64_t)) {
  if (introduced(call)) return NULL;
  XLA_FFI_Buffer **given = (XLA_FFI_Buffer**)call->args.args, **made = (XLA_FFI_Buffer**)call->rets.rets;
  const int64_t* shape = given[0]->dims;  // (owners, units, each, dim)
  Job job = {.x = given[0]->data, .found = made[0]->data, .units = shape[1], .each = shape[2], .outputs = shape[2],
             .dim = shape[3]};
  return run(call, job, shape[0], work);
}

XLA_FFI_Error* onepass_64(XLA_FFI_CallFrame* call) { return clip(call, clip_part_avx512); }
XLA_FFI_Error* onepass_32(XLA_FFI_CallFrame* call) { return clip(call, clip_part_avx2); }
XLA_FFI_Error* onepass_gram_64(XLA_FFI_CallFrame* call) { return gram(call, multiply_avx512); }
XLA_FFI_Error* onepass_gram_32(XLA_FFI_CallFrame* call) { return gram(call, multiply_avx2); }
