#include "device.h"

enum { MODEL = 1, ADDRESSES = 2, INTERVAL = 3 };

device device_read(bytes data) {
    device one = {0};
    wire_field field;
    bytes rest = data;
    // There are no more addresses than bytes.
    one.addresses = take(data.length * sizeof(bytes));
    while (wire_next(&rest, &field)) {
        switch (field.number) {
        case MODEL: one.model = field.content; break;
        case ADDRESSES: one.addresses[one.address_count++] = field.content; break;
        case INTERVAL: one.interval = (uint32_t)field.value; break;
        default: put_raw(&one.unknown, field.raw);
        }
    }
    return one;
}

bytes device_write(const device *one) {
    message made = {0};
    if (one->model.length) put_bytes(&made, MODEL, one->model);
    for (size_t at = 0; at < one->address_count; at++) put_bytes(&made, ADDRESSES, one->addresses[at]);
    put_number(&made, INTERVAL, one->interval);
    put_raw(&made, whole(&one->unknown));
    return whole(&made);
}
