// The functions that the host calls, by the names that wit-bindgen gives them. Each first frees what the call before took.
#include <stdlib.h>
#include <string.h>

#include "wit.h"
#include "mortise.h"

// Begins a call: the memory of its argument lasts until the next.
static bytes begin(uint8_t *at, size_t length) {
    release();
    adopt(at);
    return (bytes){at, length};
}

// Memory that the host frees when it has read the answer.
static wit_string_t given(bytes of) {
    wit_string_t copy = {malloc(of.length), of.length};
    if (of.length && !copy.ptr) abort();
    if (of.length) memcpy(copy.ptr, of.at, of.length);
    return copy;
}

static const resource_type *type_of(bytes encoded) {
    if (!PLUGIN.types[1]) return PLUGIN.types[0];
    // Resource.id.type: group, version and kind, in this order.
    bytes rest = resource_read(encoded).id;
    wire_field field, part;
    while (wire_next(&rest, &field)) {
        if (field.number != 3) continue;
        bytes parts[4] = {0};
        while (wire_next(&field.content, &part)) {
            if (part.number < 4) parts[part.number] = part.content;
        }
        for (const resource_type *const *one = PLUGIN.types; *one; one++) {
            bool found = same(parts[1], text((*one)->group)) && same(parts[2], text((*one)->version)) && same(parts[3], text((*one)->kind));
            if (found) return *one;
        }
    }
    abort();
}

struct diagnostics {
    mortise_plugin_types_diagnostic_t *said;
    size_t count, room;
};

static mortise_plugin_types_path_step_t step_into(const char *field) {
    return (mortise_plugin_types_path_step_t){.tag = MORTISE_PLUGIN_TYPES_PATH_STEP_FIELD, .val.field = given(text(field))};
}

static void say(diagnostics *all, uint8_t severity, bytes summary, path at) {
    if (all->count == all->room) {
        all->room = all->room * 2 + 4;
        all->said = realloc(all->said, all->room * sizeof *all->said);
        if (!all->said) abort();
    }
    size_t length = !at.field ? 0 : at.place == NO_PLACE ? 2 : 3;
    mortise_plugin_types_path_step_t *steps = calloc(length, sizeof *steps);
    if (length && !steps) abort();
    if (length > 0) steps[0] = step_into("data");
    if (length > 1) steps[1] = step_into(at.field);
    if (length > 2) {
        steps[2].tag = MORTISE_PLUGIN_TYPES_PATH_STEP_INDEX;
        steps[2].val.index = (uint32_t)at.place;
    }
    all->said[all->count++] = (mortise_plugin_types_diagnostic_t){
        .severity = severity, .path = {steps, length}, .summary = given(summary)
    };
}

void error(diagnostics *said, bytes summary, path at) { say(said, 1, summary, at); }
void warning(diagnostics *said, bytes summary, path at) { say(said, 2, summary, at); }

void exports_mortise_plugin_plugin_describe(wit_list_u8_t *ret) {
    release();
    wit_string_t made = given(manifest());
    *ret = (wit_list_u8_t){made.ptr, made.len};
}

bool exports_mortise_plugin_mutating_mutate(
    exports_mortise_plugin_mutating_resource_bytes_t *input, exports_mortise_plugin_mutating_option_resource_bytes_t *ret,
    exports_mortise_plugin_mutating_list_diagnostic_t *err
) {
    (void)err;
    bytes encoded = begin(input->ptr, input->len);
    resource one = resource_read(encoded);
    bytes before = one.data;
    type_of(encoded)->mutate(&one);
    ret->is_some = !same(before, one.data);
    if (ret->is_some) {
        wit_string_t made = given(resource_write(&one));
        ret->val = (mortise_plugin_types_resource_bytes_t){made.ptr, made.len};
    }
    return true;
}

void exports_mortise_plugin_validating_validate(
    exports_mortise_plugin_validating_resource_bytes_t *input, exports_mortise_plugin_validating_resource_bytes_t *maybe_prior,
    exports_mortise_plugin_validating_list_diagnostic_t *ret
) {
    bytes encoded = begin(input->ptr, input->len);
    resource one = resource_read(encoded), prior;
    diagnostics all = {0};
    if (maybe_prior) {
        adopt(maybe_prior->ptr);
        prior = resource_read((bytes){maybe_prior->ptr, maybe_prior->len});
    }
    type_of(encoded)->validate(&one, maybe_prior ? &prior : NULL, &all);
    *ret = (exports_mortise_plugin_validating_list_diagnostic_t){all.said, all.count};
}

static void decide(bool allow, exports_mortise_plugin_authorizing_decision_t *ret) {
    *ret = (exports_mortise_plugin_authorizing_decision_t){
        .tag = allow ? EXPORTS_MORTISE_PLUGIN_AUTHORIZING_DECISION_ALLOW : EXPORTS_MORTISE_PLUGIN_AUTHORIZING_DECISION_DENY
    };
}

void exports_mortise_plugin_authorizing_write(
    exports_mortise_plugin_authorizing_resource_bytes_t *input, exports_mortise_plugin_authorizing_decision_t *ret
) {
    bytes encoded = begin(input->ptr, input->len);
    resource one = resource_read(encoded);
    decide(type_of(encoded)->authorize_write(&one), ret);
}

// Reading and listing have no hooks here: the manifest does not name them, so the host does not ask.
void exports_mortise_plugin_authorizing_read(
    exports_mortise_plugin_authorizing_id_bytes_t *id, exports_mortise_plugin_authorizing_resource_bytes_t *maybe_stored,
    exports_mortise_plugin_authorizing_decision_t *ret
) {
    (void)id, (void)maybe_stored;
    decide(allowed("operator:read", text("")), ret);
}

void exports_mortise_plugin_authorizing_list(
    exports_mortise_plugin_authorizing_type_name_t *of, exports_mortise_plugin_authorizing_tenancy_t *where,
    exports_mortise_plugin_authorizing_decision_t *ret
) {
    (void)of, (void)where;
    decide(allowed("operator:read", text("")), ret);
}

bool exports_mortise_plugin_controlling_reconcile(
    wit_string_t *name, exports_mortise_plugin_controlling_id_bytes_t *id, exports_mortise_plugin_controlling_outcome_t *ret,
    wit_string_t *err
) {
    bytes of = begin(id->ptr, id->len), called = {name->ptr, name->len}, resource_name = {0};
    adopt(name->ptr);
    wire_field field;
    for (bytes rest = of; wire_next(&rest, &field);) {
        if (field.number == 2) resource_name = field.content;
    }
    for (const controller *const *one = PLUGIN.controllers; *one; one++) {
        if (!same(text((*one)->name), called)) continue;
        bytes fault = (*one)->reconcile(of, resource_name);
        if (fault.length) {
            *err = given(fault);
            return false;
        }
        ret->tag = EXPORTS_MORTISE_PLUGIN_CONTROLLING_OUTCOME_DONE;
        return true;
    }
    abort();
}
