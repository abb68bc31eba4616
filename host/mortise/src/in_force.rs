//! The settings in force, as a configuration, with the origin of each: `mortise serve --print-config`, and those of a
//! running server, for `mortise debug`.
//!
//! # Contract
//! The text is TOML, and a server that reads it has the same settings, except for those of plugins: only their keys are
//! shown, in comments, since a plugin may take secrets there. Other settings name files and variables with secrets, and
//! hold none.

use toml::{Table, Value};

use mortise_cli::{CliError, Exit, ui};

use crate::{
    server_flags::Common,
    settings::{Config, Origin, Places, Reload, SECTIONS, Settings, Sources, examine},
};

/// Prints the settings.
pub(crate) fn print(common: Common) -> Result<Exit, CliError> {
    let env = |name: &str| std::env::var(name).ok();
    let wrong = |fault| CliError::because(Exit::Usage, fault);
    let settings = Settings::load(common.config.as_deref(), &env, common.flags.overrides()).map_err(wrong)?;
    let unprintable = |fault: toml::ser::Error| CliError::because(Exit::Failed, fault);
    ui::print(describe(&settings.config, &settings.reload).map_err(unprintable)?)?;
    Ok(Exit::Done)
}

/// Describes settings, each with the origin that it has now. Reads the file.
///
/// # Errors
/// A setting that TOML cannot say.
pub(crate) fn describe(config: &Config, source: &Reload) -> Result<String, toml::ser::Error> {
    let env = |name: &str| std::env::var(name).ok();
    let mut sources = Sources { file: source.file(), env: &env, flags: source.flags(), places: Places::default() };
    // Finds the places of the file's keys.
    examine(&mut sources);
    Ok(describe_table(&Table::try_from(config)?, &|key| sources.origin(key)))
}

/// Describes the settings of a table, section by section, in the order of `config.toml`.
fn describe_table(table: &Table, origin: &dyn Fn(&str) -> Origin) -> String {
    let mut out = String::new();
    for section in SECTIONS {
        let mut parts = section.name.split('.').filter(|part| !part.is_empty());
        let values = parts.try_fold(table, |within, part| within.get(part)?.as_table());
        let settings = section.settings.iter().filter_map(|setting| Some((setting.name, values?.get(setting.name)?)));
        let lines: Vec<_> = settings.map(|(name, value)| line(section.name, name, value, origin)).collect();
        block(&mut out, section.name, &lines);
    }
    for key in ["acl.certificates", "region.peers", "plugin"] {
        let named = key.split('.').try_fold(table, |within, part| within.get(part)?.as_table());
        for (name, value) in named.into_iter().flatten() {
            match value {
                Value::Table(settings) => named_table(&mut out, key, name, settings, origin),
                value => {
                    let lines = [line(key, name, value, origin)];
                    block(&mut out, key, &lines);
                }
            }
        }
    }
    out
}

/// A table with a name of the user's own. The values of a plugin's settings are left out.
fn named_table(out: &mut String, within: &str, name: &str, settings: &Table, origin: &dyn Fn(&str) -> Origin) {
    let key = format!("{within}.{name}");
    let mut lines = Vec::new();
    for (setting, value) in settings {
        match value {
            Value::Table(own) if within == "plugin" && setting == "settings" => {
                let hidden = |name: &String| {
                    let key = format!("{key}.settings.{name}");
                    format!("# settings.{} is set and not shown  # {}", quoted(name), text(&origin(&key)))
                };
                lines.extend(own.keys().map(hidden));
            }
            value => lines.push(line(&key, setting, value, origin)),
        }
    }
    block(out, &format!("{within}.{}", quoted(name)), &lines);
}

fn block(out: &mut String, header: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    if !header.is_empty() {
        out.push_str(&format!("\n[{header}]\n"));
    }
    for line in lines {
        out.push_str(line);
        out.push('\n');
    }
}

fn line(within: &str, name: &str, value: &Value, origin: &dyn Fn(&str) -> Origin) -> String {
    let key = if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") };
    format!("{} = {value}  # {}", quoted(name), text(&origin(&key)))
}

/// A key as TOML writes it.
fn quoted(name: &str) -> String {
    let is_bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if is_bare { name.to_owned() } else { Value::from(name).to_string() }
}

fn text(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".to_owned(),
        Origin::File(path, None) => path.display().to_string(),
        Origin::File(path, Some(place)) => format!("{}:{}", path.display(), place.line),
        Origin::Variable(name) => format!("environment variable {name}"),
        Origin::Flag(flag) => format!("flag {flag}"),
    }
}
