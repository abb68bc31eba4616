//! `mortise catalog watch`: the destination API's stream about a service, as a proxy gets it.
//!
//! Each message is printed as it comes. After its end the stream is opened again, with a growing pause, and begins with
//! the whole state.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use clap::{Args, ValueEnum};
use mortise_resource::backoff::{Backoff, Waits};
use mortise_resource::grpc::{
    LinkerdDestinationClient,
    linkerd::{
        destination::{GetDestination, TlsIdentity, Update, tls_identity::Strategy, update},
        net::{TcpAddress, ip_address::Ip},
    },
};
use serde_json::{Map, Value, json};

use crate::{CliError, Connect, Exit, Session, Style, Tenancy, Ui, output::ui};

pub(super) const EXAMPLES: &str = "\
mortise catalog watch web
mortise catalog watch web --port 8080 --namespace shop -o json
mortise catalog watch web --once";

/// First and longest pause before a stream is opened again.
const MIN_REOPEN_PAUSE: Duration = Duration::from_millis(200);
const MAX_REOPEN_PAUSE: Duration = Duration::from_secs(10);

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Text, a line for each address.
    Text,
    /// JSON, a line for each message.
    Json,
}

/// The last message of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    State,
    /// The service does not exist.
    Absence,
}

impl Shown {
    fn of(update: &Update) -> Self {
        match &update.update {
            Some(update::Update::NoEndpoints(none)) if !none.exists => Self::Absence,
            _ => Self::State,
        }
    }
}

/// Arguments of `catalog watch`.
#[derive(Debug, Args)]
pub(super) struct Watch {
    /// The service
    service: String,
    /// The service's port
    #[arg(short, long, value_name = "PORT", default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
    /// Ends after the first message, which is the whole state; with exit code 1 if the service does not exist
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    tenancy: Tenancy,
    #[command(flatten)]
    connect: Connect,
}

impl Watch {
    pub(super) async fn run(self) -> Result<Exit, CliError> {
        let ui = self.connect.ui();
        let session = self.connect.session().await?;
        let units = self.tenancy.units(&session);
        if !matches!(units.partition.as_str(), "" | "default") {
            return Err(CliError::usage(
                "proxies can ask only for services of the partition default; leave --partition out",
            ));
        }
        let namespace = if units.namespace.is_empty() { "default" } else { &units.namespace };
        let path = format!("{}.{namespace}.svc:{}", self.service, self.port);
        let mut waits = Waits::new(Backoff::new(MIN_REOPEN_PAUSE, MAX_REOPEN_PAUSE));
        loop {
            let result = self.follow(&session, &path, &ui).await?;
            if self.once {
                return Ok(if result == Shown::Absence { Exit::Failed } else { Exit::Done });
            }
            if result != Shown::Nothing {
                waits.reset();
            }
            ui.warn(&format!("the stream about {path} ended; opening it again"));
            tokio::time::sleep(waits.next_wait()).await;
        }
    }

    /// Prints a stream to its end.
    async fn follow(&self, session: &Session, path: &str, ui: &Ui) -> Result<Shown, CliError> {
        let mut client = LinkerdDestinationClient::new(session.channel());
        let request = GetDestination { scheme: "k8s".into(), path: path.to_owned(), ..GetDestination::default() };
        let mut stream = session.call(path, async { client.get(request).await }).await?;
        let mut shown = Shown::Nothing;
        loop {
            let update = if shown != Shown::Nothing {
                match stream.message().await {
                    Ok(Some(update)) => update,
                    Ok(None) => return Ok(shown),
                    Err(status) if status.code() == tonic::Code::Unavailable => return Ok(shown),
                    Err(status) => return Err(CliError::rpc(path, &status)),
                }
            } else {
                match session.next(path, &mut stream).await? {
                    Some(update) => update,
                    None => return Ok(shown),
                }
            };
            shown = Shown::of(&update);
            self.print(&update, ui)?;
            if self.once {
                return Ok(shown);
            }
        }
    }

    fn print(&self, update: &Update, ui: &Ui) -> Result<(), CliError> {
        let now = jiff::Timestamp::now().strftime("%H:%M:%S").to_string();
        if self.output == Output::Json {
            return ui::line(to_json(update).to_string());
        }
        let line = |style: Style, text: String| ui::line(format!("{now} {}", ui.paint(style, &text)));
        match &update.update {
            Some(update::Update::Add(set)) if set.addrs.is_empty() => line(Style::Dim, "heartbeat".into()),
            Some(update::Update::Add(set)) => {
                for address in &set.addrs {
                    let mut text = format!("+ {} weight={}", shown(address.addr.as_ref()), address.weight);
                    for (key, value) in &address.metric_labels {
                        text.push_str(&format!(" {key}={value}"));
                    }
                    if let Some(name) = address.tls_identity.as_ref().and_then(identity) {
                        text.push_str(&format!(" identity={name}"));
                    }
                    line(Style::Good, text)?;
                }
                Ok(())
            }
            Some(update::Update::Remove(set)) => {
                for address in &set.addrs {
                    line(Style::Bad, format!("- {}", shown(Some(address))))?;
                }
                Ok(())
            }
            Some(update::Update::NoEndpoints(none)) if none.exists => {
                line(Style::Bad, "no endpoints: the service has no healthy endpoint".into())
            }
            Some(update::Update::NoEndpoints(_)) => line(Style::Bad, "no endpoints: the service does not exist".into()),
            None => Ok(()),
        }
    }
}

fn to_json(update: &Update) -> Value {
    let labels = |labels: &BTreeMap<String, String>| {
        let fields: Map<String, Value> =
            labels.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect();
        Value::Object(fields)
    };
    match &update.update {
        Some(update::Update::Add(set)) => {
            let addresses: Vec<_> = set
                .addrs
                .iter()
                .map(|address| {
                    json!({
                        "address": shown(address.addr.as_ref()),
                        "weight": address.weight,
                        "labels": labels(&address.metric_labels),
                        "identity": address.tls_identity.as_ref().and_then(identity),
                    })
                })
                .collect();
            json!({ "add": addresses, "labels": labels(&set.metric_labels) })
        }
        Some(update::Update::Remove(set)) => {
            json!({ "remove": set.addrs.iter().map(|address| shown(Some(address))).collect::<Vec<_>>() })
        }
        Some(update::Update::NoEndpoints(none)) => json!({ "noEndpoints": { "exists": none.exists } }),
        None => json!({}),
    }
}

fn identity(tls: &TlsIdentity) -> Option<&str> {
    match tls.strategy.as_ref()? {
        Strategy::DnsLikeIdentity(identity) => Some(&identity.name),
        Strategy::UriLikeIdentity(identity) => Some(&identity.uri),
    }
}

/// An address in text form; `?` if it is invalid.
fn shown(address: Option<&TcpAddress>) -> String {
    let parsed = address.and_then(|address| {
        let ip = match address.ip.as_ref()?.ip.as_ref()? {
            Ip::Ipv4(bits) => IpAddr::V4(Ipv4Addr::from_bits(*bits)),
            Ip::Ipv6(ip) => IpAddr::V6(Ipv6Addr::from_bits(u128::from(ip.first) << 64 | u128::from(ip.last))),
        };
        Some(SocketAddr::new(ip, u16::try_from(address.port).ok()?))
    });
    parsed.map_or_else(|| "?".to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use mortise_resource::grpc::linkerd::destination::NoEndpoints;

    use super::*;

    #[test]
    fn a_service_without_endpoints_is_not_absent() {
        let of = |exists| Shown::of(&Update { update: Some(update::Update::NoEndpoints(NoEndpoints { exists })) });
        assert_eq!((of(true), of(false)), (Shown::State, Shown::Absence));
    }
}
