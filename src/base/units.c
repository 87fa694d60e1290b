/* base/units.c - sizes and numbers as people write them; reading and printing are inverses */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/units.h"

static const char unit_letters[] = "KMGTPE";

static const char *skip_spaces(const char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

/* read_suffix() - "", "B", "K", "KB", "KiB"…; returns the shift or -1 */
static int read_suffix(const char *s)
{
    int shift = 0;

    s = skip_spaces(s);
    if (*s != '\0' && toupper((unsigned char)*s) != 'B') {
        const char *letter = strchr(unit_letters, toupper((unsigned char)*s));

        if (!letter || *letter == '\0')
            return -1;
        shift = 10 * (int)(letter - unit_letters + 1);
        s++;
        if (*s == 'i' || *s == 'I') {
            s++;
            if (*s != 'B' && *s != 'b')
                return -1;
        }
    }
    if (*s == 'B' || *s == 'b')
        s++;
    return *skip_spaces(s) == '\0' ? shift : -1;
}

bool units_parse_bytes(const char *text, plm_bytes *ret_bytes)
{
    const char *s = skip_spaces(text);
    uint64_t whole = 0, fraction = 0, scale = 1;

    if (!isdigit((unsigned char)*s))
        return false;
    for (; isdigit((unsigned char)*s); s++)
        if (!bytes_mul(whole, 10, &whole) || !bytes_add(whole, (uint64_t)(*s - '0'), &whole))
            return false;
    if (*s == '.') {
        s++;
        if (!isdigit((unsigned char)*s))
            return false;
        for (; isdigit((unsigned char)*s); s++)
            if (scale < UINT64_C(100000000)) { /* finer than a byte of a tebibyte does not matter */
                fraction = fraction * 10 + (uint64_t)(*s - '0');
                scale *= 10;
            }
    }
    int shift = read_suffix(s);

    if (shift < 0 || (shift == 0 && fraction != 0) || (whole >> (63 - shift)) > 1)
        return false;
    /* fraction < scale <= 10^8 and 2^shift <= 2^60: long double holds the product well enough */
    long double part =
        (long double)fraction / (long double)scale * (long double)(UINT64_C(1) << shift);

    return bytes_add(whole << shift, (uint64_t)part, ret_bytes);
}

bool units_parse_int(const char *text, int64_t *ret_value)
{
    bool negative = *text == '-';
    const char *s = text + (*text == '-' || *text == '+');
    int64_t value = 0;

    if (!isdigit((unsigned char)*s))
        return false;
    for (; *s; s++) {
        if (*s == '_' && isdigit((unsigned char)s[-1]) && isdigit((unsigned char)s[1]))
            continue;
        if (!isdigit((unsigned char)*s) || !num_mul(value, 10, &value) ||
            !num_sub(value, *s - '0', &value)) /* counts down: INT64_MIN has no positive twin */
            return false;
    }
    if (!negative && value == INT64_MIN)
        return false;
    *ret_value = negative ? value : -value;
    return true;
}

bool units_parse_real(const char *text, double *ret_value)
{
    bool negative = *text == '-';
    const char *s = text + (*text == '-' || *text == '+');
    double value = 0;
    int digits = 0, exponent = 0;

    for (; isdigit((unsigned char)*s); s++, digits++)
        value = value * 10 + (*s - '0');
    if (*s == '.')
        for (s++; isdigit((unsigned char)*s); s++, digits++, exponent--)
            value = value * 10 + (*s - '0');
    if (digits == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        int64_t written;

        if (!units_parse_int(s + 1, &written) || written < -400 || written > 400)
            return false;
        exponent += (int)written;
    } else if (*s != '\0') {
        return false;
    }
    value = exponent < 0 ? value / pow(10, -exponent) : value * pow(10, exponent);
    if (!isfinite(value))
        return false;
    *ret_value = negative ? -value : value;
    return true;
}

const char *units_format_bytes(plm_bytes bytes, char text[UNITS_TEXT])
{
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    int unit = 0;
    double value = (double)bytes;

    /* past 1023.995 the next unit reads better than "1024.00"; devices are compared in GiB, as long as those have four digits */
    for (; unit < 6 && value >= (unit < 3 ? 1023.995 : 9999.995); unit++)
        value /= 1024;
    if (unit == 0)
        snprintf(text, UNITS_TEXT, "%u B", (unsigned)bytes);
    else
        snprintf(text, UNITS_TEXT, "%.2f %s", value, names[unit]);
    return text;
}

const char *units_format_grouped(uint64_t value, char text[UNITS_TEXT])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    char *out = text;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return text;
}

const char *units_format_exact(plm_bytes bytes, char text[UNITS_TEXT])
{
    int unit = 0;

    while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(text, UNITS_TEXT, "%llu", (unsigned long long)bytes);
    else
        snprintf(text, UNITS_TEXT, "%llu%ciB", (unsigned long long)bytes, unit_letters[unit - 1]);
    return text;
}
