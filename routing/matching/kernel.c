/* The kernel of the match index: it finds the columns (clauses) that match each event, in tiles that stay in the
 * cache.
 *
 * Rules
 * -----
 * - The kernel stores clauses as columns: each is a list of constraints, one per attribute. All other structures
 *   (rows, toggles) are built from these when a batch first needs them, and maintained from then on.
 * - A tile is 4,096 columns. All rows of a tile stay in the second-level cache while events pass over them; the
 *   last tile is as narrow as its columns allow. The rows of a bucket are consecutive across all tiles.
 * - A set bit of a row means "rejects". For each attribute an event selects a row: of missing, false, true, null, a
 *   bucket of numbers or a word. The matching columns are those that are zero in the OR of all rows.
 * - Integers, floats and timestamps are looked up as 64-bit keys in their order. A row covers a bucket of keys and
 *   has the bits of the columns that reject all of it. A bound inside a bucket is a toggle: its column rejects the
 *   keys on one side. Sixteen toggles are a cache line, and are compared with a key at once. A gap between two
 *   spans inside one bucket is compared.
 * - One row serves all words, and each word has the list of columns that accept it. A word has a separate row where
 *   these columns are many, or where sets of strings (patterns, intervals) must be tested, which is done once per
 *   word. Rows of words are a cache.
 * - Where every clause of a tile names words of one attribute, and few of them name the event's word, no row is
 *   read: these few columns are tested one by one, constraint by constraint.
 * - Code that depends on an instruction set is in kernel_hot.h; its level is selected when the module is loaded.
 * - The kernel is called with the GIL held, one call at a time. No call keeps a reference to the arrays that it is
 *   given.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define FORM "55feedd94884127b" /* see kernels.py */
#define TILE_WORDS 64
#define TILE_COLUMNS (TILE_WORDS * 64)
#define CHUNK_EVENTS 2048
#define POOL_KEPT ((size_t)16 << 20) /* entries of 2 bytes */
#define LANES 16        /* toggles of a cache line */
#define STRUCK_SPARE 64 /* entries that a vector may write beyond the valid ones */
#define LISTED 128      /* lines that are compared in one pass */
#define LISTED_SPARE 4  /* entries that are written together and may be invalid */
#define FETCH_FROM 64   /* events that use most of a tile */
#define FEW_EVENTS 32   /* events for which the next tiles are fetched row by row */
#define BUCKETS_MIN 64
#define BUCKETS_MAX 1024
#define TILE_BYTES (768 * 1024) /* of the rows of all numbers of a tile */
#define HUGE_PAGE ((size_t)2 << 20)
#define SAMPLE 65536            /* maximum number of bounds from which edges are chosen */
#define CHUNK_WORDS 512         /* events of a chunk where there are strings */
#define WORD_ROWS_MIN (2 * CHUNK_WORDS)
#define WORD_BYTES_MAX (32 << 20)
#define EXACT ((int64_t)1 << 53) /* integers up to here are floats */
#define NOWHERE UINT32_MAX
#define FEW 8 /* clauses of a tile that are tested one by one */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BYTE_ORDER_XOR 7
#else
#define BYTE_ORDER_XOR 0
#endif

enum { INTEGER, FLOAT, MOMENT, KINDS };
enum { MISSING, FALSE_, TRUE_, NULL_, FIXED };
#define FIXED_BITS 15
enum { PLAIN = 16, REAL = 32, LOW_OPEN = 64, HIGH_OPEN = 128 }; /* above the bits of the fixed rows */
enum { BOOLEAN_COLUMN, INTEGER_COLUMN, FLOAT_COLUMN, STRING_COLUMN, MOMENT_COLUMN, NULL_COLUMN };
typedef enum { BULK, ADD, REMOVE } Mode;
enum { OF_FIRST, OF_KEY, OF_LAST }; /* the order of toggles with equal values */
#define IS_FIRST 0x8000             /* of a toggle's id: rejects the keys before it, else after it */
#define IS_NONE 0x4000              /* a lane without a toggle; its step is the highest */
#define ID_BITS 0x0FFF
#define EXACT_STEPS 0xFF            /* of a bucket: its steps distinguish all values */

/* clauses */

typedef struct { /* a constraint that is not one interval of numbers */
    PyObject *domain, *strings;
    uint32_t counts[KINDS];
    int64_t spans[]; /* first and last key of each span, by kind */
} More;

typedef struct {
    uint32_t attribute, flags;
    union {
        struct {
            int64_t low, high; /* of one interval; INT64_MIN and INT64_MAX are no bound */
        };
        More *more;
    };
} Constraint;

typedef struct {
    Constraint *constraints;
    uint32_t count;
    uint8_t live;
} Column;

/* structures built from clauses */

typedef struct { /* of one cache line */
    int16_t steps[LANES];
    uint16_t ids[LANES];
} Line;

typedef struct {
    int64_t value;
    uint16_t id;
} Bound;

typedef struct {      /* bounds within buckets: the lines of each bucket, unordered, all full except the last */
    uint32_t *starts; /* the first line of each bucket, and the end; one more line may be read */
    Line *lines;
    int64_t *values; /* of each lane; used where the step does not decide */
    Bound *bulk;     /* bounds that have no lines yet; then count and room refer to bounds */
    uint32_t count, room;
} Toggles;

typedef struct {
    int64_t low, high;
    uint32_t bucket;
    uint16_t id;
} Gap;

typedef struct { /* the numbers of one attribute and kind in one tile */
    uint64_t *rows;
    uint32_t stride; /* words from one row to the next */
    uint32_t gap_count, gap_room;
    Toggles toggles;
    Gap *gaps;
} Block;

typedef struct { /* rows that were built together, by bucket, then by tile: a single event reads them so */
    uint64_t *rows, *end;
    uint32_t users;
} Slab;

typedef struct {
    int wanted, built; /* a batch has had this kind; the rows exist */
    uint32_t buckets;
    int64_t *edges;  /* the first key of each bucket */
    uint8_t *shifts; /* number of bits of a bucket's keys per step, or EXACT_STEPS */
    Block *blocks;
    Slab *slab; /* the rows of the tiles that existed when it was built */
    uint32_t *toggles; /* of each bucket, over all tiles */
    uint64_t loose;    /* toggles added since it was built */
} Numbers;

typedef struct {
    PyObject *text;
    uint32_t *columns; /* that name the word, rising */
    uint32_t count, room;
    uint64_t *row;
    uint32_t seat; /* in the list of words with a row */
    uint64_t used;
} Word;

typedef struct {
    PyObject *strings, *test;
    uint32_t *columns;
    uint32_t count, room;
} Set;

typedef struct {
    uint64_t **base;  /* by tile: the columns that reject a word which they do not name */
    PyObject *places; /* word -> position in list */
    Word **list;
    uint32_t count, room, free_count;
    uint32_t *free;
    Set *sets;
    uint32_t set_count;
    uint32_t *seats, seat_count, hand;
    uint32_t row_words;
    PyObject *known; /* the words of the last batch, which the next one of the same source often has, too */
    uint32_t *known_places;
    uint64_t version, known_version; /* rises with each word that comes or goes */
} Words;

typedef struct {
    PyObject *name;
    uint64_t clauses;
    uint32_t *named; /* clauses by tile */
    uint64_t **fixed;
    uint64_t bounds[KINDS];
    Numbers numbers[KINDS];
    Words words;
} Attribute;

/* working data of a match */

typedef struct {
    uint32_t row;
    uint16_t source;
    int16_t step;
    int64_t key;
} Pick;

typedef struct {
    const Block *blocks;
    uint32_t row;
} Selected;

typedef struct {
    const uint64_t *rows;
    const Block *block;
    const Words *words;
    size_t stride;
} Source;

typedef struct {
    const Source *sources;
    const uint32_t *active;
    uint32_t active_count, attributes, words, number, tiles;
    uint32_t worded; /* an attribute of which each clause names words, and no set of strings; or NOWHERE */
    const Column *columns;
    const uint64_t *init;
    uint64_t *scratch;
    uint16_t *struck;
} Tile;

typedef struct { /* a line that may have toggles which reject a key */
    const Line *line;
    const Pick *pick;
} Listed;

typedef struct {
    uint16_t *entries; /* columns of a tile */
    size_t count, room;
} Pool;

typedef struct {
    PyObject_HEAD
    Column *columns;
    uint32_t column_room, tiles, last_words;
    uint64_t **dead;
    Attribute **attributes;
    uint32_t attribute_count;
    PyObject *places; /* name -> position in attributes */
    PyObject *no_strings, *describe, *interval;
    uint64_t now;
    /* the matches of the last call, by chunk, tile, event, and their memory */
    Pool pool;
    uint16_t *counts;
    size_t counts_room;
    size_t found;
    uint32_t events, found_tiles, chunk;
    uint32_t *owners; /* of the matches, by event, without duplicates; NULL where each column is its own owner */
    uint64_t *totals; /* number of owners per event */
    Pick *picks;
    size_t picks_room;
    uint64_t *scratch;
    size_t scratch_room;
    uint16_t *struck;
    size_t struck_room;
} Kernel;

static PyObject *s_missing, *s_null, *s_booleans, *s_numbers, *s_strings, *s_timestamps, *s_low, *s_high, *s_low_open,
    *s_high_open, *s_data, *s_present, *s_words, *s_test;

/* memory: a failed allocation is fatal */

static void *sure(void *memory) {
    if (!memory) Py_FatalError("the match index is out of memory");
    return memory;
}

static void *grown(void *memory, size_t bytes) { return sure(realloc(memory, bytes ? bytes : 1)); }

static uint64_t *lines(size_t words) { /* zeroed, at a cache line's start */
    void *memory;
    if (posix_memalign(&memory, 64, words * 8 + 64)) Py_FatalError("the match index is out of memory");
    return memset(memory, 0, words * 8);
}

/* The same for large data with random access: in large pages where available, to avoid a page-table lookup per read. */
static uint64_t *large_lines(size_t words) {
#if defined(MADV_HUGEPAGE)
    size_t bytes = (words * 8 + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *memory;
    if (bytes - words * 8 > bytes / 4) return lines(words); /* rounding up would waste too much */
    if (posix_memalign(&memory, HUGE_PAGE, bytes)) Py_FatalError("the match index is out of memory");
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memset(memory, 0, words * 8);
#else
    return lines(words);
#endif
}

static uint16_t *pool_room(Pool *pool, size_t more) {
    if (pool->count + more > pool->room) {
        pool->room = 2 * pool->room + more;
        pool->entries = grown(pool->entries, pool->room * sizeof *pool->entries);
    }
    return pool->entries + pool->count;
}

/* small helpers */

static uint32_t words_of(const Kernel *k, uint32_t tile) { return tile + 1 < k->tiles ? TILE_WORDS : k->last_words; }
static uint32_t all_words(const Kernel *k) { return k->tiles ? (k->tiles - 1) * TILE_WORDS + k->last_words : 0; }

static int64_t float_key(double value) {
    int64_t bits;
    value += 0.0; /* -0.0 is 0.0 */
    memcpy(&bits, &value, 8);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

static uint32_t bucket_of(const Numbers *n, int64_t key) {
    const int64_t *edge = n->edges;
    uint32_t count = n->buckets;
    while (count > 1) {
        uint32_t half = count / 2;
        edge += edge[half] <= key ? half : 0;
        count -= half;
    }
    return (uint32_t)(edge - n->edges);
}

/* The position (step) of a value in its bucket. No two exact steps of different roles are equal. */
static int16_t step_of(const Numbers *n, uint32_t bucket, int64_t value, unsigned role) {
    uint64_t offset = (uint64_t)value - (uint64_t)n->edges[bucket];
    uint8_t shift = n->shifts[bucket];
    return (int16_t)((shift == EXACT_STEPS ? 3 * offset + role : offset >> shift) ^ 0x8000);
}

static int64_t bucket_end(const Numbers *n, uint32_t bucket) {
    return bucket + 1 < n->buckets ? n->edges[bucket + 1] - 1 : INT64_MAX;
}

static uint32_t first_gap(const Block *block, uint32_t bucket) {
    uint32_t low = 0, high = block->gap_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (block->gaps[middle].bucket < bucket)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t lower_bound(const uint32_t *values, uint32_t count, uint32_t value) {
    uint32_t low = 0;
    while (low < count) {
        uint32_t middle = (low + count) / 2;
        if (values[middle] < value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

static void put_sorted(uint32_t **values, uint32_t *count, uint32_t *room, uint32_t value) {
    if (*count == *room) *values = grown(*values, (*room = 2 * *room + 4) * sizeof **values);
    uint32_t at = *count && (*values)[*count - 1] < value ? *count : lower_bound(*values, *count, value);
    memmove(*values + at + 1, *values + at, (*count - at) * sizeof **values);
    (*values)[at] = value;
    ++*count;
}

static void drop_sorted(uint32_t *values, uint32_t *count, uint32_t value) {
    uint32_t at = lower_bound(values, *count, value);
    memmove(values + at, values + at + 1, (*count - at - 1) * sizeof *values);
    --*count;
}

/* Write the columns that reject a key, for the lanes of a line whose step equals that of the key. */
static uint32_t settle_lanes(const Toggles *t, uint32_t line, uint32_t same, int64_t key, uint16_t *out) {
    uint32_t found = 0;
    for (; same; same &= same - 1) {
        uint32_t lane = (uint32_t)__builtin_ctz(same);
        uint16_t id = t->lines[line].ids[lane];
        int64_t value = t->values[(size_t)line * LANES + lane];
        if (!(id & IS_NONE) && (id & IS_FIRST ? key < value : value < key)) out[found++] = id;
    }
    return found;
}

/* Write the columns that reject a key because it is in one of their gaps. */
static uint32_t gaps_of(const Block *block, const Pick *pick, uint16_t *out) {
    uint32_t found = 0;
    for (uint32_t i = first_gap(block, pick->row); i < block->gap_count && block->gaps[i].bucket == pick->row; i++)
        if (block->gaps[i].low < pick->key && pick->key < block->gaps[i].high) out[found++] = block->gaps[i].id;
    return found;
}

/* the row of a word in a tile: its separate row, or the row of all words without the columns that name it */
static const uint64_t *word_row(
    const Source *source, uint32_t place, uint32_t tile, uint32_t words, uint64_t *scratch) {
    if (place == NOWHERE) return source->rows;
    const Word *word = source->words->list[place];
    if (word->row) return word->row + (size_t)tile * TILE_WORDS;
    uint32_t at = lower_bound(word->columns, word->count, tile * TILE_COLUMNS);
    if (at == word->count || word->columns[at] >= (tile + 1) * TILE_COLUMNS) return source->rows;
    memcpy(scratch, source->rows, words * sizeof *scratch);
    for (; at < word->count && word->columns[at] < (tile + 1) * TILE_COLUMNS; at++) {
        uint32_t id = word->columns[at] & (TILE_COLUMNS - 1);
        scratch[id >> 6] &= ~((uint64_t)1 << (id & 63));
    }
    return scratch;
}

/* The spans of a constraint over one kind of number; `room` holds them where they are not stored. */
static uint32_t spans_of(const Constraint *c, int kind, int64_t room[2], const int64_t **spans) {
    if (!(c->flags & PLAIN)) {
        *spans = c->more->spans;
        for (int before = 0; before < kind; before++) *spans += 2 * c->more->counts[before];
        return c->more->counts[kind];
    }
    *spans = room;
    if (kind == MOMENT) return 0;
    room[0] = c->low;
    room[1] = c->high;
    double low, high;
    if (c->flags & REAL) {
        memcpy(&low, &c->low, 8);
        memcpy(&high, &c->high, 8);
    } else {
        low = (double)c->low;
        high = (double)c->high;
    }
    int bounded_low = c->low != INT64_MIN, bounded_high = c->high != INT64_MAX;
    if (kind == FLOAT) {
        if (bounded_low) room[0] = float_key(low) + !!(c->flags & LOW_OPEN);
        if (bounded_high) room[1] = float_key(high) - !!(c->flags & HIGH_OPEN);
    } else if (c->flags & REAL) {
        if (bounded_low) room[0] = (int64_t)ceil(low) + (c->flags & LOW_OPEN && ceil(low) == low);
        if (bounded_high) room[1] = (int64_t)floor(high) - (c->flags & HIGH_OPEN && floor(high) == high);
    } else {
        room[0] += bounded_low && c->flags & LOW_OPEN;
        room[1] -= bounded_high && c->flags & HIGH_OPEN;
    }
    return room[0] <= room[1];
}

/* Whether a column accepts a string that was found in the words. */
static int accepts_word(const Constraint *c, const Words *w, uint32_t place, uint32_t column) {
    PyObject *strings = c->flags & PLAIN ? NULL : c->more->strings;
    if (strings == Py_None || !strings || place == NOWHERE) return strings == Py_None;
    const Word *word = w->list[place];
    if (word->row) return !(word->row[column >> 6] >> (column & 63) & 1);
    uint32_t at = lower_bound(word->columns, word->count, column);
    return at < word->count && word->columns[at] == column;
}

/* Whether no row of fixed values or numbers that an event selects rejects a column of a tile. */
static int passes_rows(const Tile *tile, const Pick *picks, uint32_t id) {
    uint64_t bit = (uint64_t)1 << (id & 63);
    if (tile->init[id >> 6] & bit) return 0;
    for (uint32_t i = 0; i < tile->active_count; i++) {
        const Pick *pick = picks + tile->active[i];
        const Source *source = tile->sources + pick->source;
        if (!source->words && source->rows[pick->row * source->stride + (id >> 6)] & bit) return 0;
    }
    return 1;
}

/* Whether a column of a tile accepts an event, without regard to one attribute. Its constraints are read last: they
 * are seldom in the cache. */
static int accepts(const Tile *tile, const Pick *picks, uint32_t id, uint32_t but) {
    const Column *column = tile->columns + id;
    for (const Constraint *c = column->constraints; c < column->constraints + column->count; c++) {
        const Pick *pick = picks + c->attribute;
        uint32_t kind = pick->source - c->attribute * 5;
        int64_t room[2];
        const int64_t *spans;
        if (c->attribute == but) continue;
        if (kind == 0) {
            if (!(c->flags >> pick->row & 1)) return 0;
        } else if (kind <= KINDS) {
            uint32_t left = spans_of(c, (int)kind - 1, room, &spans);
            for (; left && !(spans[0] <= pick->key && pick->key <= spans[1]); left--) spans += 2;
            if (!left) return 0;
        } else if (!accepts_word(c, tile->sources[pick->source].words, pick->row, tile->number * TILE_COLUMNS + id))
            return 0;
    }
    return 1;
}

/* Write the columns of a tile that match an event whose word few of them name; -1 where this does not apply. */
static int match_few(const Tile *tile, const Pick *picks, uint16_t *out) {
    if (tile->worded == NOWHERE) return -1;
    const Pick *pick = picks + tile->worded;
    const Words *w = tile->sources[pick->source].words;
    if (!w) return -1; /* the event has no string there */
    if (pick->row == NOWHERE) return 0;
    const Word *word = w->list[pick->row];
    uint32_t first = tile->number * TILE_COLUMNS, at = lower_bound(word->columns, word->count, first);
    if (word->count - at > FEW && word->columns[at + FEW] < first + TILE_COLUMNS) return -1;
    int found = 0;
    for (; at < word->count && word->columns[at] < first + TILE_COLUMNS; at++) {
        uint32_t id = word->columns[at] - first;
        if (passes_rows(tile, picks, id) && accepts(tile, picks, id, tile->worded)) out[found++] = (uint16_t)id;
    }
    return found;
}

/* the compiler may omit a call of a function that only prefetches, because it has no effect */
#define FETCHING static inline __attribute__((always_inline)) void

FETCHING fetch(const void *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)memory + at);
}

/* The lines of a bucket: the first three without a branch, which usually are all. */
FETCHING fetch_lines(const Toggles *t, uint32_t bucket) {
    uint32_t first = t->starts[bucket], count = t->starts[bucket + 1] - first;
    __builtin_prefetch(t->lines + first);
    __builtin_prefetch(t->lines + first + (count > 1));
    __builtin_prefetch(t->lines + first + (count > 2) + (count > 1));
    for (uint32_t at = 3; __builtin_expect(at < count, 0); at++) __builtin_prefetch(t->lines + first + at);
}

/* The rows and lines of an event in a tile. */
FETCHING fetch_event(const Tile *tile, const Pick *picks) {
    for (uint32_t i = 0; i < tile->active_count; i++) {
        const Pick *pick = picks + tile->active[i];
        const Source *source = tile->sources + pick->source;
        if (source->words) continue;
        if (source->block && source->block->toggles.count) fetch_lines(&source->block->toggles, pick->row);
        fetch(source->rows + pick->row * source->stride, tile->words * 8);
    }
}

/* the hot loops, by instruction set */

#define LEVEL 0
#define FN(name) plain_##name
#include "kernel_hot.h"
#undef LEVEL
#undef FN
#if defined(__x86_64__) && defined(__GNUC__)
#define LEVEL 1
#define FN(name) avx2_##name
#include "kernel_hot.h"
#undef LEVEL
#undef FN
#define LEVEL 2
#define FN(name) avx512_##name
#include "kernel_hot.h"
#undef LEVEL
#undef FN
#define LEVEL 3
#define FN(name) vbmi2_##name
#include "kernel_hot.h"
#undef LEVEL
#undef FN
#endif

typedef struct {
    const char *name;
    void (*match)(const Tile *, const Pick *, uint32_t, uint16_t *, Pool *);
    void (*write)(const uint16_t *, size_t, int64_t, int64_t, int64_t *, int64_t *);
    uint32_t (*groups)(
        const Tile *, const Pick *, uint32_t *, uint32_t, const uint64_t *, uint64_t, uint64_t *);
} Level;

static const Level LEVELS[] = {
#if defined(__aarch64__)
    {"neon", plain_match_tile, plain_write_pairs, plain_groups_tile},
#else
    {"plain", plain_match_tile, plain_write_pairs, plain_groups_tile},
#endif
#if defined(__x86_64__) && defined(__GNUC__)
    {"avx2", avx2_match_tile, avx2_write_pairs, avx2_groups_tile},
    {"avx512", avx512_match_tile, avx512_write_pairs, avx512_groups_tile},
    {"avx512-vbmi2", vbmi2_match_tile, vbmi2_write_pairs, vbmi2_groups_tile},
#endif
};
static const Level *level = LEVELS;
static int level_max;
static uint32_t buckets_max = BUCKETS_MAX, word_bytes_max = WORD_BYTES_MAX;

static void choose_level(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
        level_max = 1;
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
            level_max = 2;
            if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2")) level_max = 3;
        }
    }
#endif
    level = LEVELS + level_max;
}

/* rows and toggles of numbers */

static void set_range(uint64_t *rows, uint32_t stride, uint32_t begin, uint32_t end, uint32_t id) {
    uint64_t bit = (uint64_t)1 << (id & 63);
    rows += id >> 6;
    for (uint32_t row = begin; row < end; row++) rows[(size_t)row * stride] |= bit;
}

static void clear_rows(uint64_t *rows, uint32_t stride, uint32_t count, uint32_t id) {
    uint64_t bit = ~((uint64_t)1 << (id & 63));
    rows += id >> 6;
    for (uint32_t row = 0; row < count; row++) rows[(size_t)row * stride] &= bit;
}

static void size_lines(Toggles *t, uint32_t room) {
    Line *old = t->lines;
    if (posix_memalign((void **)&t->lines, sizeof(Line), (room + 1) * sizeof(Line)))
        Py_FatalError("the match index is out of memory");
    if (t->count) memcpy(t->lines, old, t->count * sizeof(Line));
    free(old);
    t->values = grown(t->values, (size_t)room * LANES * sizeof *t->values);
    t->room = room;
}

static uint32_t lanes_used(const Line *line) {
    uint32_t used = LANES;
    while (used && line->ids[used - 1] & IS_NONE) used--;
    return used;
}

static void empty_line(Line *line) {
    for (uint32_t lane = 0; lane < LANES; lane++) line->steps[lane] = INT16_MAX, line->ids[lane] = IS_NONE;
}

/* Make an empty line at the end of a bucket (1), or remove its last line (-1). */
static void shift_lines(Toggles *t, uint32_t buckets, uint32_t bucket, int count) {
    uint32_t from = t->starts[bucket + 1], behind = t->count - from;
    if (count > 0 && t->count == t->room) size_lines(t, t->room + t->room / 4 + 4);
    memmove(t->lines + from + count, t->lines + from, behind * sizeof(Line));
    memmove(t->values + (size_t)(from + count) * LANES, t->values + (size_t)from * LANES,
            (size_t)behind * LANES * sizeof *t->values);
    for (uint32_t b = bucket + 1; b <= buckets; b++) t->starts[b] += (uint32_t)count;
    t->count += (uint32_t)count;
    if (count > 0) empty_line(t->lines + from);
}

static void put_toggle(const Numbers *n, Toggles *t, uint32_t bucket, uint32_t line, uint32_t lane, Bound bound) {
    unsigned role = bound.id & IS_FIRST ? OF_FIRST : OF_LAST;
    t->lines[line].steps[lane] = step_of(n, bucket, bound.value, role);
    t->lines[line].ids[lane] = bound.id;
    t->values[(size_t)line * LANES + lane] = bound.value;
}

static void drop_toggle(Numbers *n, Toggles *t, uint32_t bucket, uint16_t id) {
    uint32_t line = t->starts[bucket], lane = 0, last = t->starts[bucket + 1] - 1;
    while (t->lines[line].ids[lane] != id)
        if (++lane == LANES) line++, lane = 0;
    uint32_t used = lanes_used(t->lines + last) - 1;
    t->lines[line].steps[lane] = t->lines[last].steps[used];
    t->lines[line].ids[lane] = t->lines[last].ids[used];
    t->values[(size_t)line * LANES + lane] = t->values[(size_t)last * LANES + used];
    t->lines[last].steps[used] = INT16_MAX;
    t->lines[last].ids[used] = IS_NONE;
    if (!used) shift_lines(t, n->buckets, bucket, -1);
}

static void toggle(Numbers *n, Toggles *t, uint32_t bucket, int is_last, int64_t value, uint32_t id, Mode mode) {
    Bound bound = {value, (uint16_t)(id | (is_last ? 0 : IS_FIRST))};
    if (!t->starts) t->starts = memset(grown(NULL, (n->buckets + 1) * 4), 0, (n->buckets + 1) * 4);
    n->toggles[bucket] += mode == REMOVE ? -1u : 1u;
    if (mode == REMOVE) {
        drop_toggle(n, t, bucket, bound.id);
    } else if (mode == BULK) { /* they get lines when all have been added */
        if (t->count == t->room) t->bulk = grown(t->bulk, (t->room += t->room / 2 + 8) * sizeof(Bound));
        t->starts[bucket + 1]++;
        t->bulk[t->count++] = bound;
    } else {
        uint32_t end = t->starts[bucket + 1], used = end == t->starts[bucket] ? LANES : lanes_used(t->lines + end - 1);
        if (used == LANES) shift_lines(t, n->buckets, bucket, 1), end++, used = 0;
        put_toggle(n, t, bucket, end - 1, used, bound);
        n->loose++;
    }
}

static void gap(Block *block, uint32_t bucket, int64_t low, int64_t high, uint32_t id, Mode mode) {
    uint32_t at = first_gap(block, bucket);
    if (mode == REMOVE) {
        while (block->gaps[at].id != id) at++;
        memmove(block->gaps + at, block->gaps + at + 1, (--block->gap_count - at) * sizeof(Gap));
        return;
    }
    if (block->gap_count == block->gap_room) {
        block->gap_room = 2 * block->gap_room + 4;
        block->gaps = grown(block->gaps, block->gap_room * sizeof(Gap));
    }
    memmove(block->gaps + at + 1, block->gaps + at, (block->gap_count++ - at) * sizeof(Gap));
    block->gaps[at] = (Gap){low, high, bucket, (uint16_t)id};
}

static void refuse(Block *block, uint32_t begin, uint32_t end, uint32_t id, Mode mode) {
    if (mode == ADD) set_range(block->rows, block->stride, begin, end, id);
    if (mode != BULK || begin >= end) return;
    block->rows[(size_t)begin * block->stride + (id >> 6)] ^= (uint64_t)1 << (id & 63); /* begins here; see settle */
    block->rows[(size_t)end * block->stride + (id >> 6)] ^= (uint64_t)1 << (id & 63);
}

/* Put a column's spans, disjoint and rising, into a block, or remove them; BULK: as marks, from which `settle`
 * makes rows. */
static void place(Numbers *n, Block *block, uint32_t id, const int64_t *spans, uint32_t count, Mode mode) {
    uint32_t free_bucket = 0, last_bucket = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t first = spans[2 * i], last = spans[2 * i + 1];
        uint32_t begin = bucket_of(n, first), end = bucket_of(n, last);
        refuse(block, free_bucket, begin, id, mode);
        if (i && begin == last_bucket)
            gap(block, begin, spans[2 * i - 1], first, id, mode);
        else {
            if (i && spans[2 * i - 1] != bucket_end(n, last_bucket))
                toggle(n, &block->toggles, last_bucket, 1, spans[2 * i - 1], id, mode);
            if (first != n->edges[begin]) toggle(n, &block->toggles, begin, 0, first, id, mode);
        }
        last_bucket = end;
        free_bucket = end + 1;
    }
    if (count && spans[2 * count - 1] != bucket_end(n, last_bucket))
        toggle(n, &block->toggles, last_bucket, 1, spans[2 * count - 1], id, mode);
    refuse(block, free_bucket, n->buckets, id, mode);
    if (mode == REMOVE) clear_rows(block->rows, block->stride, n->buckets, id);
}

static void free_rows(const Numbers *n, uint64_t *rows) {
    if (!n->slab || rows < n->slab->rows || rows >= n->slab->end) free(rows);
}

static void free_block(const Numbers *n, Block *b) {
    free_rows(n, b->rows);
    free(b->toggles.values), free(b->toggles.lines), free(b->toggles.bulk), free(b->toggles.starts);
    free(b->gaps);
    memset(b, 0, sizeof *b);
}

static void unbuild(Kernel *k, Numbers *n) {
    if (!n->built) return;
    for (uint32_t t = 0; t < k->tiles; t++) free_block(n, n->blocks + t);
    free(n->blocks), free(n->edges), free(n->shifts), free(n->toggles);
    if (!--n->slab->users) free(n->slab->rows), free(n->slab);
    *n = (Numbers){.wanted = n->wanted};
}

static void make_block(Kernel *k, Numbers *n, uint32_t tile) {
    n->blocks[tile].stride = words_of(k, tile);
    n->blocks[tile].rows = lines((size_t)(n->buckets + 1) * words_of(k, tile)); /* one extra row, for marks */
}

/* Whether to choose the edges again: enough was added, or one bucket is out of proportion. */
static int is_due(const Numbers *n, uint64_t bounds, uint32_t fullest) {
    int skewed = fullest > 64 + 8 * bounds / n->buckets;
    return n->loose > 32 + bounds / (skewed ? 64 : 4);
}

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Choose edges: every first key, and every key after a last one, where they are few; otherwise quantiles. */
static void choose_edges(Kernel *k, Attribute *a, int kind, int64_t *bounds, uint32_t count, uint32_t buckets) {
    Numbers *n = a->numbers + kind;
    uint32_t distinct = 0;
    qsort(bounds, count, sizeof *bounds, by_value);
    n->edges = grown(NULL, (size_t)(buckets + 1) * sizeof(int64_t));
    n->edges[0] = INT64_MIN;
    n->buckets = 1;
    for (uint32_t i = 0; i < count; i++) distinct += !i || bounds[i] != bounds[i - 1];
    uint32_t steps = distinct < buckets ? count : buckets - 1;
    for (uint32_t i = 0; i < steps; i++) {
        int64_t edge = bounds[steps == count ? i : (uint64_t)i * (count - 1) / (steps > 1 ? steps - 1 : 1)];
        if (edge != n->edges[n->buckets - 1]) n->edges[n->buckets++] = edge;
    }
    n->shifts = grown(NULL, n->buckets);
    for (uint32_t b = 0; b < n->buckets; b++) {
        uint64_t width = (uint64_t)bucket_end(n, b) - (uint64_t)n->edges[b];
        n->shifts[b] = width <= UINT16_MAX / 3 - 1 ? EXACT_STEPS : 0;
        while (n->shifts[b] != EXACT_STEPS && width >> n->shifts[b] > UINT16_MAX) n->shifts[b]++;
    }
    n->blocks = memset(grown(NULL, k->tiles * sizeof(Block)), 0, k->tiles * sizeof(Block));
    n->toggles = memset(grown(NULL, n->buckets * 4), 0, n->buckets * 4);
    n->built = 1;
}

/* Put bounds that were appended with new columns into lines. */
static void line_up(const Numbers *n, Toggles *t) {
    if (!t->bulk) return;
    Bound *bulk = t->bulk;
    uint32_t bounds = t->count, *filled = memset(grown(NULL, n->buckets * 4), 0, n->buckets * 4);
    for (uint32_t b = 0; b < n->buckets; b++) t->starts[b + 1] = t->starts[b] + (t->starts[b + 1] + LANES - 1) / LANES;
    t->bulk = NULL;
    t->count = 0;
    size_lines(t, t->starts[n->buckets]);
    t->count = t->room;
    for (uint32_t line = 0; line < t->count; line++) empty_line(t->lines + line);
    for (uint32_t i = 0; i < bounds; i++) {
        uint32_t bucket = bucket_of(n, bulk[i].value), at = filled[bucket]++;
        put_toggle(n, t, bucket, t->starts[bucket] + at / LANES, at % LANES, bulk[i]);
    }
    free(filled), free(bulk);
}

static void finish_block(const Numbers *n, Block *block, uint32_t words) {
    for (uint32_t row = 1; row < n->buckets; row++) {
        uint64_t *its = block->rows + (size_t)row * block->stride;
        for (uint32_t word = 0; word < words; word++) its[word] ^= (its - block->stride)[word];
    }
    memset(block->rows + (size_t)n->buckets * block->stride, 0, words * 8);
    line_up(n, &block->toggles);
}

/* tiles and attributes */

static uint64_t *copied(const uint64_t *rows, uint32_t stride, uint32_t count, uint32_t old, uint32_t words) {
    if (!rows) return NULL;
    uint64_t *out = lines((size_t)count * words);
    for (uint32_t row = 0; row < count; row++) memcpy(out + (size_t)row * words, rows + (size_t)row * stride, old * 8);
    return out;
}

static uint64_t *wider(uint64_t *rows, uint32_t count, uint32_t old, uint32_t words) {
    uint64_t *out = copied(rows, old, count, old, words);
    free(rows);
    return out;
}

static void widen_last(Kernel *k, uint32_t words) {
    uint32_t t = k->tiles - 1, old = k->last_words;
    k->dead[t] = wider(k->dead[t], 1, old, words);
    memset(k->dead[t] + old, 0xFF, (words - old) * 8);
    for (uint32_t i = 0; i < k->attribute_count; i++) {
        Attribute *a = k->attributes[i];
        if (!a) continue;
        a->fixed[t] = wider(a->fixed[t], FIXED, old, words);
        a->words.base[t] = wider(a->words.base[t], 1, old, words);
        for (int kind = 0; kind < KINDS; kind++) {
            Numbers *n = a->numbers + kind;
            if (!n->built) continue;
            uint64_t *rows = n->blocks[t].rows;
            n->blocks[t].rows = copied(rows, n->blocks[t].stride, n->buckets + 1, old, words);
            n->blocks[t].stride = words;
            free_rows(n, rows);
        }
    }
    k->last_words = words;
}

static void stretch_attribute(Kernel *k, Attribute *a, uint32_t old) {
    uint32_t tiles = k->tiles;
    a->named = grown(a->named, tiles * sizeof *a->named);
    a->fixed = grown(a->fixed, tiles * sizeof *a->fixed);
    a->words.base = grown(a->words.base, tiles * sizeof *a->words.base);
    for (uint32_t t = old; t < tiles; t++) a->named[t] = 0, a->fixed[t] = NULL, a->words.base[t] = NULL;
    for (int kind = 0; kind < KINDS; kind++)
        if (a->numbers[kind].built) {
            a->numbers[kind].blocks = grown(a->numbers[kind].blocks, tiles * sizeof(Block));
            memset(a->numbers[kind].blocks + old, 0, (tiles - old) * sizeof(Block));
        }
}

static void make_room(Kernel *k, uint32_t column) {
    while (k->tiles <= column / TILE_COLUMNS) {
        if (k->tiles && k->last_words < TILE_WORDS) widen_last(k, TILE_WORDS);
        uint32_t old = k->tiles++;
        k->last_words = 1;
        k->dead = grown(k->dead, k->tiles * sizeof *k->dead);
        k->dead[old] = lines(1);
        k->dead[old][0] = ~(uint64_t)0;
        for (uint32_t i = 0; i < k->attribute_count; i++)
            if (k->attributes[i]) stretch_attribute(k, k->attributes[i], old);
    }
    uint32_t words = k->last_words;
    if (column / TILE_COLUMNS + 1 == k->tiles)
        while (words * 64 <= column % TILE_COLUMNS) words *= 2;
    if (words > k->last_words) widen_last(k, words);
    if (column >= k->column_room) {
        uint32_t room = column + column / 4 + 16;
        k->columns = grown(k->columns, room * sizeof *k->columns);
        memset(k->columns + k->column_room, 0, (room - k->column_room) * sizeof *k->columns);
        k->column_room = room;
    }
}

static void drop_row(Words *w, Word *word) {
    if (!word->row) return;
    free(word->row);
    word->row = NULL;
    uint32_t moved = w->seats[--w->seat_count];
    w->seats[word->seat] = moved;
    w->list[moved]->seat = word->seat;
}

static void drop_word(Words *w, uint32_t place) {
    Word *word = w->list[place];
    drop_row(w, word);
    w->version++;
    PyDict_DelItem(w->places, word->text);
    free(word->columns);
    free(word);
    w->list[place] = NULL;
    w->free = grown(w->free, (w->free_count + 1) * sizeof *w->free);
    w->free[w->free_count++] = place;
}

static void free_words(Kernel *k, Words *w) {
    for (uint32_t t = 0; w->base && t < k->tiles; t++) free(w->base[t]);
    for (uint32_t i = 0; i < w->count; i++)
        if (w->list[i]) free(w->list[i]->row), free(w->list[i]->columns), free(w->list[i]);
    for (uint32_t i = 0; i < w->set_count; i++) {
        Py_DECREF(w->sets[i].strings), Py_DECREF(w->sets[i].test);
        free(w->sets[i].columns);
    }
    free(w->base), free(w->list), free(w->free), free(w->sets), free(w->seats), free(w->known_places);
    Py_XDECREF(w->places), Py_XDECREF(w->known);
}

static void free_attribute(Kernel *k, Attribute *a) {
    for (uint32_t t = 0; t < k->tiles; t++) free(a->fixed[t]);
    for (int kind = 0; kind < KINDS; kind++) unbuild(k, a->numbers + kind);
    free_words(k, &a->words);
    free(a->named), free(a->fixed);
    Py_XDECREF(a->name);
    free(a);
}

/* The attribute's position, NOWHERE when it is not known, or after an error. */
static uint32_t find_attribute(Kernel *k, PyObject *name, int make) {
    PyObject *place = PyDict_GetItemWithError(k->places, name);
    if (place) return (uint32_t)PyLong_AsUnsignedLong(place);
    if (PyErr_Occurred() || !make) return NOWHERE;
    uint32_t at = 0;
    while (at < k->attribute_count && k->attributes[at]) at++;
    if (at > UINT16_MAX / 5) {
        PyErr_SetString(PyExc_OverflowError, "an index holds filters of at most 13,107 attributes");
        return NOWHERE;
    }
    place = PyLong_FromUnsignedLong(at);
    PyObject *words = PyDict_New();
    int failed = !place || !words || PyDict_SetItem(k->places, name, place) < 0;
    Py_XDECREF(place);
    if (failed) {
        Py_XDECREF(words);
        return NOWHERE;
    }
    if (at == k->attribute_count)
        k->attributes = grown(k->attributes, ++k->attribute_count * sizeof *k->attributes);
    Attribute *a = k->attributes[at] = memset(grown(NULL, sizeof *a), 0, sizeof *a);
    Py_INCREF(name);
    a->name = name;
    a->words.places = words;
    stretch_attribute(k, a, 0);
    return at;
}

static void drop_attribute(Kernel *k, uint32_t at) {
    PyDict_DelItem(k->places, k->attributes[at]->name);
    free_attribute(k, k->attributes[at]);
    k->attributes[at] = NULL;
    while (k->attribute_count && !k->attributes[k->attribute_count - 1]) k->attribute_count--;
}

/* Drop the attributes that were added for a clause which is rejected; the current exception is kept. */
static void drop_unused(Kernel *k) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    for (uint32_t i = 0; i < k->attribute_count; i++)
        if (k->attributes[i] && !k->attributes[i]->clauses) drop_attribute(k, i);
    PyErr_Restore(type, value, trace);
}

static void make_tile(Kernel *k, Attribute *a, uint32_t t) { /* the rows of an attribute that a tile's clauses name */
    if (a->named[t]++) return;
    a->fixed[t] = lines(FIXED * words_of(k, t));
    a->words.base[t] = lines(words_of(k, t));
    for (int kind = 0; kind < KINDS; kind++)
        if (a->numbers[kind].built) make_block(k, a->numbers + kind, t);
}

static void drop_tile(Kernel *k, Attribute *a, uint32_t t) {
    (void)k;
    if (--a->named[t]) return;
    free(a->fixed[t]), free(a->words.base[t]);
    a->fixed[t] = a->words.base[t] = NULL;
    for (int kind = 0; kind < KINDS; kind++)
        if (a->numbers[kind].built) free_block(a->numbers + kind, a->numbers[kind].blocks + t);
}

/* constraints, from Python */

static int truth(PyObject *object, PyObject *name) { /* -1 after an error */
    PyObject *value = PyObject_GetAttr(object, name);
    if (!value) return -1;
    int result = PyObject_IsTrue(value);
    Py_DECREF(value);
    return result;
}

static int length(PyObject *object, PyObject *name) {
    PyObject *value = PyObject_GetAttr(object, name);
    if (!value) return -1;
    Py_ssize_t result = PyObject_Size(value);
    Py_DECREF(value);
    return result < 0 ? -1 : result > 0;
}

/* A bound as an integer or a float that both kinds of columns can hold: returns 1, 0 if it is no such bound, or -1
 * after an error. */
static int plain_bound(PyObject *interval, PyObject *name, int64_t none, int64_t *out, int *integers, int *reals) {
    PyObject *bound = PyObject_GetAttr(interval, name);
    int result = 0;
    if (!bound) return -1;
    if (bound == Py_None) {
        *out = none;
        result = 1;
    } else if (PyLong_CheckExact(bound)) {
        int overflow;
        long long value = PyLong_AsLongLongAndOverflow(bound, &overflow);
        result = !overflow && value > -EXACT && value < EXACT;
        *out = value;
        ++*integers;
    } else if (PyFloat_CheckExact(bound)) {
        double value = PyFloat_AsDouble(bound) + 0.0;
        result = value > (double)-EXACT && value < (double)EXACT;
        memcpy(out, &value, 8);
        ++*reals;
    }
    Py_DECREF(bound);
    return result;
}

/* One interval of numbers and nothing else, with moderate bounds of one type: 1 and the output filled in, otherwise
 * 0; -1 after an error. */
static int plain_constraint(Kernel *k, PyObject *domain, Constraint *c) {
    PyObject *strings = PyObject_GetAttr(domain, s_strings);
    if (!strings) return -1;
    Py_DECREF(strings);
    if (strings != k->no_strings) return 0;
    int other = truth(domain, s_missing);
    if (!other) other = truth(domain, s_null);
    if (!other) other = length(domain, s_booleans);
    if (!other) other = length(domain, s_timestamps);
    if (other) return other < 0 ? -1 : 0;
    PyObject *numbers = PyObject_GetAttr(domain, s_numbers);
    if (!numbers) return -1;
    int result = 0;
    if (PyTuple_Check(numbers) && PyTuple_Size(numbers) == 1) {
        PyObject *interval = PyTuple_GetItem(numbers, 0);
        int integers = 0, reals = 0;
        result = plain_bound(interval, s_low, INT64_MIN, &c->low, &integers, &reals);
        if (result > 0) result = plain_bound(interval, s_high, INT64_MAX, &c->high, &integers, &reals);
        int low_open = result > 0 ? truth(interval, s_low_open) : 0;
        int high_open = result > 0 ? truth(interval, s_high_open) : 0;
        if (low_open < 0 || high_open < 0) result = -1;
        if (result > 0 && integers && reals) result = 0;
        c->flags = PLAIN | (reals ? REAL : 0) | (low_open ? LOW_OPEN : 0) | (high_open ? HIGH_OPEN : 0);
    }
    Py_DECREF(numbers);
    return result;
}

/* Any other domain, as returned by `describe`: (flags, spans of integers, of floats, of timestamps, strings). */
static int full_constraint(Kernel *k, PyObject *domain, Constraint *c) {
    PyObject *told = PyObject_CallFunctionObjArgs(k->describe, domain, NULL), *parts[KINDS], *strings;
    if (!told) return -1;
    More *more = NULL;
    if (!PyArg_ParseTuple(told, "IO!O!O!O", &c->flags, &PyTuple_Type, parts, &PyTuple_Type, parts + 1, &PyTuple_Type,
                          parts + 2, &strings))
        goto failed;
    Py_ssize_t total = 0, at = 0;
    for (int kind = 0; kind < KINDS; kind++) total += PyTuple_Size(parts[kind]);
    more = grown(NULL, sizeof *more + (size_t)total * sizeof(int64_t));
    for (int kind = 0; kind < KINDS; kind++) {
        Py_ssize_t size = PyTuple_Size(parts[kind]);
        more->counts[kind] = (uint32_t)size / 2;
        for (Py_ssize_t i = 0; i < size; i++) {
            PyObject *value = PyTuple_GetItem(parts[kind], i);
            if (kind == FLOAT) {
                double bound = PyFloat_AsDouble(value);
                int unbounded = isinf(bound) && (bound < 0) == (i % 2 == 0);
                more->spans[at++] = !unbounded ? float_key(bound) : bound < 0 ? INT64_MIN : INT64_MAX;
            } else
                more->spans[at++] = PyLong_AsLongLong(value);
        }
    }
    if (PyErr_Occurred()) goto failed;
    Py_INCREF(domain), Py_INCREF(strings);
    more->domain = domain, more->strings = strings;
    c->more = more;
    Py_DECREF(told);
    return 0;
failed:
    free(more);
    Py_DECREF(told);
    return -1;
}

static void free_constraints(Constraint *constraints, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (!(constraints[i].flags & PLAIN)) {
            Py_DECREF(constraints[i].more->domain), Py_DECREF(constraints[i].more->strings);
            free(constraints[i].more);
        }
    free(constraints);
}

/* words */

static Set *find_set(Words *w, PyObject *strings) { /* NULL when there is none, or after an error */
    for (uint32_t i = 0; i < w->set_count; i++) {
        int same = w->sets[i].strings == strings ? 1 : PyObject_RichCompareBool(w->sets[i].strings, strings, Py_EQ);
        if (same) return same < 0 ? NULL : w->sets + i;
    }
    return NULL;
}

static uint32_t word_place(Words *w, PyObject *text, int make) { /* NOWHERE when there is none, or after an error */
    PyObject *place = PyDict_GetItemWithError(w->places, text);
    if (place) return (uint32_t)PyLong_AsUnsignedLong(place);
    if (PyErr_Occurred() || !make) return NOWHERE;
    uint32_t at = w->free_count ? w->free[w->free_count - 1] : w->count;
    place = PyLong_FromUnsignedLong(at);
    int failed = !place || PyDict_SetItem(w->places, text, place) < 0;
    Py_XDECREF(place);
    if (failed) return NOWHERE;
    if (w->free_count)
        w->free_count--;
    else {
        if (w->count == w->room) w->list = grown(w->list, (w->room = 2 * w->room + 8) * sizeof *w->list);
        w->count++;
    }
    w->list[at] = memset(grown(NULL, sizeof(Word)), 0, sizeof(Word));
    w->list[at]->text = text; /* the dictionary holds it */
    w->version++;
    return at;
}

static int asked(Set *set, PyObject *text) {
    PyObject *answer = PyObject_CallFunctionObjArgs(set->test, text, NULL);
    if (!answer) return -1;
    int result = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return result;
}

static void clear_bit(uint64_t *row, uint32_t column) { row[column >> 6] &= ~((uint64_t)1 << (column & 63)); }
static void set_bit(uint64_t *row, uint32_t column) { row[column >> 6] |= (uint64_t)1 << (column & 63); }

/* Add a column that accepts these strings: a tuple of words, or a set that is tested. -1 after an error. */
static int add_strings(Kernel *k, Words *w, uint32_t column, PyObject *strings) {
    set_bit(w->base[column / TILE_COLUMNS], column % TILE_COLUMNS);
    for (uint32_t i = 0; i < w->seat_count; i++)
        if (column / 64 < w->row_words) set_bit(w->list[w->seats[i]]->row, column);
    if (!strings) return 0;
    if (PyTuple_Check(strings)) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(strings); i++) {
            uint32_t place = word_place(w, PyTuple_GetItem(strings, i), 1);
            if (place == NOWHERE) return -1;
            Word *word = w->list[place];
            put_sorted(&word->columns, &word->count, &word->room, column);
            if (word->row) clear_bit(word->row, column);
        }
        return 0;
    }
    Set *set = find_set(w, strings);
    if (!set) {
        PyObject *test = PyErr_Occurred() ? NULL : PyObject_CallMethodObjArgs(strings, s_test, NULL);
        if (!test) return -1;
        w->sets = grown(w->sets, (w->set_count + 1) * sizeof *w->sets);
        set = w->sets + w->set_count++;
        Py_INCREF(strings);
        *set = (Set){strings, test, NULL, 0, 0};
    }
    put_sorted(&set->columns, &set->count, &set->room, column);
    (void)k;
    for (uint32_t i = 0; i < w->seat_count; i++) {
        Word *word = w->list[w->seats[i]];
        int accepted = asked(set, word->text);
        if (accepted < 0) return -1;
        if (accepted) clear_bit(word->row, column);
    }
    return 0;
}

/* Remove a column. Without sets, no word is kept that no column names: a match then never drops a word, so the places
 * of words stay valid for all chunks of a batch, and until a column changes. */
static void remove_strings(Words *w, uint32_t column, PyObject *strings) {
    clear_bit(w->base[column / TILE_COLUMNS], column % TILE_COLUMNS);
    for (uint32_t i = 0; i < w->seat_count; i++) clear_bit(w->list[w->seats[i]]->row, column);
    if (!strings) return;
    if (PyTuple_Check(strings)) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(strings); i++) {
            uint32_t place = word_place(w, PyTuple_GetItem(strings, i), 0);
            Word *word = w->list[place];
            drop_sorted(word->columns, &word->count, column);
            if (!word->count && (!word->row || !w->set_count)) drop_word(w, place);
        }
        return;
    }
    Set *set = find_set(w, strings);
    drop_sorted(set->columns, &set->count, column);
    if (set->count) return;
    Py_DECREF(set->strings), Py_DECREF(set->test);
    free(set->columns);
    *set = w->sets[--w->set_count];
    for (uint32_t i = w->seat_count; !w->set_count && i--;) /* from the last: it takes a seat that gets free */
        if (!w->list[w->seats[i]]->count) drop_word(w, w->seats[i]);
}

/* Give a word a separate row; the word that has not been used for the longest time loses its row. */
static int make_row(Kernel *k, Words *w, uint32_t place) {
    uint32_t most = word_bytes_max / (8 * w->row_words);
    if (most < WORD_ROWS_MIN) most = WORD_ROWS_MIN;
    if (w->seat_count >= most) {
        while (w->list[w->seats[w->hand %= w->seat_count]]->used + 1 >= k->now) {
            Word *spared = w->list[w->seats[w->hand++]];
            if (spared->used < k->now) spared->used = 0;
        }
        uint32_t leaving = w->seats[w->hand];
        if (w->list[leaving]->count)
            drop_row(w, w->list[leaving]);
        else
            drop_word(w, leaving);
    }
    Word *word = w->list[place];
    uint64_t *row = lines(w->row_words);
    for (uint32_t t = 0; t < k->tiles; t++)
        if (w->base[t]) memcpy(row + (size_t)t * TILE_WORDS, w->base[t], words_of(k, t) * 8);
    for (uint32_t i = 0; i < word->count; i++) clear_bit(row, word->columns[i]);
    for (uint32_t s = 0; s < w->set_count; s++) {
        int accepted = asked(w->sets + s, word->text);
        if (accepted < 0) {
            free(row);
            return -1;
        }
        for (uint32_t i = 0; accepted && i < w->sets[s].count; i++) clear_bit(row, w->sets[s].columns[i]);
    }
    w->seats = grown(w->seats, (w->seat_count + 1) * sizeof *w->seats);
    word->row = row;
    word->seat = w->seat_count;
    w->seats[w->seat_count++] = place;
    return 0;
}

/* Drop rows that have become too short; they are rebuilt on demand. */
static void fit_rows(Kernel *k, Words *w) {
    if (w->row_words >= all_words(k)) return;
    while (w->seat_count) {
        uint32_t place = w->seats[w->seat_count - 1];
        if (w->list[place]->count)
            drop_row(w, w->list[place]);
        else
            drop_word(w, place);
    }
    w->row_words = k->tiles == 1 ? k->last_words : k->tiles * TILE_WORDS * 9 / 8;
}

#define NOT_LOOKED_UP (UINT32_MAX - 1)
#define KNOWN_WORDS_MIN 64 /* of a batch, to be kept with their places */
#define KNOWN_WORDS_MAX (1 << 16)

/* The place of an event's word, with a row where it needs one; NOWHERE: treat it as any other word. -1: an error. */
static int locate_word(Kernel *k, Words *w, PyObject *text, uint32_t *known, uint32_t *out) {
    if (known && *known != NOT_LOOKED_UP)
        *out = *known;
    else
        *out = word_place(w, text, w->set_count > 0);
    if (*out == NOWHERE && PyErr_Occurred()) return -1;
    if (known) *known = *out;
    if (*out == NOWHERE) return 0;
    Word *word = w->list[*out];
    word->used = k->now;
    if (word->row || (!w->set_count && word->count <= 64 + all_words(k) / 4)) return 0;
    return make_row(k, w, *out);
}

/* changes */

static PyObject *Kernel_add(Kernel *k, PyObject *args) {
    unsigned int column;
    PyObject *given;
    if (!PyArg_ParseTuple(args, "IO!", &column, &PyTuple_Type, &given)) return NULL;
    uint32_t count = (uint32_t)PyTuple_Size(given), tile = column / TILE_COLUMNS, id = column % TILE_COLUMNS;
    Constraint *constraints = grown(NULL, count * sizeof *constraints);
    for (uint32_t i = 0; i < count; i++) {
        PyObject *name, *domain;
        int plain = -1;
        if (PyArg_ParseTuple(PyTuple_GetItem(given, i), "OO", &name, &domain)) {
            plain = plain_constraint(k, domain, constraints + i);
            if (!plain) plain = full_constraint(k, domain, constraints + i);
        }
        if (plain >= 0) {
            constraints[i].attribute = find_attribute(k, name, 1);
            if (constraints[i].attribute == NOWHERE) plain = -1, i++;
        }
        if (plain < 0) {
            free_constraints(constraints, i);
            drop_unused(k);
            return NULL;
        }
    }
    make_room(k, column);
    k->columns[column] = (Column){constraints, count, 1};
    clear_bit(k->dead[tile], id);
    int failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        Constraint *c = constraints + i;
        Attribute *a = k->attributes[c->attribute];
        a->clauses++;
        make_tile(k, a, tile);
        for (int row = 0; row < FIXED; row++)
            if (!(c->flags & 1 << row)) set_bit(a->fixed[tile] + row * words_of(k, tile), id);
        for (int kind = 0; kind < KINDS; kind++) {
            int64_t room[2];
            const int64_t *spans;
            uint32_t spans_count = spans_of(c, kind, room, &spans);
            Numbers *n = a->numbers + kind;
            a->bounds[kind] += 2 * spans_count;
            if (!n->built) continue;
            place(n, n->blocks + tile, id, spans, spans_count, ADD);
            if (n->loose <= 32 + a->bounds[kind] / 64) continue;
            uint32_t fullest = 0;
            for (uint32_t b = 0; b < n->buckets; b++) fullest = n->toggles[b] > fullest ? n->toggles[b] : fullest;
            if (is_due(n, a->bounds[kind], fullest)) unbuild(k, n);
        }
        fit_rows(k, &a->words);
        PyObject *strings = c->flags & PLAIN ? NULL : c->more->strings;
        if (strings != Py_None) failed |= add_strings(k, &a->words, column, strings) < 0;
    }
    if (failed) return NULL;
    Py_RETURN_NONE;
}

static PyObject *Kernel_remove(Kernel *k, PyObject *argument) {
    uint32_t column = (uint32_t)PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred()) return NULL;
    if (column >= k->column_room || !k->columns[column].live) {
        PyErr_SetObject(PyExc_KeyError, argument);
        return NULL;
    }
    Column *gone = k->columns + column;
    uint32_t tile = column / TILE_COLUMNS, id = column % TILE_COLUMNS, words = words_of(k, tile);
    for (uint32_t i = 0; i < gone->count; i++) {
        Constraint *c = gone->constraints + i;
        Attribute *a = k->attributes[c->attribute];
        clear_rows(a->fixed[tile], words, FIXED, id);
        for (int kind = 0; kind < KINDS; kind++) {
            int64_t room[2];
            const int64_t *spans;
            uint32_t count = spans_of(c, kind, room, &spans);
            a->bounds[kind] -= 2 * count;
            if (a->numbers[kind].built)
                place(a->numbers + kind, a->numbers[kind].blocks + tile, id, spans, count, REMOVE);
        }
        PyObject *strings = c->flags & PLAIN ? NULL : c->more->strings;
        if (strings != Py_None) remove_strings(&a->words, column, strings);
        drop_tile(k, a, tile);
        if (!--a->clauses) drop_attribute(k, c->attribute);
    }
    set_bit(k->dead[tile], id);
    free_constraints(gone->constraints, gone->count);
    *gone = (Column){0};
    Py_RETURN_NONE;
}

static PyObject *Kernel_loosen(Kernel *k, PyObject *unused) {
    (void)unused;
    for (uint32_t i = 0; i < k->attribute_count; i++)
        for (int kind = 0; k->attributes[i] && kind < KINDS; kind++) unbuild(k, k->attributes[i]->numbers + kind);
    Py_RETURN_NONE;
}

/* Allocate the rows of numbers that have edges and no rows yet, one more than buckets, for marks. The rows of a
 * bucket are stored tile by tile, so a single event reads them sequentially. Their length is an odd number of cache
 * lines, so rows of different buckets, which a batch reads in one tile, do not map to the same cache sets. */
static void make_slab(Kernel *k) {
    Slab *slab = memset(grown(NULL, sizeof *slab), 0, sizeof *slab);
    size_t at = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) slab->rows = large_lines(at), slab->end = slab->rows + at, at = 0;
        for (uint32_t i = 0; i < k->attribute_count * KINDS; i++) {
            Attribute *a = k->attributes[i / KINDS];
            Numbers *n = a ? a->numbers + i % KINDS : NULL;
            if (!a || !n->built || (n->slab && n->slab != slab)) continue;
            if (pass) n->slab = slab, slab->users++;
            uint32_t stride = 0, from = 0;
            for (uint32_t t = 0; t < k->tiles; t++) stride += a->named[t] ? words_of(k, t) : 0;
            if (stride > TILE_WORDS) stride = ((stride + 7) / 8 | 1) * 8;
            for (uint32_t t = 0; t < k->tiles && pass; t++) {
                if (!a->named[t]) continue;
                n->blocks[t].rows = slab->rows + at + from;
                n->blocks[t].stride = stride;
                from += words_of(k, t);
            }
            at += ((size_t)(n->buckets + 1) * stride + 7) / 8 * 8;
        }
    }
}

/* Build the missing rows of all numbers that batches need, in two passes over the columns. */
static void settle(Kernel *k) {
    typedef struct {
        int64_t *bounds;
        uint64_t seen, step;
        uint32_t count;
    } Sample;
    uint32_t tables = 0, lacking = 0, words = k->tiles > 1 ? TILE_WORDS : k->last_words;
    for (uint32_t i = 0; i < k->attribute_count; i++)
        for (int kind = 0; k->attributes[i] && kind < KINDS; kind++) {
            tables += k->attributes[i]->numbers[kind].wanted;
            lacking += k->attributes[i]->numbers[kind].wanted && !k->attributes[i]->numbers[kind].built;
        }
    if (!lacking) return;
    uint32_t buckets = TILE_BYTES / (tables * words * 8);
    buckets = buckets < BUCKETS_MIN ? BUCKETS_MIN : buckets;
    buckets = buckets > buckets_max ? buckets_max : buckets;
    Sample *samples = memset(grown(NULL, k->attribute_count * KINDS * sizeof *samples), 0,
                             k->attribute_count * KINDS * sizeof *samples);
    for (uint32_t i = 0; i < k->attribute_count * KINDS; i++) {
        Attribute *a = k->attributes[i / KINDS];
        if (!a || !a->numbers[i % KINDS].wanted || a->numbers[i % KINDS].built) continue;
        samples[i].step = a->bounds[i % KINDS] / SAMPLE + 1;
        samples[i].bounds = grown(NULL, (a->bounds[i % KINDS] / samples[i].step + 2) * sizeof(int64_t));
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t column = 0; column < k->column_room; column++) {
            Column *its = k->columns + column;
            uint32_t tile = column / TILE_COLUMNS;
            for (uint32_t i = 0; i < its->count; i++) {
                Constraint *c = its->constraints + i;
                for (int kind = 0; kind < KINDS; kind++) {
                    Sample *sample = samples + c->attribute * KINDS + kind;
                    if (!sample->bounds) continue;
                    Numbers *n = k->attributes[c->attribute]->numbers + kind;
                    int64_t room[2];
                    const int64_t *spans;
                    uint32_t count = spans_of(c, kind, room, &spans);
                    if (pass) {
                        place(n, n->blocks + tile, column % TILE_COLUMNS, spans, count, BULK);
                        continue;
                    }
                    for (uint32_t s = 0; s < count; s++) {
                        if (sample->seen++ % sample->step) continue;
                        if (spans[2 * s] > INT64_MIN) sample->bounds[sample->count++] = spans[2 * s];
                        if (spans[2 * s + 1] < INT64_MAX) sample->bounds[sample->count++] = spans[2 * s + 1] + 1;
                    }
                }
            }
        }
        for (uint32_t i = 0; i < k->attribute_count * KINDS; i++) {
            if (!samples[i].bounds) continue;
            Attribute *a = k->attributes[i / KINDS];
            Numbers *n = a->numbers + i % KINDS;
            if (!pass) choose_edges(k, a, (int)(i % KINDS), samples[i].bounds, samples[i].count, buckets);
            for (uint32_t t = 0; pass && t < k->tiles; t++)
                if (a->named[t]) finish_block(n, n->blocks + t, words_of(k, t));
        }
        if (!pass) make_slab(k);
    }
    for (uint32_t i = 0; i < k->attribute_count * KINDS; i++) free(samples[i].bounds);
    free(samples);
}

/* matching */

typedef struct {
    uint32_t attribute;
    long kind;
    int has_present;
    Py_buffer data, present;
    PyObject *words;
    uint32_t *places; /* of each word of the column; where sets of strings are tested, of this chunk's words only */
} Input;

typedef struct {
    Input *inputs;
    uint32_t input_count, attributes, chunk;
    uint8_t *there; /* by attribute: whether any event may have it */
    Source *sources;
    uint32_t *active;
    uint64_t *init;
    Selected *selected;
    uint32_t selected_count;
} Plan;


static void free_plan(Plan *p) {
    for (uint32_t i = 0; i < p->input_count; i++) {
        PyBuffer_Release(&p->inputs[i].data);
        if (p->inputs[i].has_present) PyBuffer_Release(&p->inputs[i].present);
        Py_XDECREF(p->inputs[i].words);
        free(p->inputs[i].places);
    }
    free(p->inputs), free(p->there), free(p->sources), free(p->active), free(p->init), free(p->selected);
}

static int take_buffer(PyObject *column, PyObject *name, Py_buffer *view, Py_ssize_t size, Py_ssize_t events) {
    PyObject *array = PyObject_GetAttr(column, name);
    if (!array) return -1;
    if (array == Py_None) {
        Py_DECREF(array);
        return 0;
    }
    int failed = PyObject_GetBuffer(array, view, PyBUF_STRIDED_RO);
    Py_DECREF(array);
    if (failed) return -1;
    if (view->ndim == 1 && view->itemsize == size && view->shape[0] >= events) return 1;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "a column's array has not the type of its kind, or is too short");
    return -1;
}

/* Collect the columns of a batch that clauses name. */
static int take_inputs(Kernel *k, PyObject *columns, Py_ssize_t events, Plan *p) {
    static const Py_ssize_t sizes[] = {1, 8, 8, 4, 8, 1};
    PyObject *key, *column;
    Py_ssize_t at = 0;
    p->attributes = k->attribute_count;
    p->chunk = CHUNK_EVENTS;
    p->inputs = grown(NULL, (size_t)PyDict_Size(columns) * sizeof(Input));
    p->there = memset(grown(NULL, p->attributes), 0, p->attributes);
    p->sources = grown(NULL, (size_t)p->attributes * 5 * sizeof(Source));
    p->active = grown(NULL, p->attributes * sizeof(uint32_t));
    p->init = lines(TILE_WORDS);
    p->selected = grown(NULL, (size_t)p->attributes * FEW_EVENTS * sizeof(Selected));
    while (PyDict_Next(columns, &at, &key, &column)) {
        PyObject *name;
        Input in = {0};
        if (!PyTuple_Check(key) || PyTuple_Size(key) != 2) {
            PyErr_SetString(PyExc_TypeError, "a column's key is a name and a kind");
            return -1;
        }
        name = PyTuple_GetItem(key, 0);
        in.kind = PyLong_AsLong(PyTuple_GetItem(key, 1));
        if (in.kind == -1 && PyErr_Occurred()) return -1;
        in.attribute = find_attribute(k, name, 0);
        if (in.attribute == NOWHERE) {
            if (PyErr_Occurred()) return -1;
            continue;
        }
        if (in.kind < BOOLEAN_COLUMN || in.kind > NULL_COLUMN) {
            PyErr_SetString(PyExc_ValueError, "a column is of no known kind");
            return -1;
        }
        int taken = take_buffer(column, s_data, &in.data, sizes[in.kind], events);
        if (taken <= 0) return -1;
        in.has_present = take_buffer(column, s_present, &in.present, 1, events);
        if (in.kind == STRING_COLUMN && in.has_present >= 0) in.words = PyObject_GetAttr(column, s_words);
        if (in.has_present < 0 || (in.kind == STRING_COLUMN && (!in.words || !PyTuple_Check(in.words)))) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a string column's words are a tuple");
            PyBuffer_Release(&in.data);
            Py_XDECREF(in.words);
            return -1;
        }
        p->there[in.attribute] = 1;
        Attribute *a = k->attributes[in.attribute];
        if (in.kind == STRING_COLUMN) {
            in.places = grown(NULL, (size_t)PyTuple_Size(in.words) * 4);
            p->chunk = CHUNK_WORDS; /* no chunk may need more rows of words than are cached */
            fit_rows(k, &a->words);
        } else if (in.kind != BOOLEAN_COLUMN && in.kind != NULL_COLUMN)
            a->numbers[in.kind == INTEGER_COLUMN ? INTEGER : in.kind == FLOAT_COLUMN ? FLOAT : MOMENT].wanted = 1;
        p->inputs[p->input_count++] = in;
    }
    return 0;
}

#define ITEM(view, type, i) (*(const type *)((const char *)(view).buf + (i) * (view).strides[0]))

/* Where the words of a batch stand, as far as that was looked up for an earlier batch with the same words; NULL where
 * looking up may add a word (sets), and where there are so few that it is not worth while. */
static uint32_t *known_places(Words *w, PyObject *words, uint32_t count) {
    if (w->set_count || count < KNOWN_WORDS_MIN || count > KNOWN_WORDS_MAX) return NULL;
    if (w->known != words || w->known_version != w->version) {
        PyObject *before = w->known;
        Py_INCREF(words);
        w->known = words, w->known_version = w->version;
        Py_XDECREF(before);
        w->known_places = grown(w->known_places, count * sizeof *w->known_places);
        for (uint32_t i = 0; i < count; i++) w->known_places[i] = NOT_LOOKED_UP;
    }
    return w->known_places;
}

static int pick_words(Kernel *k, Input *in, Py_ssize_t begin, uint32_t events, Pick *picks, uint32_t attributes) {
    Words *w = &k->attributes[in->attribute]->words;
    uint32_t known = (uint32_t)PyTuple_Size(in->words);
    uint32_t *places = known_places(w, in->words, known);
    int stay = begin && !w->set_count; /* otherwise the place of a word that is only looked up may be reused */
    for (uint32_t i = 0; i < known && !stay; i++) in->places[i] = NOT_LOOKED_UP;
    for (uint32_t e = 0; e < events; e++) {
        if (in->has_present && !ITEM(in->present, uint8_t, begin + e)) continue;
        int32_t code = ITEM(in->data, int32_t, begin + e);
        if (code < 0 || (uint32_t)code >= known) {
            PyErr_SetString(PyExc_IndexError, "a string column's code is no position in its words");
            return -1;
        }
        if (in->places[code] == NOT_LOOKED_UP &&
            locate_word(k, w, PyTuple_GetItem(in->words, code), places ? places + code : NULL, in->places + code) < 0)
            return -1;
        picks[(size_t)e * attributes + in->attribute] = (Pick){in->places[code], (uint16_t)(in->attribute * 5 + 4), 0, 0};
    }
    return 0;
}

static void pick_numbers(Kernel *k, Input *in, Py_ssize_t begin, uint32_t events, Pick *picks, uint32_t attributes) {
    int kind = in->kind == INTEGER_COLUMN ? INTEGER : in->kind == FLOAT_COLUMN ? FLOAT : MOMENT;
    const Numbers *n = k->attributes[in->attribute]->numbers + kind;
    for (uint32_t e = 0; e < events; e++) {
        int64_t key;
        if (in->has_present && !ITEM(in->present, uint8_t, begin + e)) continue;
        if (kind == FLOAT) {
            double value = ITEM(in->data, double, begin + e);
            if (value != value) continue; /* NaN is missing */
            key = float_key(value);
        } else
            key = ITEM(in->data, int64_t, begin + e);
        uint32_t bucket = bucket_of(n, key);
        picks[(size_t)e * attributes + in->attribute] =
            (Pick){bucket, (uint16_t)(in->attribute * 5 + 1 + (uint32_t)kind), step_of(n, bucket, key, OF_KEY), key};
    }
}

/* Find the row of each attribute for the events of a chunk. */
static int pick(Kernel *k, Plan *p, Py_ssize_t begin, uint32_t events) {
    uint32_t attributes = p->attributes;
    size_t needed = (size_t)attributes * events;
    if (needed > k->picks_room) k->picks = grown(k->picks, (k->picks_room = needed) * sizeof(Pick));
    for (uint32_t e = 0; e < events; e++)
        for (uint32_t a = 0; a < attributes; a++) k->picks[(size_t)e * attributes + a] = (Pick){MISSING, (uint16_t)(a * 5), 0, 0};
    k->now++;
    for (Input *in = p->inputs; in < p->inputs + p->input_count; in++) {
        if (in->kind == STRING_COLUMN) {
            if (pick_words(k, in, begin, events, k->picks, attributes) < 0) return -1;
        } else if (in->kind == BOOLEAN_COLUMN || in->kind == NULL_COLUMN) {
            for (uint32_t e = 0; e < events; e++)
                if (!in->has_present || ITEM(in->present, uint8_t, begin + e))
                    k->picks[(size_t)e * attributes + in->attribute].row =
                        in->kind == NULL_COLUMN ? NULL_ : ITEM(in->data, uint8_t, begin + e) ? TRUE_ : FALSE_;
        } else
            pick_numbers(k, in, begin, events, k->picks, attributes);
    }
    return 0;
}

/* Read a block into the cache sequentially, which is faster than line by line as events need it. */
FETCHING fetch_block(const Numbers *n, const Block *b, uint32_t words) {
    for (uint32_t row = 0; row < n->buckets; row++) fetch(b->rows + (size_t)row * b->stride, words * 8);
    fetch(b->toggles.lines, b->toggles.count * sizeof(Line));
}

/* The rows of numbers that a few events select (the first events or the named ones); used to prefetch the next
 * tiles. */
static void select_rows(const Kernel *k, Plan *p, const uint32_t *events, uint32_t count) {
    p->selected_count = 0;
    for (uint32_t e = 0; e < count; e++) {
        const Pick *picks = k->picks + (size_t)(events ? events[e] : e) * p->attributes;
        for (uint32_t i = 0; i < p->attributes; i++) {
            uint32_t kind = picks[i].source - i * 5 - 1u;
            if (kind >= KINDS) continue;
            p->selected[p->selected_count++] = (Selected){k->attributes[i]->numbers[kind].blocks, picks[i].row};
        }
    }
}

/* Prefetch what a few events need of the next tiles: first the descriptors, then the positions of toggles, then
 * rows and toggles, so that no step waits for the previous one. */
enum { BLOCKS_AHEAD = 3, STARTS_AHEAD = 2, ROWS_AHEAD = 1 };

FETCHING fetch_ahead(const Kernel *k, const Plan *p, int64_t tile) {
    int64_t blocks = tile + BLOCKS_AHEAD, starts = tile + STARTS_AHEAD, rows = tile + ROWS_AHEAD, end = k->tiles;
    for (uint32_t i = 0; i < p->selected_count; i++) {
        const Block *b = p->selected[i].blocks;
        uint32_t row = p->selected[i].row;
        if (blocks < end) __builtin_prefetch(b + blocks);
        if (starts >= 0 && starts < end && b[starts].toggles.count) __builtin_prefetch(b[starts].toggles.starts + row);
        if (rows < 0 || rows >= end || !b[rows].rows) continue;
        if (b[rows].toggles.count) fetch_lines(&b[rows].toggles, row);
        fetch(b[rows].rows + (size_t)row * b[rows].stride, words_of(k, (uint32_t)rows) * 8);
    }
}

/* Of the attributes for which every remaining clause of a tile names words, the one with the most words; or NOWHERE. */
static uint32_t worded_of(const Kernel *k, const Plan *p, uint32_t t, uint32_t active) {
    uint32_t found = NOWHERE, most = 0;
    for (uint32_t i = 0; i < active; i++) {
        const Words *w = &k->attributes[p->active[i]]->words;
        uint32_t count = w->count - w->free_count;
        uint64_t all = ~(uint64_t)0;
        if (w->set_count || count <= most) continue;
        for (uint32_t word = 0; word < words_of(k, t); word++) all &= p->init[word] | w->base[t][word];
        if (~all) continue;
        found = p->active[i], most = count;
    }
    return found;
}

/* Prepare one tile for the hot loops: rows that all events select are put into `init` in advance. */
static Tile tile_of(Kernel *k, Plan *p, uint32_t t, uint32_t events) {
    uint32_t words = words_of(k, t), active = 0;
    size_t struck = STRUCK_SPARE;
    memcpy(p->init, k->dead[t], words * 8);
    for (uint32_t i = 0; i < p->attributes; i++) {
        const Attribute *a = k->attributes[i];
        if (!a || !a->named[t]) continue;
        if (!p->there[i]) {
            for (uint32_t word = 0; word < words; word++) p->init[word] |= a->fixed[t][MISSING * words + word];
            continue;
        }
        p->active[active++] = i;
        p->sources[i * 5] = (Source){a->fixed[t], NULL, NULL, words};
        size_t most = 0;
        for (int kind = 0; kind < KINDS; kind++) {
            const Numbers *n = a->numbers + kind;
            if (!n->built) continue;
            const Block *b = n->blocks + t;
            size_t toggles = (size_t)b->toggles.count * LANES + b->gap_count;
            p->sources[i * 5 + 1 + (uint32_t)kind] = (Source){b->rows, toggles ? b : NULL, NULL, b->stride};
            most = toggles > most ? toggles : most;
            if (events > FETCH_FROM) fetch_block(n, b, words);
        }
        p->sources[i * 5 + 4] = (Source){a->words.base[t], NULL, &a->words, words};
        struck += most;
    }
    if (struck > k->struck_room) k->struck = grown(k->struck, (k->struck_room = struck) * sizeof *k->struck);
    if (active * TILE_WORDS > k->scratch_room) {
        free(k->scratch);
        k->scratch = lines(k->scratch_room = active * TILE_WORDS);
    }
    uint32_t worded = worded_of(k, p, t, active);
    return (Tile){p->sources, p->active, active, p->attributes, words, t, k->tiles, worded,
                  k->columns + (size_t)t * TILE_COLUMNS, p->init, k->scratch, k->struck};
}

static size_t *chunk_starts(const Kernel *k, size_t *starts, uint32_t begin, uint32_t events, size_t from) {
    for (uint32_t t = 0; t < k->found_tiles; t++) {
        starts[t] = from;
        for (uint32_t e = begin; e < begin + events; e++) from += k->counts[(size_t)e * k->found_tiles + t];
    }
    starts[k->found_tiles] = from;
    return starts;
}

/* Get the buffer of an array with 64 bits per column; the caller releases it. */
static int take_by_column(const Kernel *k, PyObject *array, Py_buffer *view) {
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS) < 0) return -1;
    size_t end = 0; /* one past the last live column */
    for (uint32_t t = k->tiles; t-- && !end;)
        for (uint32_t word = words_of(k, t); word-- && !end;)
            if (~k->dead[t][word])
                end = (size_t)t * TILE_COLUMNS + word * 64 + 64 - (size_t)__builtin_clzll(~k->dead[t][word]);
    if (view->itemsize == 8 && (size_t)view->len / 8 >= end) return 0;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "an array by column has not 64 bits for each column");
    return -1;
}

/* Convert the matches of each event to owners, sorted and without duplicates; returns whether each owner is a slot. */
static int own(Kernel *k, const int64_t *owners, uint32_t slots) {
    size_t *starts = grown(NULL, (k->found_tiles + 1) * sizeof *starts), from = 0, count = 0;
    uint32_t words = (slots + 63) / 64;
    uint64_t *seen = memset(grown(NULL, words * 8), 0, words * 8);
    k->totals = grown(k->totals, k->events * sizeof *k->totals);
    k->owners = grown(NULL, k->pool.count * sizeof *k->owners); /* never more than there are columns */
    for (uint32_t begin = 0; begin < k->events; begin += k->chunk) {
        uint32_t events = k->events - begin < k->chunk ? k->events - begin : k->chunk;
        chunk_starts(k, starts, begin, events, from);
        from = starts[k->found_tiles];
        for (uint32_t e = begin; e < begin + events; e++) {
            for (uint32_t t = 0; t < k->found_tiles; t++) {
                const int64_t *its = owners + (size_t)t * TILE_COLUMNS;
                for (uint32_t left = k->counts[(size_t)e * k->found_tiles + t]; left; left--) {
                    uint64_t owner = (uint64_t)its[k->pool.entries[starts[t]++]];
                    if (owner >= slots) {
                        free(starts), free(seen);
                        PyErr_SetString(PyExc_IndexError, "the owner of a column is no slot");
                        return 0;
                    }
                    seen[owner >> 6] |= (uint64_t)1 << (owner & 63);
                }
            }
            size_t before = count;
            for (uint32_t word = 0; word < words; word++)
                for (; seen[word]; seen[word] &= seen[word] - 1)
                    k->owners[count++] = word * 64 + (uint32_t)__builtin_ctzll(seen[word]);
            k->totals[e] = count - before;
        }
    }
    free(starts), free(seen);
    k->found = count;
    return 1;
}

static void forget_matches(Kernel *k) {
    free(k->owners);
    k->owners = NULL;
    k->pool.count = k->found = 0;
    k->events = 0;
}

/* find(columns, events, owners or None, slots) -> number of matches; `take` writes them. */
static PyObject *Kernel_find(Kernel *k, PyObject *args) {
    PyObject *columns, *owners;
    unsigned int events, slots;
    if (!PyArg_ParseTuple(args, "O!IOI", &PyDict_Type, &columns, &events, &owners, &slots)) return NULL;
    Plan plan = {0};
    size_t needed = (size_t)events * k->tiles;
    forget_matches(k);
    if (take_inputs(k, columns, events, &plan) < 0) goto failed;
    settle(k);
    if (needed > k->counts_room) k->counts = grown(k->counts, (k->counts_room = needed) * sizeof *k->counts);
    for (uint32_t begin = 0; begin < events; begin += plan.chunk) {
        uint32_t size = events - begin < plan.chunk ? events - begin : plan.chunk;
        if (pick(k, &plan, begin, size) < 0) goto failed;
        if (size <= FEW_EVENTS) select_rows(k, &plan, NULL, size);
        for (int64_t before = -BLOCKS_AHEAD; before < 0; before++) fetch_ahead(k, &plan, before);
        for (uint32_t t = 0; t < k->tiles; t++) {
            fetch_ahead(k, &plan, t);
            Tile tile = tile_of(k, &plan, t, size);
            level->match(&tile, k->picks, size, k->counts + (size_t)begin * k->tiles + t, &k->pool);
        }
    }
    k->events = events;
    k->found_tiles = k->tiles;
    k->chunk = plan.chunk;
    k->found = k->pool.count;
    if (owners != Py_None) {
        Py_buffer view;
        if (take_by_column(k, owners, &view) < 0) goto failed;
        int done = own(k, view.buf, slots);
        PyBuffer_Release(&view);
        if (!done) goto failed;
    }
    free_plan(&plan);
    return PyLong_FromSize_t(k->found);
failed:
    forget_matches(k);
    free_plan(&plan);
    return NULL;
}

static void write_owners(const Kernel *k, int64_t *rows, int64_t *slots) {
    const uint32_t *owner = k->owners;
    for (uint32_t e = 0; e < k->events; e++) {
        for (size_t i = 0; rows && i < k->totals[e]; i++) *rows++ = e;
        for (size_t i = 0; i < k->totals[e]; i++) *slots++ = *owner++;
    }
}

static void write_columns(const Kernel *k, int64_t *rows, int64_t *slots) {
    size_t *starts = grown(NULL, (k->found_tiles + 1) * sizeof *starts), from = 0;
    for (uint32_t begin = 0; begin < k->events; begin += k->chunk) {
        uint32_t events = k->events - begin < k->chunk ? k->events - begin : k->chunk;
        from = chunk_starts(k, starts, begin, events, from)[k->found_tiles];
        for (uint32_t e = begin; e < begin + events; e++)
            for (uint32_t t = 0; t < k->found_tiles; t++) {
                size_t count = k->counts[(size_t)e * k->found_tiles + t];
                level->write(k->pool.entries + starts[t], count, (int64_t)t * TILE_COLUMNS, e, slots, rows);
                slots += count, starts[t] += count;
                if (rows) rows += count;
            }
    }
    free(starts);
}

/* take(rows or None, slots): the matches of the last `find`, into int64 arrays of that length; the rows of a single
 * event are all the same and need not be written. */
static PyObject *Kernel_take(Kernel *k, PyObject *args) {
    Py_buffer rows_view = {0}, slots_view;
    PyObject *rows_array, *slots_array;
    if (!PyArg_ParseTuple(args, "OO", &rows_array, &slots_array)) return NULL;
    int with_rows = rows_array != Py_None;
    if (with_rows && PyObject_GetBuffer(rows_array, &rows_view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) return NULL;
    if (PyObject_GetBuffer(slots_array, &slots_view, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        if (with_rows) PyBuffer_Release(&rows_view);
        return NULL;
    }
    size_t bytes = k->found * sizeof(int64_t);
    int fits = (!with_rows || (size_t)rows_view.len == bytes) && (size_t)slots_view.len == bytes;
    if (fits) {
        if (k->owners)
            write_owners(k, rows_view.buf, slots_view.buf);
        else
            write_columns(k, rows_view.buf, slots_view.buf);
    }
    if (with_rows) PyBuffer_Release(&rows_view);
    PyBuffer_Release(&slots_view);
    if (k->pool.room > POOL_KEPT) { /* free the memory of one large batch */
        free(k->pool.entries);
        k->pool = (Pool){0};
        forget_matches(k);
    }
    if (fits) Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "the arrays are not as long as there are matches");
    return NULL;
}

/* groups(columns, events, groups, goal, out): OR the groups of the matching columns into out, by event. */
static PyObject *Kernel_groups(Kernel *k, PyObject *args) {
    PyObject *columns, *groups_array, *out_array;
    unsigned int events;
    unsigned long long goal;
    if (!PyArg_ParseTuple(args, "O!IOKO", &PyDict_Type, &columns, &events, &groups_array, &goal, &out_array))
        return NULL;
    Py_buffer groups, out;
    if (take_by_column(k, groups_array, &groups) < 0) return NULL;
    if (PyObject_GetBuffer(out_array, &out, PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE) < 0) {
        PyBuffer_Release(&groups);
        return NULL;
    }
    Plan plan = {0};
    uint32_t *left = grown(NULL, CHUNK_EVENTS * sizeof *left);
    int failed = take_inputs(k, columns, events, &plan) < 0 || (size_t)out.len < events * sizeof(uint64_t);
    if (!failed) settle(k);
    for (uint32_t begin = 0; begin < events && !failed; begin += plan.chunk) {
        uint32_t size = events - begin < plan.chunk ? events - begin : plan.chunk, going = size;
        failed = pick(k, &plan, begin, size) < 0;
        for (uint32_t e = 0; e < size; e++) left[e] = e;
        for (uint32_t t = 0; t < k->tiles && going && !failed; t++) {
            if (going <= FEW_EVENTS) {
                select_rows(k, &plan, left, going);
                fetch_ahead(k, &plan, t);
            }
            Tile tile = tile_of(k, &plan, t, going);
            going = level->groups(&tile, k->picks, left, going, groups.buf, goal, (uint64_t *)out.buf + begin);
        }
    }
    free(left);
    free_plan(&plan);
    PyBuffer_Release(&groups), PyBuffer_Release(&out);
    if (failed) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the array is not as long as there are events");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* introspection */

static size_t toggles_bytes(const Numbers *n, const Toggles *t) {
    return t->room * (sizeof(Line) + LANES * sizeof *t->values) + (t->starts ? (n->buckets + 1) * 4ul : 0);
}

static PyObject *Kernel_nbytes(Kernel *k, void *unused) {
    (void)unused;
    size_t total = all_words(k) * 8ul;
    for (uint32_t c = 0; c < k->column_room; c++) {
        total += sizeof(Column) + k->columns[c].count * sizeof(Constraint);
        for (uint32_t i = 0; i < k->columns[c].count; i++) {
            const Constraint *its = k->columns[c].constraints + i;
            if (its->flags & PLAIN) continue;
            total += sizeof(More);
            for (int kind = 0; kind < KINDS; kind++) total += its->more->counts[kind] * 16ul;
        }
    }
    for (uint32_t i = 0; i < k->attribute_count; i++) {
        const Attribute *a = k->attributes[i];
        if (!a) continue;
        total += sizeof *a;
        for (uint32_t t = 0; t < k->tiles; t++) {
            uint32_t words = words_of(k, t);
            total += a->named[t] ? (FIXED + 1) * words * 8ul : 0;
            for (int kind = 0; kind < KINDS; kind++) {
                const Numbers *n = a->numbers + kind;
                if (!n->built || !n->blocks[t].rows) continue;
                total += (n->buckets + 1) * words * 8ul + n->blocks[t].gap_room * sizeof(Gap);
                total += toggles_bytes(n, &n->blocks[t].toggles);
            }
        }
        const Words *w = &a->words;
        total += w->seat_count * (size_t)w->row_words * 8;
        for (uint32_t place = 0; place < w->count; place++)
            if (w->list[place]) total += sizeof(Word) + w->list[place]->room * 4ul;
        for (uint32_t s = 0; s < w->set_count; s++) total += sizeof(Set) + w->sets[s].room * 4ul;
    }
    return PyLong_FromSize_t(total);
}

static PyObject *bound_of(const Constraint *c, int64_t bound, int64_t none) {
    if (bound == none) Py_RETURN_NONE;
    if (!(c->flags & REAL)) return PyLong_FromLongLong(bound);
    double value;
    memcpy(&value, &bound, 8);
    return PyFloat_FromDouble(value);
}

/* clause(column) -> ((name, domain), ...), equal to what was added. */
static PyObject *Kernel_clause(Kernel *k, PyObject *argument) {
    uint32_t column = (uint32_t)PyLong_AsUnsignedLong(argument);
    if (PyErr_Occurred()) return NULL;
    if (column >= k->column_room || !k->columns[column].live) {
        PyErr_SetObject(PyExc_KeyError, argument);
        return NULL;
    }
    const Column *its = k->columns + column;
    PyObject *out = PyTuple_New(its->count);
    for (uint32_t i = 0; out && i < its->count; i++) {
        const Constraint *c = its->constraints + i;
        PyObject *domain, *pair;
        if (c->flags & PLAIN) {
            PyObject *low = bound_of(c, c->low, INT64_MIN), *high = bound_of(c, c->high, INT64_MAX);
            domain = low && high ? PyObject_CallFunctionObjArgs(
                                       k->interval, low, high, c->flags & LOW_OPEN ? Py_True : Py_False,
                                       c->flags & HIGH_OPEN ? Py_True : Py_False, NULL)
                                 : NULL;
            Py_XDECREF(low), Py_XDECREF(high);
        } else {
            domain = c->more->domain;
            Py_INCREF(domain);
        }
        pair = domain ? PyTuple_Pack(2, k->attributes[c->attribute]->name, domain) : NULL;
        Py_XDECREF(domain);
        if (!pair || PyTuple_SetItem(out, i, pair) < 0) Py_CLEAR(out);
    }
    return out;
}

/* tests: whether the maintained structures equal newly built ones */

/* A checksum of a bucket's toggles that does not depend on their order; it also counts them. */
static uint64_t sum_of(const Toggles *t, uint32_t bucket, uint32_t *count) {
    uint64_t sum = 0;
    for (uint32_t i = t->starts[bucket] * LANES; i < t->starts[bucket + 1] * LANES; i++) {
        const Line *line = t->lines + i / LANES;
        if (line->ids[i % LANES] & IS_NONE) continue;
        uint64_t told = (uint64_t)line->ids[i % LANES] << 16 | (uint16_t)line->steps[i % LANES];
        told = (told ^ (uint64_t)t->values[i] * 0x9E3779B97F4A7C15u) * 0xFF51AFD7ED558CCDu;
        sum += told ^ told >> 32;
        ++*count;
    }
    return sum;
}

static const char *check_toggles(const Numbers *n, const Toggles *mine, const Toggles *wanted) {
    for (uint32_t b = 0; b < n->buckets && (mine->count || wanted->count); b++) {
        uint32_t here = 0, there = 0;
        if (!mine->count || !wanted->count) return "the number of toggles differs from the clauses'";
        if (sum_of(mine, b, &here) != sum_of(wanted, b, &there)) return "toggles differ from the clauses'";
        if (here != there) return "the number of toggles differs from the clauses'";
        if (mine->starts[b + 1] - mine->starts[b] != (here + LANES - 1) / LANES) return "a bucket has lines that it does not need";
    }
    return NULL;
}

static const char *check_block(Kernel *k, Attribute *a, int kind, uint32_t t) {
    Numbers n = a->numbers[kind];
    Block *mine = n.blocks + t, wanted = {0};
    uint32_t words = words_of(k, t);
    if (!mine->rows != !a->named[t]) return "a tile has rows and no clauses, or clauses and no rows";
    if (!mine->rows) return NULL;
    wanted.rows = lines((size_t)(n.buckets + 1) * words);
    wanted.stride = words;
    n.toggles = memset(grown(NULL, n.buckets * 4), 0, n.buckets * 4);
    for (uint32_t column = t * TILE_COLUMNS; column < (t + 1) * TILE_COLUMNS && column < k->column_room; column++)
        for (uint32_t i = 0; i < k->columns[column].count; i++) {
            int64_t room[2];
            const int64_t *spans;
            const Constraint *c = k->columns[column].constraints + i;
            if (k->attributes[c->attribute] != a) continue;
            uint32_t count = spans_of(c, kind, room, &spans);
            place(&n, &wanted, column % TILE_COLUMNS, spans, count, BULK);
        }
    finish_block(&n, &wanted, words);
    const char *wrong = check_toggles(&n, &mine->toggles, &wanted.toggles);
    for (uint32_t row = 0; row < n.buckets && !wrong; row++)
        if (memcmp(mine->rows + (size_t)row * mine->stride, wanted.rows + (size_t)row * words, words * 8))
            wrong = "a row differs from the clauses'";
    if (!wrong && mine->gap_count != wanted.gap_count) wrong = "gaps differ from the clauses'";
    free(n.toggles);
    free_block(&n, &wanted);
    return wrong;
}

static const char *check_words(Kernel *k, Attribute *a, uint64_t *row) {
    Words *w = &a->words;
    uint64_t named = 0, listed = 0;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->list[i]) {
            listed += w->list[i]->count;
            if (!w->list[i]->count && (!w->list[i]->row || !w->set_count)) return "a word is kept that nothing needs";
        }
    for (uint32_t s = 0; s < w->set_count; s++) listed += w->sets[s].count;
    for (uint32_t column = 0; column < k->column_room; column++)
        for (uint32_t i = 0; i < k->columns[column].count; i++) {
            const Constraint *c = k->columns[column].constraints + i;
            if (k->attributes[c->attribute] != a) continue;
            PyObject *strings = c->flags & PLAIN ? NULL : c->more->strings;
            uint32_t tile = column / TILE_COLUMNS, id = column % TILE_COLUMNS, words = words_of(k, tile);
            for (int fixed = 0; fixed < FIXED; fixed++) {
                uint32_t bit = a->fixed[tile][(uint32_t)fixed * words + (id >> 6)] >> (id & 63) & 1;
                if (bit == (c->flags >> fixed & 1)) return "a fixed row differs from the clauses'";
            }
            if ((strings != Py_None) != (a->words.base[tile][id >> 6] >> (id & 63) & 1))
                return "the row of all words differs from the clauses'";
            if (strings == Py_None || !strings) continue;
            named += PyTuple_Check(strings) ? (uint64_t)PyTuple_Size(strings) : 1;
        }
    if (named != listed) return "lists of columns differ from the clauses'";
    for (uint32_t i = 0; i < w->seat_count; i++) {
        Word *word = w->list[w->seats[i]];
        if (word->seat != i || !word->row) return "a word's seat is not its own";
        memset(row, 0, (size_t)k->tiles * TILE_WORDS * 8);
        for (uint32_t t = 0; t < k->tiles; t++)
            if (w->base[t]) memcpy(row + (size_t)t * TILE_WORDS, w->base[t], words_of(k, t) * 8);
        for (uint32_t c = 0; c < word->count; c++) clear_bit(row, word->columns[c]);
        for (uint32_t s = 0; s < w->set_count; s++)
            for (uint32_t c = 0; asked(w->sets + s, word->text) > 0 && c < w->sets[s].count; c++)
                clear_bit(row, w->sets[s].columns[c]);
        uint32_t compared = w->row_words < all_words(k) ? w->row_words : all_words(k);
        if (memcmp(row, word->row, compared * 8ul)) return "the row of a word differs from the clauses'";
    }
    return NULL;
}

static PyObject *Kernel_check(Kernel *k, PyObject *unused) {
    (void)unused;
    const char *wrong = NULL;
    uint64_t *row = lines((size_t)k->tiles * TILE_WORDS + 1);
    for (uint32_t i = 0; i < k->attribute_count && !wrong; i++) {
        Attribute *a = k->attributes[i];
        if (!a) continue;
        wrong = check_words(k, a, row);
        for (int kind = 0; kind < KINDS; kind++)
            for (uint32_t t = 0; t < k->tiles && a->numbers[kind].built && !wrong; t++)
                wrong = check_block(k, a, kind, t);
    }
    for (uint32_t column = 0; column < k->tiles * TILE_COLUMNS && !wrong; column++) {
        uint32_t t = column / TILE_COLUMNS, id = column % TILE_COLUMNS;
        if (id / 64 >= words_of(k, t)) continue;
        int live = column < k->column_room && k->columns[column].live;
        if (live == (int)(k->dead[t][id >> 6] >> (id & 63) & 1)) wrong = "the columns in use are not those of clauses";
    }
    free(row);
    if (!wrong) Py_RETURN_NONE;
    PyErr_SetString(PyExc_AssertionError, wrong);
    return NULL;
}

/* the module */

static PyObject *Kernel_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    (void)named;
    PyObject *describe, *interval, *no_strings;
    if (!PyArg_ParseTuple(args, "OOO", &describe, &interval, &no_strings)) return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Kernel *k = (Kernel *)allocate(type, 0);
    if (!k) return NULL;
    k->places = PyDict_New();
    Py_INCREF(describe), Py_INCREF(interval), Py_INCREF(no_strings);
    k->describe = describe, k->interval = interval, k->no_strings = no_strings;
    return (PyObject *)k;
}

static void Kernel_dealloc(Kernel *k) {
    PyTypeObject *type = Py_TYPE((PyObject *)k);
    for (uint32_t i = 0; i < k->attribute_count; i++)
        if (k->attributes[i]) free_attribute(k, k->attributes[i]);
    for (uint32_t c = 0; c < k->column_room; c++) free_constraints(k->columns[c].constraints, k->columns[c].count);
    for (uint32_t t = 0; t < k->tiles; t++) free(k->dead[t]);
    free(k->attributes), free(k->columns), free(k->dead), free(k->pool.entries), free(k->counts), free(k->totals);
    free(k->picks), free(k->scratch), free(k->struck), free(k->owners);
    Py_XDECREF(k->places), Py_XDECREF(k->describe), Py_XDECREF(k->interval), Py_XDECREF(k->no_strings);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(k);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)Kernel_add, METH_VARARGS, "add(column, constraints)"},
    {"remove", (PyCFunction)Kernel_remove, METH_O, "remove(column)"},
    {"loosen", (PyCFunction)Kernel_loosen, METH_NOARGS, "loosen(): many columns will come; build rows when all are there"},
    {"find", (PyCFunction)Kernel_find, METH_VARARGS, "find(columns, events, owners, slots) -> number of matches"},
    {"take", (PyCFunction)Kernel_take, METH_VARARGS, "take(rows or None, slots): write the matches that were found"},
    {"groups", (PyCFunction)Kernel_groups, METH_VARARGS, "groups(columns, events, groups, goal, out)"},
    {"clause", (PyCFunction)Kernel_clause, METH_O, "clause(column) -> constraints"},
    {"check", (PyCFunction)Kernel_check, METH_NOARGS, "check(): assert that what is kept up is what the columns say"},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef properties[] = {{"nbytes", (getter)Kernel_nbytes, NULL, "bytes of all arrays", NULL}, {0}};
static PyType_Slot slots_of_type[] = {
    {Py_tp_new, Kernel_new},         {Py_tp_dealloc, Kernel_dealloc},
    {Py_tp_methods, methods},        {Py_tp_getset, properties},
    {Py_tp_doc, "Columns, and which of them match an event."}, {0, NULL},
};
static PyType_Spec kernel_spec = {"rayvous.routing.matching._kernel.Kernel", sizeof(Kernel), 0, Py_TPFLAGS_DEFAULT,
                                  slots_of_type};

static PyObject *get_level(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyUnicode_FromString(level->name);
}

static PyObject *set_level(PyObject *module, PyObject *name) {
    (void)module;
    for (int i = 0; i <= level_max; i++)
        if (PyUnicode_CompareWithASCIIString(name, LEVELS[i].name) == 0) {
            level = LEVELS + i;
            Py_RETURN_NONE;
        }
    PyErr_SetString(PyExc_ValueError, "this processor has no such instructions");
    return NULL;
}

static PyObject *all_levels(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *out = PyTuple_New(level_max + 1);
    for (int i = 0; out && i <= level_max; i++) PyTuple_SetItem(out, i, PyUnicode_FromString(LEVELS[i].name));
    return out;
}

static PyObject *set_limits(PyObject *module, PyObject *args) {
    (void)module;
    unsigned int buckets = BUCKETS_MAX, word_bytes = WORD_BYTES_MAX;
    if (!PyArg_ParseTuple(args, "|II", &buckets, &word_bytes)) return NULL;
    buckets_max = buckets < 2 ? 2 : buckets > BUCKETS_MAX ? BUCKETS_MAX : buckets;
    word_bytes_max = word_bytes;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_limits", set_limits, METH_VARARGS, "set_limits(buckets, bytes of words' rows): as shipped without; for tests"},
    {"level", get_level, METH_NOARGS, "level() -> the instructions in use"},
    {"set_level", set_level, METH_O, "set_level(name): use other instructions; for tests"},
    {"levels", all_levels, METH_NOARGS, "levels() -> those that this processor has"},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernel", "The match index's kernel; see kernel.c.", -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) {
    static const struct {
        PyObject **name;
        const char *text;
    } names[] = {{&s_missing, "missing"},   {&s_null, "null"},         {&s_booleans, "booleans"}, {&s_numbers, "numbers"},
                 {&s_strings, "strings"},   {&s_timestamps, "timestamps"}, {&s_low, "low"},
                 {&s_high, "high"},         {&s_low_open, "low_open"}, {&s_high_open, "high_open"},
                 {&s_data, "data"},         {&s_present, "present"},   {&s_words, "words"},
                 {&s_test, "test"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!(*names[i].name = PyUnicode_InternFromString(names[i].text))) return NULL;
    choose_level();
    PyObject *module = PyModule_Create(&definition), *type = PyType_FromSpec(&kernel_spec);
    if (!module || !type || PyModule_AddObject(module, "Kernel", type) < 0) return NULL;
    if (PyModule_AddStringConstant(module, "form", FORM) < 0) return NULL;
    return module;
}
