// Resources: hashicorp/consul/resource/resource.proto.
#include "mortise.h"

enum { ID = 1, GENERATION = 4, DATA = 7 };
enum { ID_NAME = 2, ANY_VALUE = 2 };

// The last field of a number; a message has each once.
static bytes find(bytes within, uint32_t number) {
    bytes found = {0};
    wire_field field;
    while (wire_next(&within, &field)) {
        if (field.number == number) found = field.content;
    }
    return found;
}

resource resource_read(bytes encoded) {
    resource one = {.encoded = encoded, .id = find(encoded, ID), .generation = find(encoded, GENERATION)};
    one.name = find(one.id, ID_NAME);
    one.data = find(find(encoded, DATA), ANY_VALUE);
    return one;
}

// The resource with its new data; every other field as it came.
bytes resource_write(const resource *one) {
    message made = {0}, data = {0};
    wire_field field;
    for (bytes rest = one->encoded; wire_next(&rest, &field);) {
        if (field.number != DATA) put_raw(&made, field.raw);
    }
    for (bytes rest = find(one->encoded, DATA); wire_next(&rest, &field);) {
        if (field.number != ANY_VALUE) put_raw(&data, field.raw);
    }
    put_bytes(&data, ANY_VALUE, one->data);
    put_message(&made, DATA, &data);
    return whole(&made);
}
