//! `mortise policy …`: the rules that tokens name.

use std::{io::Read as _, path::PathBuf};

use clap::{Args, Subcommand};
use mortise_resource::{Diagnostic, data, types};

use super::stored::{Collection, Stored};
use crate::{
    CliError, Connect, Exit, Table,
    connect::session::Session,
    output::ui::{self, Ui},
};

/// The policy that allows everything, which is not stored.
pub(super) const GLOBAL_MANAGEMENT: &str = "global-management";

pub(in crate::commands) const EXAMPLES: &str = "\
mortise policy create artists-read --allow 'read,list:demo/*@default/blue'
mortise policy create keys --rules keys.hcl
mortise policy show artists-read";

/// Arguments of `policy`.
#[derive(Debug, Args)]
pub struct Policy {
    #[command(subcommand)]
    command: PolicyCommand,
}

/// Subcommands of `policy`.
#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Creates a policy
    #[command(after_help = crate::commands::after(
        "mortise policy create artists-read --allow 'read,list:demo/*@default/blue'\n\
         mortise policy create keys --rules keys.hcl"
    ))]
    Create(Box<Create>),
    /// Lists all policies
    #[command(visible_alias = "ls", after_help = crate::commands::after("mortise policy list"))]
    List {
        #[command(flatten)]
        connect: Connect,
    },
    /// Shows one policy, with its rules
    #[command(after_help = crate::commands::after("mortise policy show artists-read"))]
    Show {
        /// The policy
        name: String,
        #[command(flatten)]
        connect: Connect,
    },
    /// Deletes policies; tokens that name them, which a warning counts, lose their rules
    #[command(after_help = crate::commands::after("mortise policy delete artists-read"))]
    Delete {
        /// The policies
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        connect: Connect,
    },
}

/// Arguments of `policy create`.
#[derive(Debug, Args)]
struct Create {
    /// The policy
    name: String,
    /// A description for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// File of rules by area and name: Consul's HCL, or the same in YAML or JSON; - reads standard input
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Allows by type and place: VERB,…:TYPE,…[@PARTITION[/NAMESPACE]][:NAME or PREFIX*,…]
    #[arg(long = "allow", value_name = "RULE")]
    allow: Vec<String>,
    /// Denies by type and place, in the same form
    #[arg(long = "deny", value_name = "RULE")]
    deny: Vec<String>,
    /// Replaces an existing policy of that name
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    connect: Connect,
}

pub(super) fn policies<'a>(session: &'a Session, ui: &'a Ui) -> Collection<'a> {
    Collection { session, kind: types::policy(), noun: "policy", ui }
}

impl Policy {
    pub(in crate::commands) async fn run(self) -> Result<Exit, CliError> {
        match self.command {
            PolicyCommand::Create(create) => create.run().await?,
            PolicyCommand::List { connect } => {
                let session = connect.session().await?;
                let ui = connect.ui();
                let all = policies(&session, &ui).list::<data::Policy>().await?;
                ui::print(table(&all).render(&ui))?;
            }
            PolicyCommand::Show { name, connect } => {
                let session = connect.session().await?;
                ui::print(match name.as_str() {
                    GLOBAL_MANAGEMENT => format!("{GLOBAL_MANAGEMENT} allows everything, and always exists\n"),
                    _ => {
                        let policy = policies(&session, &connect.ui()).get(&name).await?;
                        show(&policy) + &remarks(&session, &policy.data).await?
                    }
                })?;
            }
            PolicyCommand::Delete { names, connect } => {
                let session = connect.session().await?;
                for name in names {
                    policies(&session, &connect.ui()).delete::<data::Policy>(&name).await?;
                    ui::line(format!("policy {name} deleted"))?;
                }
            }
        }
        Ok(Exit::Done)
    }
}

impl Create {
    async fn run(self) -> Result<(), CliError> {
        let rules = self.rules.as_deref().map(read).transpose()?.unwrap_or_default();
        let allows = self.allow.iter().map(|text| type_rule(text, false));
        let denies = self.deny.iter().map(|text| type_rule(text, true));
        let type_rules = allows.chain(denies).collect::<Result<Vec<_>, _>>()?;
        if rules.trim().is_empty() && type_rules.is_empty() {
            return Err(CliError::usage("a policy without rules grants nothing")
                .remedy("give --rules FILE, --allow RULE or --deny RULE"));
        }
        let (session, ui) = (self.connect.session().await?, self.connect.ui());
        let policies = policies(&session, &ui);
        let before = policies.find::<data::Policy>(&self.name).await?;
        if before.is_some() && !self.replace {
            return Err(CliError::failed(format!("policy {} exists already", self.name))
                .remedy("--replace replaces it; its tokens get the new rules at once"));
        }
        let policy = data::Policy { description: self.description.unwrap_or_default(), rules, type_rules };
        let done = if before.is_some() { "replaced" } else { "created" };
        policies.put(&self.name, &policy, before.map(|stored| stored.resource)).await?;
        ui::line(format!("policy {} {done}", self.name))
    }
}

/// The server's warnings about a stored policy, or the fault for which it grants nothing.
async fn remarks(session: &Session, policy: &data::Policy) -> Result<String, CliError> {
    let request = data::CheckPolicyRequest { policy: Some(policy.clone()) };
    match session.call("policy", session.auth().check_policy(request)).await {
        Ok(answer) => {
            let remark = |one: &Diagnostic| format!("{:<14}{}: {}\n", "warning", one.path, one.summary);
            Ok(answer.warnings.iter().map(remark).collect())
        }
        Err(error) if error.code == Some(tonic::Code::InvalidArgument) => {
            Ok(format!("{:<14}{}; the policy grants nothing until it is written again\n", "fault", error.message))
        }
        // A caller without any policy, or a server of an earlier release.
        Err(error) if matches!(error.code, Some(tonic::Code::PermissionDenied | tonic::Code::Unimplemented)) => {
            Ok(String::new())
        }
        Err(error) => Err(error),
    }
}

fn read(path: &std::path::Path) -> Result<String, CliError> {
    if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map_err(|e| CliError::usage("standard input").caused_by(e))?;
        return Ok(text);
    }
    std::fs::read_to_string(path).map_err(|e| CliError::file("cannot read", path, e))
}

/// Parses `VERBS:TYPES[@PARTITION[/NAMESPACE]][:NAMES]`. The server checks the verbs and types.
fn type_rule(text: &str, deny: bool) -> Result<data::TypeRule, CliError> {
    let wrong = || {
        CliError::usage(format!("{text:?} is not a rule")).remedy(
            "write VERB,…:TYPE,…[@PARTITION[/NAMESPACE]][:NAME or PREFIX*,…], as in read,list:demo/*@default/blue",
        )
    };
    let words = |text: &str| text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
    let mut parts = text.split(':');
    let (verbs, what, names) = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(verbs), Some(what), names, None) => (words(verbs), what, names),
        _ => return Err(wrong()),
    };
    let (types, place) = what.split_once('@').map_or((what, None), |(types, place)| (types, Some(place)));
    let (partition, namespace) = place.map(|place| place.split_once('/').unwrap_or((place, "*"))).unwrap_or(("*", "*"));
    if partition.is_empty() || namespace.is_empty() {
        return Err(wrong());
    }
    let unit = |unit: &str| if unit == "*" { Vec::new() } else { vec![unit.to_owned()] };
    let (prefixes, names): (Vec<_>, Vec<_>) =
        names.map(words).unwrap_or_default().into_iter().partition(|name| name.ends_with('*'));
    let rule = data::TypeRule {
        types: words(types),
        verbs,
        partitions: unit(partition),
        namespaces: unit(namespace),
        names,
        name_prefixes: prefixes.iter().map(|prefix| prefix.trim_end_matches('*').to_owned()).collect(),
        deny,
    };
    let empty = rule.types.iter().chain(&rule.verbs).chain(&rule.names).any(String::is_empty);
    if empty { Err(wrong()) } else { Ok(rule) }
}

fn rule_text(rule: &data::TypeRule) -> String {
    let any = |units: &[String]| if units.is_empty() { "*".to_owned() } else { units.join("|") };
    let place = match (rule.partitions.is_empty(), rule.namespaces.is_empty()) {
        (true, true) => String::new(),
        _ => format!("@{}/{}", any(&rule.partitions), any(&rule.namespaces)),
    };
    let prefixes = rule.name_prefixes.iter().map(|prefix| format!("{prefix}*"));
    let names: Vec<_> = rule.names.iter().cloned().chain(prefixes).collect();
    let names = if names.is_empty() { String::new() } else { format!(":{}", names.join(",")) };
    let effect = if rule.deny { "deny" } else { "allow" };
    format!("{effect} {}:{}{place}{names}", rule.verbs.join(","), rule.types.join(","))
}

fn table(all: &[Stored<data::Policy>]) -> Table {
    let mut table = Table::new(["name", "rules", "description"]);
    table.row(vec![GLOBAL_MANAGEMENT.into(), "allow everything".into(), "always exists".into()]);
    for policy in all {
        let written = policy.data.rules.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        let rules: Vec<_> = policy.data.type_rules.iter().map(rule_text).chain(written).collect();
        table.row(vec![policy.name().into(), rules.join("; ").into(), policy.data.description.as_str().into()]);
    }
    table
}

fn show(policy: &Stored<data::Policy>) -> String {
    let data = &policy.data;
    let mut out = format!("{:<14}{}\n", "name", policy.name());
    if !data.description.is_empty() {
        out.push_str(&format!("{:<14}{}\n", "description", data.description));
    }
    for rule in &data.type_rules {
        out.push_str(&format!("{:<14}{}\n", "type rule", rule_text(rule)));
    }
    if !data.rules.trim().is_empty() {
        out.push_str(&format!("rules\n{}\n", data.rules.trim_end()));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_shown_alike() {
        for text in [
            "read:*",
            "read,list:demo/*,edge/Route",
            "write:demo.v2.Artist@default/blue",
            "delete:demo/Artist@*/blue",
            "read:demo/Artist:korn,a*",
        ] {
            let rule = type_rule(text, false).unwrap();
            assert_eq!(rule_text(&rule), format!("allow {text}"));
        }
        assert_eq!(rule_text(&type_rule("read:*@p", true).unwrap()), "deny read:*@p/*");
        for text in ["", "read", "read:", ":demo/*", "read:a:b:c", "read,:*", "read:*:"] {
            assert!(type_rule(text, false).is_err(), "{text}");
        }
    }
}
