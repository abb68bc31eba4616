// The wire format of protobuf: a reader that goes from field to field, and a writer that appends fields. Messages are read by hand with
// these, as device.c shows; nanopb or protobuf-c would do as well.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Bytes in memory that another part owns; a text is the same.
typedef struct {
    const uint8_t *at;
    size_t length;
} bytes;

// A field: its number, and its value as a number or as bytes, by its kind. `raw` is the whole field.
typedef struct {
    uint32_t number;
    uint64_t value;
    bytes content;
    bytes raw;
} wire_field;

// Takes the next field off a message; false at its end, and at what is no message.
bool wire_next(bytes *rest, wire_field *field);

// A message in the making. It lasts until the next call of the plugin.
typedef struct {
    uint8_t *at;
    size_t length, room;
} message;

void put_raw(message *to, bytes raw);
void put_number(message *to, uint32_t number, uint64_t value);
void put_bytes(message *to, uint32_t number, bytes content);
void put_text(message *to, uint32_t number, const char *text);
void put_message(message *to, uint32_t number, const message *inner);

bytes text(const char *text);
bytes whole(const message *one);
bool same(bytes a, bytes b);

// Memory that lasts until the next call of the plugin.
void *take(size_t size);
// Makes memory of malloc last as long.
void adopt(void *memory);
// Frees what the call before took and adopted.
void release(void);
// A text as printf makes it.
bytes format(const char *form, ...);
