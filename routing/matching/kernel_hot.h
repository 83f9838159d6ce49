/* The loops over bits of the match index's kernel, compiled once for each instruction set: see kernel.c.
 *
 * LEVEL is 0 for what every machine has, 1 for AVX2, 2 for AVX-512, 3 for AVX-512 with VBMI2; FN(name) gives a function
 * the name of its level. Nothing here knows Python.
 */

#if LEVEL == 1 && defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt"))), apply_to = function)
#elif LEVEL == 2 && defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#elif LEVEL == 3 && defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2"))), \
    apply_to = function)
#elif LEVEL == 1
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,lzcnt")
#elif LEVEL == 2
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512vl,avx512dq")
#elif LEVEL == 3
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2")
#endif

#if LEVEL >= 2
#define VECTOR_BYTES 64
#elif LEVEL == 1
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define GROUP_WORDS VECTOR_BYTES /* eight vectors of 64-bit words are kept in registers */

typedef uint64_t FN(vector) __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));

static inline uint32_t FN(copy)(uint16_t *out, const uint16_t *ids, uint32_t count) {
    memcpy(out, ids, 32 * sizeof *ids); /* most stretches are short, and one length needs no branch */
    if (__builtin_expect(count > 32, 0)) memcpy(out + 32, ids + 32, (count - 32) * sizeof *ids);
    return count;
}

#if LEVEL >= 1
/* Of 64 steps, which are not after the given one, and which are the same. */
static inline uint64_t FN(compare)(const uint16_t *steps, uint16_t given, uint64_t *same) {
#if LEVEL >= 2
    __m512i step = _mm512_set1_epi16((short)given), low = _mm512_loadu_si512(steps);
    __m512i high = _mm512_loadu_si512(steps + 32);
    *same = _mm512_cmpeq_epu16_mask(low, step) | (uint64_t)_mm512_cmpeq_epu16_mask(high, step) << 32;
    return _mm512_cmple_epu16_mask(low, step) | (uint64_t)_mm512_cmple_epu16_mask(high, step) << 32;
#else
    __m256i step = _mm256_set1_epi16((short)given);
    uint64_t not_after = *same = 0;
    for (int i = 0; i < 64; i += 32) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(steps + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(steps + i + 16));
        __m256i low_not = _mm256_cmpeq_epi16(_mm256_min_epu16(low, step), low);
        __m256i high_not = _mm256_cmpeq_epi16(_mm256_min_epu16(high, step), high);
        __m256i equal = _mm256_packs_epi16(_mm256_cmpeq_epi16(low, step), _mm256_cmpeq_epi16(high, step));
        __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(low_not, high_not), 0xD8);
        not_after |= (uint64_t)(uint32_t)_mm256_movemask_epi8(packed) << i;
        *same |= (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_permute4x64_epi64(equal, 0xD8)) << i;
    }
    return not_after;
#endif
}

static inline uint64_t FN(lowest)(uint32_t count) { return count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1; }

/* The stretch of a bucket's toggles that rejects a key: in both segments those that are not after it come first. */
static inline uint32_t FN(stretch)(const Toggles *t, const Pick *pick, uint32_t *begin) {
    const uint32_t *starts = t->starts + 2 * pick->row;
    uint32_t firsts = starts[1] - starts[0], all = starts[2] - starts[0], before = 0, last = 0;
    for (uint32_t at = 0;; at += 64) { /* nearly always once */
        uint64_t same, not_after = FN(compare)(t->steps + starts[0] + at, pick->step, &same);
        uint64_t of_firsts = FN(lowest)(firsts > at ? firsts - at : 0), here = FN(lowest)(all - at);
        if (__builtin_expect((same & here) != 0, 0)) return stretch(t, pick->row, pick->key, begin);
        before += (uint32_t)__builtin_popcountll(not_after & of_firsts);
        last += (uint32_t)__builtin_popcountll(not_after & here & ~of_firsts);
        if (all <= at + 64) break;
    }
    *begin = starts[0] + before;
    return starts[1] + last - *begin;
}
#endif

/* The columns that reject a key beyond the row of its bucket. */
static inline uint32_t FN(toggles)(const Block *block, const Pick *pick, uint16_t *out) {
    const Toggles *t = &block->toggles;
    uint32_t found = 0, begin = 0;
    if (t->count) {
#if LEVEL >= 1
        uint32_t count = FN(stretch)(t, pick, &begin);
#else
        uint32_t count = stretch(t, pick->row, pick->key, &begin);
#endif
        found = FN(copy)(out, t->ids + begin, count);
    }
    for (uint32_t i = first_gap(block, pick->row); i < block->gap_count && block->gaps[i].bucket == pick->row; i++)
        if (block->gaps[i].low < pick->key && pick->key < block->gaps[i].high) out[found++] = block->gaps[i].id;
    return found;
}

/* rejected = init | every row */
static inline void FN(or_rows)(
    uint64_t *rejected, const uint64_t *init, const uint64_t *const *rows, uint32_t count, uint32_t words) {
    if (words % GROUP_WORDS == 0) {
        for (uint32_t at = 0; at < words; at += GROUP_WORDS) {
            FN(vector) sum[8];
            for (int i = 0; i < 8; i++) sum[i] = ((const FN(vector) *)(init + at))[i];
            for (uint32_t row = 0; row < count; row++) {
                const FN(vector) *line = (const FN(vector) *)(rows[row] + at);
                for (int i = 0; i < 8; i++) sum[i] |= line[i];
            }
            for (int i = 0; i < 8; i++) ((FN(vector) *)(rejected + at))[i] = sum[i];
        }
        return;
    }
    memcpy(rejected, init, words * sizeof *rejected);
    for (uint32_t row = 0; row < count; row++)
        for (uint32_t word = 0; word < words; word++) rejected[word] |= rows[row][word];
}

/* Look at each column that is left in its constraints: 0 where they are more than searches for
 * toggles, of which one costs about as much. */
static inline int FN(verify)(const Tile *tile, const Pick *picks, uint64_t *rejected, uint32_t searches) {
    uint32_t most = searches < VERIFIED_MAX ? searches : VERIFIED_MAX, count = 0;
    uint16_t ids[VERIFIED_MAX];
    for (uint32_t word = 0; word < tile->words; word++) {
        uint64_t accepted = ~rejected[word];
        if (count + (uint32_t)__builtin_popcountll(accepted) > most) return 0;
        for (; accepted; accepted &= accepted - 1)
            ids[count++] = (uint16_t)(word * 64 + (uint32_t)__builtin_ctzll(accepted));
    }
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = 0; at < 256; at += 64)
            __builtin_prefetch((const char *)tile->columns[ids[i]].constraints + at);
    for (uint32_t i = 0; i < count; i++)
        if (!accepts(tile->columns + ids[i], picks)) rejected[ids[i] >> 6] |= (uint64_t)1 << (ids[i] & 63);
    return 1;
}

/* Which columns of a tile an event rejects, exactly. */
static inline void FN(reject)(const Tile *tile, const Pick *picks, uint64_t *rejected) {
    const uint64_t *rows[tile->active_count + 1];
    uint32_t count = 0, searches = 0, struck = 0;
    uint64_t *scratch = tile->scratch;
    for (uint32_t i = 0; i < tile->active_count; i++) {
        const Pick *pick = picks + tile->active[i];
        const Source *source = tile->sources + pick->source;
        if (source->words) {
            rows[count++] = word_row(source, pick->row, tile->number, tile->words, scratch);
            scratch += TILE_WORDS;
            continue;
        }
        rows[count++] = source->rows + (size_t)pick->row * tile->words;
        searches += source->block != NULL;
    }
    FN(or_rows)(rejected, tile->init, rows, count, tile->words);
    if (!searches || FN(verify)(tile, picks, rejected, searches)) return;
    for (uint32_t i = 0; i < tile->active_count; i++) {
        const Pick *pick = picks + tile->active[i];
        const Source *source = tile->sources + pick->source;
        if (source->block) struck += FN(toggles)(source->block, pick, tile->struck + struck);
    }
    for (uint32_t i = 0; i < struck; i++)
        ((uint8_t *)rejected)[tile->struck[i] >> 3 ^ BYTE_ORDER_XOR] |= (uint8_t)(1u << (tile->struck[i] & 7));
}

/* Write the columns whose bit is clear; up to 32 entries beyond the last one are overwritten. */
static inline uint32_t FN(write_columns)(const uint64_t *rejected, uint32_t words, uint32_t first, uint32_t *out) {
    uint32_t *begin = out;
#if LEVEL >= 3
    static const uint8_t order[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    __m512i bytes = _mm512_loadu_si512(order);
    for (uint32_t word = 0; word < words; word++, first += 64) {
        uint64_t accepted = ~rejected[word];
        __m512i packed = _mm512_maskz_compress_epi8(accepted, bytes), base = _mm512_set1_epi32((int)first);
        uint32_t count = (uint32_t)__builtin_popcountll(accepted);
        _mm512_storeu_si512(out, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed))));
        if (__builtin_expect(count > 16, 0))
            for (uint32_t i = 16; i < 64; i += 16) {
                packed = _mm512_shuffle_i64x2(packed, packed, 0x39); /* the next sixteen bytes */
                __m512i wide = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(packed));
                _mm512_storeu_si512(out + i, _mm512_add_epi32(base, wide));
            }
        out += count;
    }
#else
    for (uint32_t word = 0; word < words; word++, first += 64)
        for (uint64_t accepted = ~rejected[word]; accepted; accepted &= accepted - 1)
            *out++ = first + (uint32_t)__builtin_ctzll(accepted);
#endif
    return (uint32_t)(out - begin);
}

static void FN(match_tile)(const Tile *tile, const Pick *picks, uint32_t events, uint16_t *counts, Pool *pool) {
    uint64_t rejected[TILE_WORDS] __attribute__((aligned(64)));
    for (uint32_t event = 0; event < events; event++, picks += tile->attributes) {
        FN(reject)(tile, picks, rejected);
        uint32_t *out = pool_room(pool, TILE_COLUMNS + 64);
        uint32_t count = FN(write_columns)(rejected, tile->words, tile->number * TILE_COLUMNS, out);
        counts[(size_t)event * tile->tiles] = (uint16_t)count;
        pool->count += count;
    }
}

/* OR the groups of the columns that match into each event's; those that every group wants leave the list. */
static uint32_t FN(groups_tile)(
    const Tile *tile, const Pick *picks, uint32_t *left, uint32_t events, const uint64_t *groups, uint64_t goal,
    uint64_t *out) {
    uint64_t rejected[TILE_WORDS] __attribute__((aligned(64)));
    uint32_t going = 0;
    groups += (size_t)tile->number * TILE_COLUMNS;
    for (uint32_t i = 0; i < events; i++) {
        uint32_t event = left[i];
        uint64_t wanted = out[event];
        FN(reject)(tile, picks + (size_t)event * tile->attributes, rejected);
        for (uint32_t word = 0; word < tile->words && wanted != goal; word++)
            for (uint64_t accepted = ~rejected[word]; accepted; accepted &= accepted - 1)
                wanted |= groups[word * 64 + (uint32_t)__builtin_ctzll(accepted)];
        out[event] = wanted;
        if (wanted != goal) left[going++] = event;
    }
    return going;
}

#undef VECTOR_BYTES
#undef GROUP_WORDS
#if LEVEL && defined(__clang__)
#pragma clang attribute pop
#elif LEVEL
#pragma GCC pop_options
#endif
