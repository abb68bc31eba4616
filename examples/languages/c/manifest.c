// The description of the plugin: mortise/plugin/v1/manifest.proto.
#include "mortise.h"

static message type_name(const resource_type *type) {
    message made = {0};
    put_text(&made, 1, type->group);
    put_text(&made, 2, type->version);
    put_text(&made, 3, type->kind);
    return made;
}

static void put_type(message *to, const resource_type *type) {
    enum { NAMESPACE = 3 };
    message made = type_name(type), hooks = {0};
    put_number(&made, 4, NAMESPACE);
    put_text(&made, 5, type->message);
    put_number(&hooks, 1, type->mutate != NULL);
    put_number(&hooks, 2, type->validate != NULL);
    put_number(&hooks, 4, type->authorize_write != NULL);
    put_message(&made, 7, &hooks);
    for (const column *one = type->columns; one->name; one++) {
        message column = {0};
        put_text(&column, 1, one->name);
        put_text(&column, 2, one->path);
        put_message(&made, 9, &column);
    }
    put_message(to, 4, &made);
    put_bytes(to, 3, type->descriptors);
}

static void put_controller(message *to, const controller *one) {
    message made = {0}, manages = type_name(one->manages);
    put_text(&made, 1, one->name);
    put_message(&made, 2, &manages);
    put_number(&made, 7, one->parallel);
    put_message(to, 7, &made);
}

bytes manifest(void) {
    message made = {0};
    put_text(&made, 1, PLUGIN.name);
    put_text(&made, 2, PLUGIN.version);
    for (const resource_type *const *one = PLUGIN.types; *one; one++) put_type(&made, *one);
    for (const controller *const *one = PLUGIN.controllers; *one; one++) put_controller(&made, *one);
    for (const char *const *one = PLUGIN.areas; *one; one++) put_text(&made, 1002, *one);
    put_number(&made, 1003, PLUGIN.pure_hooks);
    return whole(&made);
}
