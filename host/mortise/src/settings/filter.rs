//! `log.level` as a filter.

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

use super::{
    error::{FilterError, SettingError},
    table::Log,
};

/// Targets of libraries that log each frame and each poll: they are quiet below `info` unless the filter names them.
const NOISY: [&str; 7] = ["h2", "hyper", "hyper_util", "mio", "rustls", "tonic", "tower"];

/// The target of spans: requests, and the hooks within them.
const SPANS: &str = "mortise::span=debug";

impl Log {
    /// The filter of the log. `log.level` is a level or a filter such as `info,plugin=debug`; spaces around its parts
    /// do not count.
    ///
    /// With debug and trace, libraries that log each frame of HTTP/2 stay at info, unless the filter names them.
    ///
    /// A word by itself must be a level. As a target, `inf` would log nothing at all, errors included; so a target
    /// needs a level.
    pub(crate) fn filter(&self) -> Result<EnvFilter, SettingError> {
        let refused = |source| SettingError::LogLevel { level: self.level.clone(), source };
        let mut parts: Vec<&str> = self.level.split(',').map(str::trim).collect();
        let is_lone = |part: &&&str| !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err();
        if let Some(word) = parts.iter().find(is_lone) {
            return Err(refused(FilterError::LoneWord { word: (*word).to_owned() }));
        }
        let quiet = NOISY.map(|target| format!("{target}=info"));
        if let Some(level) = parts.iter().find_map(|part| part.parse::<LevelFilter>().ok())
            && level > LevelFilter::INFO
        {
            let is_named = |target: &str| parts.iter().any(|part| part.split(['=', '[', ':']).next() == Some(target));
            let unnamed: Vec<&String> =
                NOISY.into_iter().zip(&quiet).filter(|(target, _)| !is_named(target)).map(|(_, part)| part).collect();
            parts.extend(unnamed.into_iter().map(String::as_str));
        }
        if self.spans {
            parts.push(SPANS);
        }
        EnvFilter::try_new(parts.join(",")).map_err(|e| refused(e.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused_and_not_taken_for_a_target() {
        let filter = |level: &str| Log { level: level.into(), spans: true }.filter().map_err(|e| e.to_string());
        for level in ["info", "WARN", "off", "5", "info,plugin=debug", "info, plugin=debug", "warn,[rpc]=info", ""] {
            assert!(filter(level).is_ok(), "{level}");
        }
        for (level, word) in [("inf", "inf"), ("info,plugin", "plugin"), ("6", "6"), ("warn, eror", "eror")] {
            let fault = filter(level).unwrap_err();
            assert!(
                fault.starts_with(&format!("log.level {level:?} is not a filter: {word:?} is not a level, ")),
                "{fault}"
            );
            assert!(fault.ends_with("use error, warn, info, debug or trace"), "{fault}");
        }
        let debug = filter("debug,hyper=debug").unwrap().to_string();
        assert!(debug.contains("h2=info") && debug.contains("hyper=debug") && !debug.contains("hyper=info"), "{debug}");
        assert!(!filter("info").unwrap().to_string().contains("h2"));
        let spaced = filter("info, plugin=debug").unwrap().to_string();
        assert!(spaced.contains("plugin=debug") && !spaced.contains(' '), "{spaced}");
    }
}
