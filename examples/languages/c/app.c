// The type `fleet_c.v1.Device`: defaults, rules, permissions and a reconciler.
#include <string.h>

#include <version.h>

#include "device.h"
#include "mortise.h"

// Fills in absent fields, and brings addresses into one form.
static void fill_in(resource *one) {
    device data = device_read(one->data);
    hostile(data.model);
    if (data.interval == 0) data.interval = 60;
    for (size_t at = 0; at < data.address_count; at++) {
        bytes *address = &data.addresses[at];
        uint8_t *lower = take(address->length);
        for (size_t n = 0; n < address->length; n++) {
            uint8_t letter = address->at[n];
            lower[n] = letter >= 'A' && letter <= 'Z' ? letter + ('a' - 'A') : letter;
        }
        address->at = lower;
    }
    one->data = device_write(&data);
}

// Checks the result of `fill_in`.
static void judge(const resource *one, const resource *prior, diagnostics *said) {
    device data = device_read(one->data);
    if (data.model.length == 0) error(said, text("model required"), PATH("model"));
    if (data.interval < 5 || data.interval > 3600) error(said, text("interval must be 5 to 3600"), PATH("interval"));
    for (size_t at = 0; at < data.address_count; at++) {
        bytes address = data.addresses[at];
        for (size_t before = 0; before < at; before++) {
            if (!same(data.addresses[before], address)) continue;
            error(said, format("address %.*s is there twice", (int)address.length, address.at), PATH_AT("addresses", at));
            break;
        }
    }
    if (prior && !same(device_read(prior->data).model, data.model)) warning(said, text("the model changes"), PATH("model"));
}

// Writers need `device:write` on the name.
static bool may_write(const resource *one) { return allowed("device:write", one->name); }

// The reconciler: called for each resource of the type when the server starts, whenever it changes, and now and then.
// Remembers how many addresses it has, and says in its status how it is polled.
static bytes poll(bytes id, bytes name) {
    bytes key = format("addresses/%.*s", (int)name.length, name.at);
    resource one;
    bool gone;
    if (!read_resource(id, &one, &gone)) return failure;
    if (gone) return kv_remove(key) ? text("") : failure;

    device data = device_read(one.data);
    bytes count = format("%zu", data.address_count), remembered;
    if (!kv_get(key, &remembered, &gone)) return failure;
    if (!same(remembered, count) && !kv_set(key, count)) return failure;

    condition polled = {"Polled", false, "NoAddress", text("It has no address.")};
    if (data.address_count > 0) {
        bytes message = format("%zu addresses, every %u s.", data.address_count, (unsigned)data.interval);
        polled = (condition){"Polled", true, "Scheduled", message};
    }
    bool written;
    if (!write_status(&one, "poll", &polled, 1, &written)) return failure;
    if (written) info(format("polls %.*s", (int)name.length, name.at));
    return text("");
}

static const uint8_t DESCRIPTORS[] = {
#embed "device.binpb"
};

static const resource_type DEVICE = {
    .group = "fleet_c",
    .version = "v1",
    .kind = "Device",
    .message = "fleet.v1.Device",
    .descriptors = {DESCRIPTORS, sizeof DESCRIPTORS},
    .mutate = fill_in,
    .validate = judge,
    .authorize_write = may_write,
    .columns = {{"MODEL", "data.model"}, {"INTERVAL", "data.interval"}},
};

static const controller POLL = {.name = "poll", .manages = &DEVICE, .reconcile = poll, .parallel = 16};

const plugin PLUGIN = {
    .name = "fleet-c",
    .version = VERSION,
    .areas = {"device"},
    .pure_hooks = 1,
    .types = {&DEVICE},
    .controllers = {&POLL},
};
