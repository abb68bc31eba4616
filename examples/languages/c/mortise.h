// The beginning of an SDK: a plugin is declared by a constant, and its hooks are ordinary functions. exports.c hands the calls of the host
// over to them.
#pragma once

#include "wire.h"

// A resource. `data` is its message; a mutate hook may replace it.
typedef struct {
    bytes name;
    bytes id;
    bytes generation;
    bytes data;
    bytes encoded;
} resource;

// The diagnostics of a hook. A path goes from the data down: PATH("addresses"), PATH_AT("addresses", 2), or nothing.
typedef struct {
    const char *field;
    // A place in the field's list, or NO_PLACE.
    size_t place;
} path;
#define NO_PLACE SIZE_MAX
#define PATH(field) ((path){field, NO_PLACE})
#define PATH_AT(field, place) ((path){field, place})

typedef struct diagnostics diagnostics;
// Refuses the request.
void error(diagnostics *said, bytes summary, path at);
// Travels back to the caller.
void warning(diagnostics *said, bytes summary, path at);

// Whether the caller has a permission. A rule that answers false has the host name the permission.
bool allowed(const char *permission, bytes name);

typedef struct {
    const char *name, *path;
} column;

// A type: its name, its message, its hooks. An absent hook has no effect.
typedef struct {
    const char *group, *version, *kind;
    const char *message;
    // A FileDescriptorSet with the message.
    bytes descriptors;
    void (*mutate)(resource *one);
    void (*validate)(const resource *one, const resource *prior, diagnostics *said);
    bool (*authorize_write)(const resource *one);
    column columns[8];
} resource_type;

// A reconciler of a type: gets the id, as it came, and the name in it. Returns the text of a failure, or an empty one.
typedef struct {
    const char *name;
    const resource_type *manages;
    bytes (*reconcile)(bytes id, bytes name);
    uint32_t parallel;
} controller;

typedef struct {
    const char *name, *version;
    const char *areas[4];
    // Whether mutate and validate are pure: an answer depends on the arguments alone, and not on earlier calls.
    int pure_hooks;
    const resource_type *types[4];
    const controller *controllers[4];
} plugin;

// The plugin of this component, which the author defines.
extern const plugin PLUGIN;

// The calls of a reconciler into the host. Each returns false after a failure, whose text is then in `failure`.
extern bytes failure;
// `gone` is set if there is no such resource.
bool read_resource(bytes id, resource *found, bool *gone);
bool kv_get(bytes key, bytes *value, bool *gone);
bool kv_set(bytes key, bytes value);
bool kv_remove(bytes key);

typedef struct {
    const char *type;
    bool holds;
    const char *reason;
    bytes message;
} condition;
// Sets the status of a controller, unless it says the same already; `written` tells.
bool write_status(const resource *one, const char *controller, const condition *conditions, size_t count, bool *written);

// Writes a line of the plugin's log.
void info(bytes message);

// For exports.c.
resource resource_read(bytes encoded);
bytes resource_write(const resource *one);
bytes manifest(void);
