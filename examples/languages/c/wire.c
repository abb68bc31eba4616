#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static bool varint(bytes *rest, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; rest->length > 0 && shift < 64; shift += 7) {
        uint8_t one = *rest->at++;
        rest->length--;
        *value |= (uint64_t)(one & 127) << shift;
        if (one < 128) return true;
    }
    return false;
}

static bool cut(bytes *rest, uint64_t length, bytes *content) {
    if (length > rest->length) return false;
    *content = (bytes){rest->at, (size_t)length};
    rest->at += length;
    rest->length -= length;
    return true;
}

bool wire_next(bytes *rest, wire_field *field) {
    const uint8_t *from = rest->at;
    uint64_t tag, length;
    if (!varint(rest, &tag)) return false;
    *field = (wire_field){.number = (uint32_t)(tag >> 3)};
    bool read = false;
    switch (tag & 7) {
    case VARINT: read = varint(rest, &field->value); break;
    case BYTES: read = varint(rest, &length) && cut(rest, length, &field->content); break;
    case FIXED64: read = cut(rest, 8, &field->content); break;
    case FIXED32: read = cut(rest, 4, &field->content); break;
    }
    field->raw = (bytes){from, (size_t)(rest->at - from)};
    return read;
}

// The memory of one call, linked, so that the next can free it.
typedef struct taken {
    struct taken *before;
    void *adopted;
    max_align_t memory[];
} taken;
static taken *newest;

void *take(size_t size) {
    taken *one = malloc(sizeof(taken) + size);
    if (!one) abort();
    one->before = newest;
    one->adopted = NULL;
    newest = one;
    return one->memory;
}

void adopt(void *memory) {
    take(0);
    newest->adopted = memory;
}

void release(void) {
    while (newest) {
        taken *before = newest->before;
        free(newest->adopted);
        free(newest);
        newest = before;
    }
}

void put_raw(message *to, bytes raw) {
    if (to->length + raw.length > to->room) {
        size_t room = (to->length + raw.length) * 2 + 64;
        uint8_t *at = take(room);
        if (to->length) memcpy(at, to->at, to->length);
        to->at = at;
        to->room = room;
    }
    if (raw.length) memcpy(to->at + to->length, raw.at, raw.length);
    to->length += raw.length;
}

static void put_varint(message *to, uint64_t value) {
    uint8_t made[10];
    size_t length = 0;
    for (; value >= 128; value >>= 7) made[length++] = (uint8_t)(value | 128);
    made[length++] = (uint8_t)value;
    put_raw(to, (bytes){made, length});
}

void put_number(message *to, uint32_t number, uint64_t value) {
    // Zero is what an absent field means.
    if (value == 0) return;
    put_varint(to, (uint64_t)number << 3 | VARINT);
    put_varint(to, value);
}

void put_bytes(message *to, uint32_t number, bytes content) {
    put_varint(to, (uint64_t)number << 3 | BYTES);
    put_varint(to, content.length);
    put_raw(to, content);
}

void put_text(message *to, uint32_t number, const char *content) { put_bytes(to, number, text(content)); }
void put_message(message *to, uint32_t number, const message *inner) { put_bytes(to, number, whole(inner)); }

bytes text(const char *text) { return (bytes){(const uint8_t *)text, strlen(text)}; }
bytes whole(const message *one) { return (bytes){one->at, one->length}; }
bool same(bytes a, bytes b) { return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0); }

bytes format(const char *form, ...) {
    va_list arguments;
    va_start(arguments, form);
    int length = vsnprintf(NULL, 0, form, arguments);
    va_end(arguments);
    char *made = take((size_t)length + 1);
    va_start(arguments, form);
    vsnprintf(made, (size_t)length + 1, form, arguments);
    va_end(arguments);
    return text(made);
}
