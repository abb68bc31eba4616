// The message fleet.v1.Device of ../proto as a struct.
#pragma once

#include "wire.h"

typedef struct {
    bytes model;
    bytes *addresses;
    size_t address_count;
    uint32_t interval;
    // Fields of a newer .proto: they are kept.
    message unknown;
} device;

device device_read(bytes data);
bytes device_write(const device *one);
