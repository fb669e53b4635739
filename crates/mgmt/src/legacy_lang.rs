//! Flags that earlier versions had for programs in the language: they work or are ignored, with a warning.

/// What earlier versions did with a program instead of, or before, the command itself. None is shown in the help.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LegacySteps {
    #[arg(long, alias = "lp-update", hide = true)]
    pub(crate) update: bool,
    #[arg(long, alias = "lp-only-download", hide = true)]
    pub(crate) only_download: bool,
    #[arg(long, alias = "lp-only-unify", hide = true)]
    pub(crate) only_unify: bool,
}

impl LegacySteps {
    /// Modules are to be downloaded first.
    pub(crate) fn downloads(&self) -> bool {
        self.only_download || self.update
    }

    pub(crate) fn is_any(&self) -> bool {
        self.downloads() || self.only_unify
    }

    /// What replaced the flags that were given.
    pub(crate) fn warnings(&self, command: &str) -> Vec<String> {
        [
            (
                self.only_download,
                format!("`{command} --only-download lang PATH` is written `mgmt get PATH` now"),
            ),
            (self.update, "`--update` is written `mgmt get --update PATH` now".to_owned()),
            (self.only_unify, format!("`{command} --only-unify lang PATH` is written `mgmt check PATH` now")),
        ]
        .into_iter()
        .filter_map(|(is_given, warning)| is_given.then_some(warning))
        .collect()
    }
}

/// Flags of a type checker and of a downloader that were replaced. None is shown in the help.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LegacyIgnored {
    #[arg(long, alias = "lp-skip-unify", hide = true)]
    skip_unify: bool,
    #[arg(long, alias = "lp-unify-name", value_name = "NAME", hide = true)]
    unify_name: Option<String>,
    #[arg(long, alias = "lp-unify-optimizations", value_name = "NAME", value_delimiter = ',', hide = true)]
    unify_optimizations: Vec<String>,
    #[arg(long, alias = "lp-depth", value_name = "COUNT", allow_negative_numbers = true, hide = true)]
    depth: Option<i64>,
    #[arg(long, alias = "lp-retry", value_name = "COUNT", allow_negative_numbers = true, hide = true)]
    retry: Option<i64>,
}

impl LegacyIgnored {
    /// Why the flags that were given have no effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        [
            (self.skip_unify, "--skip-unify", "types are always checked"),
            (self.unify_name.is_some(), "--unify-name", "there is one type checker"),
            (!self.unify_optimizations.is_empty(), "--unify-optimizations", "there is one type checker"),
            (self.depth.is_some(), "--depth", "imports of downloaded modules have no limit of depth"),
            (self.retry.is_some(), "--retry", "a download that fails is an error; run `mgmt get` again"),
        ]
        .into_iter()
        .filter(|(is_given, ..)| *is_given)
        .map(|(_, flag, why)| no_effect(flag, why))
        .collect()
    }
}

/// A flag is accepted and does nothing.
pub(crate) fn no_effect(flag: &str, why: &str) -> String {
    format!("`{flag}` has no effect: {why}")
}
