/* Buckets of one element type; core/wire/values.c includes this once for float and once for double,
 * with these set: REAL, BITS, SIGNED   the type, its bits as an unsigned and as a signed integer
 *     NAME(x)              the name of a function for it
 *     ABS, INFINITE, LEAST bits of everything but the sign, of infinity, of the least normal number
 *     HALF_WAY             1.5 times the number from which on there are no fractions
 *     FABS                 the magnitude of a number
 * The inner loops run over whole blocks, so that a compiler can vectorise them without asking. */

static BITS NAME(bits)(REAL x)
{
    BITS bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static REAL NAME(real)(BITS bits)
{
    REAL x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Bits of the largest magnitude; INFINITE or more where something is not finite. */
static BITS NAME(largest)(const REAL *v, size_t n)
{
    SIGNED lanes[LANES] = {0}, most = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            SIGNED bits = (SIGNED)(NAME(bits)(v[i + j]) & ABS);
            lanes[j] = bits > lanes[j] ? bits : lanes[j];
        }
    for (; i < n; i++) {
        SIGNED bits = (SIGNED)(NAME(bits)(v[i]) & ABS);
        most = bits > most ? bits : most;
    }
    for (size_t j = 0; j < LANES; j++)
        most = lanes[j] > most ? lanes[j] : most;
    return (BITS)most;
}

/* L2 norm, never below the largest magnitude. */
static REAL NAME(norm)(const REAL *v, size_t n, REAL largest)
{
    double lanes[LANES] = {0}, sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            double x = (double)(v[i + j] / largest);
            double square = x * x;
            lanes[j] += square;
        }
    for (; i < n; i++) {
        double x = (double)(v[i] / largest);
        double square = x * x;
        sum += square;
    }
    for (size_t j = 0; j < LANES; j++)
        sum += lanes[j];
    double norm = ss_root(sum);
    return norm > 1 ? largest * (REAL)norm : largest;
}

/* What the values of a bucket are multiples of. */
struct NAME(scale) {
    REAL scale, levels, inverse; /* inverse * levels is 1 */
};

static struct NAME(scale) NAME(scale_of)(REAL scale, int levels)
{
    REAL inverse = (REAL)1 / (REAL)levels;

    return (struct NAME(scale)){scale, (REAL)levels, inverse};
}

/* The difference to the nearest level is exact: the level is zero, or at most twice the value and
 * at least half of it (Sterbenz 1974). Where c is rounded to 1 from just below a half the latter
 * fails, but never where it matters: next to a power of two that does not happen. */
static void NAME(nearest)(const struct NAME(scale) * s, REAL *restrict v, REAL *restrict error,
                          uint8_t *restrict codes)
{
    REAL scale = s->scale, levels = s->levels, inverse = s->inverse;

    for (size_t i = 0; i < BLOCK; i++) {
        REAL x = v[i];
        REAL ratio = x / scale;
        REAL c = ratio * levels;
        c = c + HALF_WAY;
        c = c - HALF_WAY;
        REAL level = c * inverse;
        level = level * scale;
        v[i] = level;
        error[i] = x - level;
        codes[i] = (uint8_t)((int)(c + levels) + 1);
    }
}

static void NAME(stochastic)(const struct NAME(scale) * s, uint64_t seed, uint64_t position,
                             REAL *v, REAL *error, uint8_t *codes)
{
    for (size_t i = 0; i < BLOCK; i++) {
        REAL x = v[i], ratio = FABS(x) / s->scale;
        REAL c = ratio * s->levels;
        int whole = (int)c;
        REAL fraction = c - (REAL)whole;
        whole += random_unit(seed, position + i) < (double)fraction;
        whole = x < 0 ? -whole : whole;
        REAL level = (REAL)whole * s->inverse;
        level = level * s->scale;
        v[i] = level;
        error[i] = x - level;
        codes[i] = (uint8_t)(whole + (int)s->levels + 1);
    }
}

/* A bucket in blocks; the last one is filled up with zeros. */
static uint8_t *NAME(encode_blocks)(const struct ss_rounding *how, REAL scale, uint64_t position,
                                    REAL *v, size_t n, REAL *error, uint8_t *to)
{
    const unsigned width = width_of(how->values);
    struct NAME(scale) s = NAME(scale_of)(scale, levels_of(how->values));
    REAL block[BLOCK] = {0}, lost[BLOCK] = {0};
    uint8_t codes[BLOCK], packed[BLOCK];

    for (size_t i = 0; i < n; i += BLOCK) {
        bool whole = n - i >= BLOCK;
        size_t count = whole ? BLOCK : n - i;
        REAL *at = whole ? v + i : block, *gone = whole && error ? error + i : lost;
        if (!whole) {
            memset(block, 0, sizeof block);
            memcpy(block, v + i, count * sizeof *v);
        }
        if (how->stochastic)
            NAME(stochastic)(&s, how->seed, position + i, at, gone, codes);
        else
            NAME(nearest)(&s, at, gone, codes);
        if (!whole) {
            memcpy(v + i, block, count * sizeof *v);
            memset(codes + count, 0, BLOCK - count);
            if (error)
                memcpy(error + i, lost, count * sizeof *v);
        }
        pack(width, codes, packed);
        memcpy(to, packed, (count * width + 7) / 8);
        to += (count * width + 7) / 8;
    }
    return to;
}

static uint8_t *NAME(encode_bf16)(REAL *v, size_t n, REAL *error, uint8_t *to)
{
    REAL block[BLOCK] = {0}, lost[BLOCK] = {0};
    uint16_t codes[BLOCK];

    for (size_t i = 0; i < n; i += BLOCK) {
        bool whole = n - i >= BLOCK;
        size_t count = whole ? BLOCK : n - i;
        REAL *at = whole ? v + i : block, *gone = whole && error ? error + i : lost;
        if (!whole) {
            memset(block, 0, sizeof block);
            memcpy(block, v + i, count * sizeof *v);
        }
        NAME(to_bf16)(at, gone, codes);
        if (!whole) {
            memcpy(v + i, block, count * sizeof *v);
            if (error)
                memcpy(error + i, lost, count * sizeof *v);
        }
        memcpy(to, codes, count * sizeof *codes);
        to += count * sizeof *codes;
    }
    return to;
}

static uint8_t *NAME(encode_as_is)(enum form form, REAL *v, size_t n, REAL *error, uint8_t *to)
{
    *to++ = (uint8_t)form;
    if (error)
        memset(error, 0, n * sizeof *error);
    if (form == FORM_ZEROS) {
        memset(v, 0, n * sizeof *v);
        return to;
    }
    memcpy(to, v, n * sizeof *v);
    return to + n * sizeof *v;
}

static uint8_t *NAME(encode_bucket)(const struct ss_rounding *how, uint64_t position, REAL *v,
                                    size_t n, REAL *error, uint8_t *to)
{
    BITS bits = NAME(largest)(v, n);
    REAL scale = NAME(real)(bits);

    if (bits == 0)
        return NAME(encode_as_is)(FORM_ZEROS, v, n, error, to);
    if (how->values == SS_VALUES_BF16) {
        if (!(scale >= (REAL)FLT_MIN && scale <= (REAL)BF16_MOST))
            return NAME(encode_as_is)(FORM_RAW, v, n, error, to);
        *to++ = FORM_CODED;
        return NAME(encode_bf16)(v, n, error, to);
    }
    if (how->stochastic && bits >= LEAST && bits < INFINITE)
        scale = NAME(norm)(v, n, scale);
    bits = NAME(bits)(scale);
    if (bits < LEAST || bits >= INFINITE)
        return NAME(encode_as_is)(FORM_RAW, v, n, error, to);
    *to++ = FORM_CODED;
    memcpy(to, &scale, sizeof scale);
    return NAME(encode_blocks)(how, scale, position, v, n, error, to + sizeof scale);
}

static bool NAME(decode_blocks)(enum ss_values values, REAL scale, const uint8_t *from, REAL *v,
                                size_t n)
{
    const unsigned width = width_of(values);
    const int zero = levels_of(values) + 1;
    struct NAME(scale) s = NAME(scale_of)(scale, zero - 1);
    REAL block[BLOCK] = {0};
    uint8_t codes[BLOCK], packed[BLOCK];
    unsigned bad = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        bool whole = n - i >= BLOCK;
        size_t count = whole ? BLOCK : n - i, bytes = (count * width + 7) / 8;
        REAL *at = whole ? v + i : block;
        if (!whole)
            memset(packed, 0, sizeof packed);
        memcpy(packed, from, bytes);
        from += bytes;
        unpack(width, packed, codes);
        for (size_t j = 0; j < BLOCK; j++) {
            REAL level = (REAL)((int)codes[j] - zero) * s.inverse;
            at[j] = level * s.scale;
        }
        bad |= zeros_among(codes) != BLOCK - count;
        if (!whole) {
            memcpy(v + i, block, count * sizeof *v);
            for (size_t j = count; j < BLOCK; j++)
                bad |= codes[j];
        }
    }
    return bad == 0;
}

static bool NAME(decode_bf16)(const uint8_t *from, REAL *v, size_t n)
{
    uint16_t codes[BLOCK];
    unsigned bad = 0;

    for (size_t i = 0; i < n; i += BLOCK) {
        size_t count = n - i < BLOCK ? n - i : BLOCK;
        memcpy(codes, from + i * sizeof *codes, count * sizeof *codes);
        for (size_t j = 0; j < count; j++) {
            bad |= (codes[j] & 0x7f80u) == 0x7f80u;
            v[i + j] = (REAL)float_of((uint32_t)codes[j] << 16);
        }
    }
    return bad == 0;
}

/* Bytes of the bucket, 0 where it is malformed. */
static size_t NAME(decode_bucket)(enum ss_values values, const uint8_t *from, size_t len, REAL *v,
                                  size_t n)
{
    size_t coded = (n * width_of(values) + 7) / 8;
    REAL scale;

    if (len < 1 || from[0] >= FORMS)
        return 0;
    if (from[0] == FORM_ZEROS) {
        memset(v, 0, n * sizeof *v);
        return 1;
    }
    if (from[0] == FORM_RAW) {
        if (len - 1 < n * sizeof *v)
            return 0;
        memcpy(v, from + 1, n * sizeof *v);
        return 1 + n * sizeof *v;
    }
    if (values == SS_VALUES_BF16)
        return len - 1 >= coded && NAME(decode_bf16)(from + 1, v, n) ? 1 + coded : 0;
    if (len - 1 < sizeof scale + coded)
        return 0;
    memcpy(&scale, from + 1, sizeof scale);
    if (NAME(bits)(scale) < LEAST || NAME(bits)(scale) >= INFINITE)
        return 0;
    return NAME(decode_blocks)(values, scale, from + 1 + sizeof scale, v, n)
               ? 1 + sizeof scale + coded
               : 0;
}

#undef REAL
#undef BITS
#undef SIGNED
#undef NAME
#undef ABS
#undef INFINITE
#undef LEAST
#undef HALF_WAY
#undef FABS
