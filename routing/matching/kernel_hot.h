/* The loops over bits of the match index's kernel, compiled once for each instruction set: see kernel.c.
 *
 * LEVEL is 0 for the baseline of every machine, 1 for AVX2, 2 for AVX-512, 3 for AVX-512 with VBMI2. FN(name)
 * appends the level to the name of a function. Nothing in this file uses Python.
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

#if LEVEL >= 2
/* From lines of all attributes, write the columns that reject the key and that nothing has rejected yet or, where
 * that is not known immediately, all columns that reject the key; up to 32 entries beyond the last one are
 * overwritten. */
static uint32_t FN(compare)(const Tile *tile, Listed *listed, uint32_t count, const uint64_t *rejected, uint16_t *out) {
    const __m512i one = _mm512_set1_epi16(1), low = _mm512_set1_epi16(15);
    const __m512i bit10 = _mm512_set1_epi16(1 << 10), bit11 = _mm512_set1_epi16(1 << 11);
    __m512i told[8];
    for (int i = 0; i < 8; i++) told[i] = _mm512_load_si512(rejected + 8 * i);
    uint32_t found = 0;
    if (!count) return 0;
    listed[count] = listed[0]; /* pairs with the last one of an odd number */
    for (uint32_t at = 0; at < count; at += 2) {
        const Listed *two = listed + at;
        __m512i a = _mm512_load_si512(two[0].line), b = _mm512_load_si512(two[1].line);
        __m512i key = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set1_epi16(two[0].pick->step)),
                                         _mm256_set1_epi16(two[1].pick->step), 1);
        __m512i steps = _mm512_shuffle_i64x2(a, b, 0x44), ids = _mm512_shuffle_i64x2(a, b, 0xEE);
        uint32_t valid = at + 1 < count ? ~(uint32_t)0 : 0xFFFF, firsts = _mm512_movepi16_mask(ids);
        uint32_t hits = (_mm512_cmpgt_epi16_mask(steps, key) & firsts) | (_mm512_cmplt_epi16_mask(steps, key) & ~firsts);
        uint32_t same = _mm512_cmpeq_epi16_mask(steps, key) & valid;
        __m512i place = _mm512_srli_epi16(ids, 4), bit = _mm512_sllv_epi16(one, _mm512_and_si512(ids, low));
        uint32_t odd = _mm512_test_epi16_mask(ids, bit10), upper = _mm512_test_epi16_mask(ids, bit11);
        __m512i words = _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(told[0], place, told[1]), odd,
                                              _mm512_permutex2var_epi16(told[2], place, told[3]));
        __m512i more = _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(told[4], place, told[5]), odd,
                                             _mm512_permutex2var_epi16(told[6], place, told[7]));
        words = _mm512_mask_mov_epi16(words, upper, more);
        hits &= _mm512_testn_epi16_mask(words, bit) & valid;
#if LEVEL >= 3
        _mm512_storeu_si512(out + found, _mm512_maskz_compress_epi16(hits, ids));
        found += (uint32_t)__builtin_popcount(hits);
#else
        for (; hits; hits &= hits - 1) {
            uint32_t lane = (uint32_t)__builtin_ctz(hits);
            out[found++] = two[lane / LANES].line->ids[lane % LANES];
        }
#endif
        for (uint32_t i = 0; __builtin_expect(same != 0, 0) && i < 2; i++, same >>= 16) {
            const Toggles *t = &tile->sources[two[i].pick->source].block->toggles;
            found += settle_lanes(t, (uint32_t)(two[i].line - t->lines), same & 0xFFFF, two[i].pick->key, out + found);
        }
    }
    return found;
}
#else
/* Write the columns that reject a key in addition to the row of its bucket; up to 16 entries beyond the last one
 * are overwritten. */
static inline uint32_t FN(compare)(const Toggles *t, const Pick *pick, uint16_t *out) {
    uint32_t found = 0;
    uint32_t at = t->starts[pick->row], end = t->starts[pick->row + 1];
#if LEVEL == 1
    const __m256i key = _mm256_set1_epi16(pick->step);
    for (; at < end; at++) {
        __m256i steps = _mm256_load_si256((const __m256i *)t->lines[at].steps);
        __m256i ids = _mm256_load_si256((const __m256i *)t->lines[at].ids);
        __m256i after = _mm256_cmpgt_epi16(steps, key), before = _mm256_cmpgt_epi16(key, steps);
        uint32_t same = ~(uint32_t)_mm256_movemask_epi8(_mm256_or_si256(after, before)) & 0x55555555;
        uint32_t hits = (uint32_t)_mm256_movemask_epi8(_mm256_blendv_epi8(before, after, _mm256_srai_epi16(ids, 15)));
        for (hits &= 0x55555555; hits; hits &= hits - 1) out[found++] = t->lines[at].ids[__builtin_ctz(hits) / 2];
        if (__builtin_expect(same != 0, 0)) found += settle_lanes(t, at, _pext_u32(same, 0x55555555), pick->key, out + found);
    }
#else
    for (; at < end; at++) {
        const Line *line = t->lines + at;
        uint32_t same = 0;
        for (uint32_t lane = 0; lane < LANES; lane++) {
            int is_first = line->ids[lane] >> 15, after = line->steps[lane] > pick->step;
            same |= (uint32_t)(line->steps[lane] == pick->step) << lane;
            out[found] = line->ids[lane];
            found += (uint32_t)(is_first ? after : line->steps[lane] < pick->step);
        }
        if (__builtin_expect(same != 0, 0)) found += settle_lanes(t, at, same, pick->key, out + found);
    }
#endif
    return found;
}
#endif

/* rejected = init | every row; returns whether any column is left */
static inline int FN(or_rows)(
    uint64_t *rejected, const uint64_t *init, const uint64_t *const *rows, uint32_t count, uint32_t words) {
    uint64_t all = ~(uint64_t)0;
    if (words % GROUP_WORDS == 0) {
        FN(vector) common = (FN(vector)){0} - 1;
        for (uint32_t at = 0; at < words; at += GROUP_WORDS) {
            FN(vector) sum[8];
            for (int i = 0; i < 8; i++) sum[i] = ((const FN(vector) *)(init + at))[i];
            for (uint32_t row = 0; row < count; row++) {
                const FN(vector) *line = (const FN(vector) *)(rows[row] + at);
                for (int i = 0; i < 8; i++) sum[i] |= line[i];
            }
            for (int i = 0; i < 8; i++) ((FN(vector) *)(rejected + at))[i] = sum[i], common &= sum[i];
        }
        for (uint32_t i = 0; i < VECTOR_BYTES / 8; i++) all &= common[i];
        return all != ~(uint64_t)0;
    }
    memcpy(rejected, init, words * sizeof *rejected);
    for (uint32_t row = 0; row < count; row++)
        for (uint32_t word = 0; word < words; word++) rejected[word] |= rows[row][word];
    for (uint32_t word = 0; word < words; word++) all &= rejected[word];
    return all != ~(uint64_t)0;
}

/* The exact set of columns of a tile that reject an event; returns 0 if all do. The data of the next event, if any, is
 * prefetched while toggles are compared: comparisons depend on each other, and the memory is idle meanwhile. */
static inline int FN(reject)(const Tile *tile, const Pick *picks, const Pick *next, uint64_t *rejected) {
    const uint64_t *rows[tile->active_count + 1];
    uint32_t count = 0, struck = 0;
    uint64_t *scratch = tile->scratch;
    for (uint32_t i = 0; i < tile->active_count; i++) {
        const Pick *pick = picks + tile->active[i];
        const Source *source = tile->sources + pick->source;
        if (source->words) {
            rows[count++] = word_row(source, pick->row, tile->number, tile->words, scratch);
            scratch += TILE_WORDS;
            continue;
        }
        rows[count++] = source->rows + pick->row * source->stride;
    }
    int some = FN(or_rows)(rejected, tile->init, rows, count, tile->words);
    if (next) fetch_event(tile, next);
    if (!some) return 0;
#if LEVEL >= 2
    Listed listed[LISTED + LISTED_SPARE];
    uint32_t count_listed = 0;
#endif
    for (uint32_t i = 0; i < tile->active_count; i++) {
        const Pick *pick = picks + tile->active[i];
        const Block *block = tile->sources[pick->source].block;
        if (!block) continue;
        const Toggles *t = &block->toggles;
#if LEVEL >= 2
        if (t->count) {
            const Line *line = t->lines + t->starts[pick->row];
            uint32_t more = t->starts[pick->row + 1] - t->starts[pick->row];
            for (; more > LISTED - count_listed; more--) { /* more than there usually are */
                if (count_listed == LISTED) {
                    struck += FN(compare)(tile, listed, LISTED, rejected, tile->struck + struck);
                    count_listed = 0;
                }
                listed[count_listed++] = (Listed){line++, pick};
            }
            for (uint32_t ahead = 0; ahead < 4; ahead++) listed[count_listed + ahead] = (Listed){line + ahead, pick};
            for (uint32_t ahead = 4; ahead < more; ahead++) listed[count_listed + ahead] = (Listed){line + ahead, pick};
            count_listed += more;
        }
#else
        if (t->count) struck += FN(compare)(t, pick, tile->struck + struck);
#endif
        if (block->gap_count) struck += gaps_of(block, pick, tile->struck + struck);
    }
#if LEVEL >= 2
    struck += FN(compare)(tile, listed, count_listed, rejected, tile->struck + struck);
#endif
    for (uint32_t i = 0; i < struck; i++) {
        uint32_t id = tile->struck[i] & ID_BITS;
        ((uint8_t *)rejected)[id >> 3 ^ BYTE_ORDER_XOR] |= (uint8_t)(1u << (id & 7));
    }
    return 1;
}

/* Write the columns whose bit is clear; up to 63 entries beyond the last one are overwritten. */
static inline uint32_t FN(write_columns)(const uint64_t *rejected, uint32_t words, uint16_t *out) {
    uint16_t *begin = out;
#if LEVEL >= 3
    static const uint8_t order[64] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
    __m512i bytes = _mm512_loadu_si512(order), first = _mm512_setzero_si512(), step = _mm512_set1_epi16(64);
    for (uint32_t word = 0; word < words; word++) {
        uint64_t accepted = ~rejected[word];
        __m512i packed = _mm512_maskz_compress_epi8(accepted, bytes);
        __m256i few = _mm256_cvtepu8_epi16(_mm512_castsi512_si128(packed));
        uint32_t count = (uint32_t)__builtin_popcountll(accepted);
        _mm256_storeu_si256((__m256i *)out, _mm256_add_epi16(_mm512_castsi512_si256(first), few));
        if (__builtin_expect(count > 16, 0)) {
            __m512i low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(packed));
            __m512i high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(packed, 1));
            _mm512_storeu_si512(out, _mm512_add_epi16(first, low));
            _mm512_storeu_si512(out + 32, _mm512_add_epi16(first, high));
        }
        out += count;
        first = _mm512_add_epi16(first, step);
    }
#else
    for (uint32_t word = 0; word < words; word++)
        for (uint64_t accepted = ~rejected[word]; accepted; accepted &= accepted - 1)
            *out++ = (uint16_t)(word * 64 + (uint32_t)__builtin_ctzll(accepted));
#endif
    return (uint32_t)(out - begin);
}

/* Write matches of an event and a tile as pairs of a row and a slot; `rows` may be none. */
static void FN(write_pairs)(
    const uint16_t *columns, size_t count, int64_t first, int64_t row, int64_t *slots, int64_t *rows) {
    size_t at = 0;
#if LEVEL >= 2
    __m512i base = _mm512_set1_epi64(first), its = _mm512_set1_epi64(row);
    for (; at + 8 <= count; at += 8) {
        __m512i wide = _mm512_cvtepu16_epi64(_mm_loadu_si128((const __m128i *)(columns + at)));
        _mm512_storeu_si512(slots + at, _mm512_add_epi64(base, wide));
        if (rows) _mm512_storeu_si512(rows + at, its);
    }
    __mmask8 left = (__mmask8)((1u << (count - at)) - 1);
    __m512i wide = _mm512_cvtepu16_epi64(_mm_maskz_loadu_epi16(left, columns + at));
    _mm512_mask_storeu_epi64(slots + at, left, _mm512_add_epi64(base, wide));
    if (rows) _mm512_mask_storeu_epi64(rows + at, left, its);
#else
    for (; at < count; at++) slots[at] = first + columns[at];
    for (at = 0; rows && at < count; at++) rows[at] = row;
#endif
}

static void FN(match_tile)(const Tile *tile, const Pick *picks, uint32_t events, uint16_t *counts, Pool *pool) {
    uint64_t rejected[TILE_WORDS] __attribute__((aligned(64)));
    for (uint32_t event = 0; event < events; event++, picks += tile->attributes) {
        uint16_t *out = pool_room(pool, TILE_COLUMNS + 64);
        int few = match_few(tile, picks, out);
        uint32_t count = few < 0 ? 0 : (uint32_t)few;
        if (few < 0 && FN(reject)(tile, picks, event + 1 < events ? picks + tile->attributes : NULL, rejected))
            count = FN(write_columns)(rejected, tile->words, out);
        counts[(size_t)event * tile->tiles] = (uint16_t)count;
        pool->count += count;
    }
}

/* OR the groups of the matching columns into those of each event; events that every group wants leave the list. */
static uint32_t FN(groups_tile)(
    const Tile *tile, const Pick *picks, uint32_t *left, uint32_t events, const uint64_t *groups, uint64_t goal,
    uint64_t *out) {
    uint64_t rejected[TILE_WORDS] __attribute__((aligned(64)));
    uint32_t going = 0;
    groups += (size_t)tile->number * TILE_COLUMNS;
    for (uint32_t i = 0; i < events; i++) {
        uint32_t event = left[i];
        uint64_t wanted = out[event];
        const Pick *its = picks + (size_t)event * tile->attributes;
        const Pick *next = i + 1 < events ? picks + (size_t)left[i + 1] * tile->attributes : NULL;
        uint16_t ids[FEW + 1];
        int few = match_few(tile, its, ids), some = few < 0 && FN(reject)(tile, its, next, rejected);
        for (; few > 0; few--) wanted |= groups[ids[few - 1]];
        for (uint32_t word = 0; some && word < tile->words && wanted != goal; word++)
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
