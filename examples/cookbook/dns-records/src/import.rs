//! Import of a record that the provider has already.

use mortise_plugin::{Context, Diagnostics, Import, name, pb};

use crate::{
    proto::dns::v1::Record,
    provider::{Place, Provider},
    rules::{is_host, zone_name},
};

/// Describes a record at the provider by an external id such as `example.org/www/A`. It changes nothing; the zone must
/// exist when the record is written.
pub(crate) fn import(
    ctx: &Context<'_>,
    external_id: &str,
    _within: &pb::Tenancy,
) -> Result<Import<Record>, Diagnostics> {
    let wrong =
        || Diagnostics::refusal(format!("an id is DOMAIN/HOST/TYPE, as in example.org/www/A; got {external_id:?}"));
    let parts = external_id.split('/').collect::<Vec<_>>();
    let &[domain, host, kind] = parts.as_slice() else { return Err(wrong()) };
    if !name::is_dns_name(domain) || !is_host(host) || !kind.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(wrong());
    }
    let provider = Provider::new(ctx).map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
    let found = provider.get(Place { domain, host, kind }).map_err(|fault| Diagnostics::refusal(fault.to_string()))?;
    let Some(entry) = found else {
        return Err(Diagnostics::refusal(format!("the provider has no {kind} record {host} in {domain}")));
    };
    let zone = zone_name(domain);
    let label = if host == "@" { "apex".to_owned() } else { host.replace('_', "").replace('.', "-") };
    let own_name = format!("{label}-{zone}-{}", kind.to_ascii_lowercase());
    let (host, r#type) = (host.to_owned(), kind.to_owned());
    Ok(Import::new(own_name, Record { zone, host, r#type, values: entry.values, ttl: entry.ttl }))
}
