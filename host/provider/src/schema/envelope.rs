//! The attributes of every resource besides its data, and the attributes of the provider's own configuration.

use mortise_resource::Scope;

use super::attribute::{Attribute, COMPUTED, Content, DEFAULTED, OPTIONAL, REQUIRED, attribute, text};
use crate::{mapping::Flags, value::Type};

const REPLACES: Flags = Flags { replace: true, ..REQUIRED };
const REPLACES_DEFAULTED: Flags = Flags { replace: true, ..DEFAULTED };

fn string_map() -> Content {
    Content::Value(Type::map(Type::String))
}

fn string_set() -> Content {
    Content::Value(Type::set(Type::String))
}

fn tenancy_attributes(scope: Scope, flags: Flags) -> Vec<Attribute> {
    let partition = text("partition", flags, "The partition; the provider's or the server's default if it is not set.");
    let namespace = text("namespace", flags, "The namespace; the provider's or the server's default if it is not set.");
    match scope {
        Scope::Cluster | Scope::Undefined => Vec::new(),
        Scope::Partition => vec![partition],
        Scope::Namespace => vec![partition, namespace],
    }
}

fn owner_attribute(flags: Flags, required: Flags, defaulted: Flags) -> Attribute {
    let parts = vec![
        text("group", required, "The group of the owner's type."),
        text("group_version", required, "The version of the owner's type."),
        text("kind", required, "The kind of the owner's type."),
        text("partition", defaulted, "The owner's partition; that of this resource if it is not set."),
        text("namespace", defaulted, "The owner's namespace; that of this resource if it is not set."),
        text("name", required, "The owner's name."),
        text("uid", defaulted, "The owner's uid; its current uid if it is not set."),
    ];
    let description = "The resource that owns this one; deleting it deletes this one too. It never changes.";
    attribute("owner", Content::Object(parts), flags, description)
}

/// Attributes that the server sets.
fn server_attributes() -> Vec<Attribute> {
    let conditions = vec![
        text("type", COMPUTED, "The type of the condition, such as `Accepted`."),
        text("state", COMPUTED, "`STATE_TRUE`, `STATE_FALSE` or `STATE_UNKNOWN`."),
        text("reason", COMPUTED, "The reason, for programs."),
        text("message", COMPUTED, "The reason, for people."),
        text("resource", COMPUTED, "The other resource that it is about: its type, place and name, joined by slashes."),
    ];
    let status = vec![
        text("observed_generation", COMPUTED, "The generation that the controller observed."),
        text("updated_at", COMPUTED, "The time of the controller's report."),
        attribute("conditions", Content::List(conditions), COMPUTED, "The conditions that it reports."),
    ];
    vec![
        text("id", COMPUTED, "The tenancy and the name, joined by slashes: the id that `import` takes."),
        text("uid", COMPUTED, "Distinguishes this resource from earlier and later ones of the same name."),
        text("generation", COMPUTED, "Changes with every write."),
        text("version", COMPUTED, "Changes with every write, of statuses too."),
        text("group_version", COMPUTED, "The version of the type on the server."),
        attribute("status", Content::Map(status), COMPUTED, "The statuses, by the names of their controllers."),
    ]
}

/// The attributes of a managed resource.
pub(super) fn managed_attributes(scope: Scope) -> Vec<Attribute> {
    let wait = vec![
        attribute(
            "conditions",
            Content::Value(Type::list(Type::String)),
            OPTIONAL,
            "Types of conditions that have to be `STATE_TRUE` for the generation that is stored.",
        ),
        attribute(
            "fields",
            string_map(),
            OPTIONAL,
            "Values that fields have to get, by path, such as `data.address`; `*` is any value.",
        ),
        text("timeout", OPTIONAL, "The longest wait, such as `90s` or `5m`; 60s if it is not set."),
    ];
    let timeouts = vec![
        text("create", OPTIONAL, "The longest wait after a create; `wait.timeout` if it is not set."),
        text("update", OPTIONAL, "The longest wait after an update; `wait.timeout` if it is not set."),
        text("delete", OPTIONAL, "The longest wait for finalizers; `wait.timeout` if it is not set."),
    ];
    let mut all = vec![text("name", REPLACES, "The name: lower-case letters, digits and dashes.")];
    all.extend(tenancy_attributes(scope, REPLACES_DEFAULTED));
    all.extend([
        attribute("metadata", string_map(), DEFAULTED, "Free keys and values."),
        attribute("labels", string_map(), OPTIONAL, "Labels. Those under other keys belong to others, and stay."),
        attribute("annotations", string_map(), OPTIONAL, "Annotations. Those under other keys belong to others, and stay."),
        attribute("tags", string_set(), OPTIONAL, "Tags. Others belong to others, and stay."),
        attribute("all_labels", string_map(), COMPUTED, "`labels`, and the provider's `default_labels` under other keys."),
        owner_attribute(Flags { replace: true, ..OPTIONAL }, REQUIRED, DEFAULTED),
        attribute(
            "wait",
            Content::Object(wait),
            OPTIONAL,
            "The conditions and fields to wait for after a write, and the longest wait, also for controllers after a delete.",
        ),
        attribute("timeouts", Content::Object(timeouts), OPTIONAL, "The longest waits of each kind of change."),
    ]);
    all.extend(server_attributes());
    all
}

/// The attributes of a resource as a data source.
pub(super) fn data_source_attributes(scope: Scope) -> Vec<Attribute> {
    let mut all = vec![text("name", REQUIRED, "The name.")];
    all.extend(tenancy_attributes(scope, DEFAULTED));
    all.extend([
        attribute("metadata", string_map(), COMPUTED, "Free keys and values."),
        attribute("labels", string_map(), COMPUTED, "All labels."),
        attribute("annotations", string_map(), COMPUTED, "All annotations."),
        attribute("tags", string_set(), COMPUTED, "All tags."),
        owner_attribute(COMPUTED, COMPUTED, COMPUTED),
    ]);
    all.extend(server_attributes());
    all
}

/// The attributes of the data source that lists.
pub(super) fn list(has_secrets: bool) -> Vec<Attribute> {
    let found = vec![
        text("id", COMPUTED, "The tenancy and the name, joined by slashes."),
        text("name", COMPUTED, "The name."),
        text("partition", COMPUTED, "The partition."),
        text("namespace", COMPUTED, "The namespace."),
        text("uid", COMPUTED, "The uid."),
        text("generation", COMPUTED, "The generation."),
        text("version", COMPUTED, "The version."),
        attribute("metadata", string_map(), COMPUTED, "Free keys and values."),
        attribute("labels", string_map(), COMPUTED, "The labels."),
        attribute("annotations", string_map(), COMPUTED, "The annotations."),
        attribute("tags", string_set(), COMPUTED, "The tags."),
        text("data", Flags { sensitive: has_secrets, ..COMPUTED }, "The data as JSON, for `jsondecode`."),
    ];
    let mut all = vec![
        text("type", REQUIRED, "The type, such as `demo.v2.Artist`; the version may be left out."),
        text("partition", OPTIONAL, "The partition; `*` for all."),
        text("namespace", OPTIONAL, "The namespace; `*` for all."),
        attribute("metadata", string_map(), OPTIONAL, "The keys and values that a resource's metadata must have."),
        attribute("resources", Content::List(found), COMPUTED, "The resources, in the order of names."),
    ];
    all.extend(conditions());
    all
}

/// The attributes that select resources of a type for a list.
pub(super) fn query_attributes(scope: Scope) -> Vec<Attribute> {
    let unit = |name: &str| {
        let description =
            format!("The {name}, or `*` for all; the provider's or the server's default if it is not set.");
        text(name, OPTIONAL, &description)
    };
    let mut all = match scope {
        Scope::Cluster | Scope::Undefined => Vec::new(),
        Scope::Partition => vec![unit("partition")],
        Scope::Namespace => vec![unit("partition"), unit("namespace")],
    };
    all.extend(conditions());
    all
}

/// The attributes that select resources of a place.
fn conditions() -> [Attribute; 3] {
    [
        text("name_prefix", OPTIONAL, "The start of the names."),
        text("filter", OPTIONAL, "The condition, such as `data.year > 1990 AND meta.tags CONTAINS \"live\"`."),
        text("selector", OPTIONAL, "The condition on labels, such as `env=prod,tier!=web,zone in (a,b),!old`."),
    ]
}

/// The attributes of a short-lived token.
pub(super) fn token() -> Vec<Attribute> {
    let policies = Content::Value(Type::list(Type::String));
    vec![
        attribute(
            "policies",
            policies,
            REQUIRED,
            "The policies of the token. Together they grant no more than the provider's own token has.",
        ),
        text(
            "expires_in",
            OPTIONAL,
            "The time for which the token lives without a renewal, from `1m` to `24h`; `1h` if it is not set.",
        ),
        text("description", OPTIONAL, "The purpose, in words."),
        text("partition", OPTIONAL, "The default partition of the token's requests."),
        text("namespace", OPTIONAL, "The default namespace of the token's requests."),
        text("accessor_id", COMPUTED, "The name of the token, which logs and refusals show."),
        text(
            "secret",
            Flags { sensitive: true, ..COMPUTED },
            "The secret, for the attribute `token` of a provider and for clients.",
        ),
        text("expires_at", COMPUTED, "The time of expiry without a renewal."),
    ]
}

/// The attributes of the provider's configuration.
pub(super) fn provider() -> Vec<Attribute> {
    let secret = Flags { sensitive: true, ..OPTIONAL };
    vec![
        text("address", OPTIONAL, "The server: `host:port`, `https://host:port` or `unix:///path`."),
        text("token", secret, "The token. Prefer `token_file` or the environment."),
        text("token_file", OPTIONAL, "A file that holds the token."),
        text("ca_file", OPTIONAL, "Certificates to trust instead of the system's."),
        text("client_cert", OPTIONAL, "This client's certificate."),
        text("client_key", OPTIONAL, "The key of `client_cert`."),
        text("tls_server_name", OPTIONAL, "The name that the server's certificate must have."),
        text("partition", OPTIONAL, "The default partition of resources."),
        text("namespace", OPTIONAL, "The default namespace of resources."),
        attribute(
            "default_labels",
            string_map(),
            OPTIONAL,
            "Labels of every resource; `labels` of a resource comes first.",
        ),
        attribute(
            "controller_keys",
            Content::Value(Type::list(Type::String)),
            OPTIONAL,
            "Keys of labels, annotations and metadata that controllers own, or prefixes such as `example.com/*`. A \
             configuration may give such a key its first value; then its values are no difference, and no apply changes \
             or removes it.",
        ),
    ]
}
