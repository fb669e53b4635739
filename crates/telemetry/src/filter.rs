//! Which events are shown.

use std::fmt;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

/// Which events are shown: a level for all, and other levels for parts of the program.
///
/// Written as words separated by commas: `info`, or `info,engine=debug`. A part is a crate of this program without
/// its prefix (`engine`, `watch`, `resource`), or the full path of a module of any crate.
#[derive(Clone, Debug)]
pub struct Filter(pub(crate) Targets);

/// The levels by their words, quietest first.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

impl Default for Filter {
    fn default() -> Filter {
        Filter(Targets::new().with_default(LevelFilter::INFO))
    }
}

impl FromStr for Filter {
    type Err = BadFilter;

    fn from_str(text: &str) -> Result<Filter, BadFilter> {
        let mut targets = Targets::new().with_default(LevelFilter::INFO);
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (part, level) = match word.split_once('=') {
                Some((part, level)) => (Some(part.trim()), level.trim()),
                None => (None, word),
            };
            let level = level_of(level).ok_or_else(|| BadFilter(level.to_owned()))?;
            targets = match part {
                Some(part) => targets_of(part).fold(targets, |all, target| all.with_target(target, level)),
                None => targets.with_default(level),
            };
        }
        Ok(Filter(targets))
    }
}

fn level_of(word: &str) -> Option<LevelFilter> {
    let word = if word.eq_ignore_ascii_case("warning") { "warn" } else { word };
    LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, level)| *level)
}

/// What a part calls itself: by the path of its crate, or by its name below the program's.
fn targets_of(part: &str) -> impl Iterator<Item = String> {
    let (one, other) = match part {
        "main" => ("mgmt::commands".to_owned(), Some("mgmt::configuration".to_owned())),
        part if part.contains("::") || part.starts_with("mgmt") => (part.to_owned(), None),
        part => (format!("mgmt_{part}"), Some(format!("mgmt::{part}"))),
    };
    std::iter::once(one).chain(other)
}

/// A word that is no level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFilter(String);

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no log level; expected ", crate::Escaped(&self.0))?;
        for (at, (name, _)) in LEVELS.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{name}")?;
        }
        f.write_str(", or a list such as `info,engine=debug`")
    }
}

impl std::error::Error for BadFilter {}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_level_holds_for_all_and_a_part_may_have_its_own() {
        let filter: Filter = "warn, engine=debug".parse().unwrap();
        assert!(filter.0.would_enable("mgmt_engine::driver", &Level::DEBUG));
        assert!(filter.0.would_enable("mgmt::engine", &Level::DEBUG));
        assert!(!filter.0.would_enable("mgmt_watch", &Level::INFO));
        assert!(filter.0.would_enable("mgmt_watch", &Level::WARN));
    }

    #[test]
    fn nothing_said_means_info() {
        let filter: Filter = "".parse().unwrap();
        assert!(filter.0.would_enable("mgmt", &Level::INFO));
        assert!(!filter.0.would_enable("mgmt", &Level::DEBUG));
    }

    #[test]
    fn a_misspelt_level_is_an_error_that_names_the_levels() {
        let error = "verbos".parse::<Filter>().unwrap_err().to_string();
        assert!(error.contains("`verbos`") && error.contains("debug"), "{error}");
        assert!("engine=".parse::<Filter>().is_err());
    }
}
