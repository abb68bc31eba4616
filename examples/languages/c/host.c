// The calls of a plugin into the host.
#include "wit.h"
#include "mortise.h"

bytes failure;

static wit_string_t lent(bytes of) { return (wit_string_t){(uint8_t *)of.at, of.length}; }
static wit_list_u8_t lent_list(bytes of) { return (wit_list_u8_t){(uint8_t *)of.at, of.length}; }

// Memory that the host handed over lasts until the next call.
static bytes adopted(uint8_t *at, size_t length) {
    adopt(at);
    return (bytes){at, length};
}

static bool failed(mortise_plugin_failures_failure_t *why) {
    failure = adopted(why->message.ptr, why->message.len);
    return false;
}

bool allowed(const char *permission, bytes name) {
    wit_string_t of = lent(text(permission)), on = lent(name);
    return mortise_plugin_authorizer_allowed(&of, &on);
}

void info(bytes message) {
    wit_string_t line = lent(message);
    wit_list_tuple2_string_string_t fields = {0};
    mortise_plugin_log_write(3, &line, &fields);
}

bool read_resource(bytes id, resource *found, bool *gone) {
    enum { NOT_FOUND = 5 };
    mortise_plugin_resources_id_bytes_t of = {(uint8_t *)id.at, id.length};
    mortise_plugin_resources_resource_bytes_t answer;
    mortise_plugin_resources_failure_t why;
    *gone = false;
    if (mortise_plugin_resources_read(&of, &answer, &why)) {
        *found = resource_read(adopted(answer.ptr, answer.len));
        return true;
    }
    *gone = why.code == NOT_FOUND;
    return failed(&why) || *gone;
}

bool kv_get(bytes key, bytes *value, bool *gone) {
    wit_string_t of = lent(key);
    wit_option_list_u8_t answer;
    mortise_plugin_kv_failure_t why;
    if (!mortise_plugin_kv_get(&of, &answer, &why)) return failed(&why);
    *gone = !answer.is_some;
    *value = *gone ? (bytes){0} : adopted(answer.val.ptr, answer.val.len);
    return true;
}

bool kv_set(bytes key, bytes value) {
    wit_string_t of = lent(key);
    wit_list_u8_t to = lent_list(value);
    mortise_plugin_kv_failure_t why;
    return mortise_plugin_kv_set(&of, &to, &why) || failed(&why);
}

bool kv_remove(bytes key) {
    wit_string_t of = lent(key);
    mortise_plugin_kv_failure_t why;
    return mortise_plugin_kv_remove(&of, &why) || failed(&why);
}

// The conditions of a stored status, and the generation that it looked at: as `made`, if nothing changed.
static bool says(bytes encoded, bytes key, const message *made) {
    enum { STATUS = 6, UPDATED_AT = 3 };
    wire_field entry, part, field;
    for (bytes rest = encoded; wire_next(&rest, &entry);) {
        if (entry.number != STATUS) continue;
        bytes name = {0}, value = {0};
        for (bytes inner = entry.content; wire_next(&inner, &part);) {
            if (part.number == 1) name = part.content;
            if (part.number == 2) value = part.content;
        }
        if (!same(name, key)) continue;
        message stored = {0};
        while (wire_next(&value, &field)) {
            if (field.number != UPDATED_AT) put_raw(&stored, field.raw);
        }
        return same(whole(&stored), whole(made));
    }
    return false;
}

bool write_status(const resource *one, const char *controller, const condition *conditions, size_t count, bool *written) {
    bytes key = format("%s/%s", PLUGIN.name, controller);
    message made = {0};
    put_bytes(&made, 1, one->generation);
    for (size_t at = 0; at < count; at++) {
        message each = {0};
        put_text(&each, 1, conditions[at].type);
        put_number(&each, 2, conditions[at].holds ? 1 : 2);
        put_text(&each, 3, conditions[at].reason);
        put_bytes(&each, 4, conditions[at].message);
        put_message(&made, 2, &each);
    }
    *written = !says(one->encoded, key, &made);
    if (!*written) return true;
    mortise_plugin_resources_id_bytes_t of = {(uint8_t *)one->id.at, one->id.length};
    wit_string_t version = {0}, under = lent(key);
    wit_list_u8_t status = lent_list(whole(&made));
    mortise_plugin_resources_resource_bytes_t answer;
    mortise_plugin_resources_failure_t why;
    if (!mortise_plugin_resources_write_status(&of, &version, &under, &status, &answer, &why)) return failed(&why);
    adopt(answer.ptr);
    return true;
}
