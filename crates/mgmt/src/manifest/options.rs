//! How Puppet is run: its file of settings, settings by name, and the order of what it has no order for.

use std::path::{Path, PathBuf};

use mgmt_puppet::Ordering;
use mgmt_puppet_process::{Input, Settings};

use crate::failure::Failure;

/// The flags of every command that has Puppet compile something. What they say counts more than Puppet's file of settings, and
/// reaches every process of Puppet.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Puppet")]
pub(crate) struct PuppetArguments {
    /// Puppet's file of settings [default: the usual one]
    #[arg(long, alias = "lp-puppet-conf", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) puppet_conf: Option<PathBuf>,

    /// The environment to compile in [default: as in Puppet's settings]
    #[arg(long, value_name = "NAME")]
    pub(crate) puppet_environment: Option<String>,

    /// Where Puppet's modules are, as directories with colons between them [default: as in Puppet's settings]
    #[arg(long, value_name = "DIRECTORIES")]
    pub(crate) puppet_modulepath: Option<String>,

    /// Where Puppet's code and data are: environments, modules, Hiera [default: as in Puppet's settings]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    pub(crate) puppet_codedir: Option<PathBuf>,

    /// What Puppet calls this host [default: as in Puppet's settings]
    #[arg(long, value_name = "NAME")]
    pub(crate) puppet_certname: Option<String>,

    /// Hiera's file of settings for all environments [default: as in Puppet's settings]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) puppet_hiera_config: Option<PathBuf>,

    /// How often to look at what has no events, and to ask a server again: seconds, or `30m`, `6h`, `1d` [default: as `runinterval` in
    /// Puppet's settings]
    #[arg(long, value_name = "TIME")]
    pub(crate) puppet_interval: Option<String>,

    /// In which order resources come that have none of their own. `manifest`: one after the other as they are written, for code
    /// that relies on it; it is slower, and what fails stops all that comes after it
    #[arg(long, value_name = "ORDER", default_value = "related")]
    pub(crate) puppet_ordering: OrderingArgument,

    /// Leave every resource to Puppet itself, to find out whether a difference is ours
    #[arg(long)]
    pub(crate) puppet_only: bool,
}

/// What is ours to decide, and not Puppet's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// In which order resources come that have none of their own.
    pub(super) ordering: Ordering,
    /// Everything is left to Puppet.
    pub(super) puppet_only: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OrderingArgument {
    /// At the same time, where nothing says otherwise
    #[default]
    Related,
    /// One after the other, as in the manifest
    Manifest,
}

impl From<OrderingArgument> for Ordering {
    fn from(argument: OrderingArgument) -> Ordering {
        match argument {
            OrderingArgument::Related => Ordering::Related,
            OrderingArgument::Manifest => Ordering::Manifest,
        }
    }
}

/// What stands for our own flags among the settings that go to other hosts. They are none of Puppet's.
const ORDERING: (&str, &str) = ("ordering", "manifest");
const PUPPET_ONLY: (&str, &str) = ("puppet_only", "true");

/// Settings that are for us: Puppet's processes that apply a resource do not need them.
const OURS: [&str; 3] = ["tags", "skip_tags", "runinterval"];

impl PuppetArguments {
    /// With nothing but a file.
    pub(crate) fn of_file(conf: Option<&Path>) -> PuppetArguments {
        PuppetArguments { puppet_conf: conf.map(Path::to_owned), ..PuppetArguments::default() }
    }

    /// What we decide.
    pub(super) fn way(&self) -> Way {
        Way { ordering: self.puppet_ordering.into(), puppet_only: self.puppet_only }
    }

    /// What a process of Puppet is started with.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let configuration = match &self.puppet_conf {
            Some(file) => Some(Some(absolute(file)).filter(|file| file.is_file()).ok_or_else(|| {
                Failure::usage(format!("there is no file `{}` for `--puppet-conf`", file.display()))
            })?),
            None => None,
        };
        let modulepath = self.puppet_modulepath.as_ref().map(|path| {
            let directories = path.split(':').filter(|directory| !directory.is_empty());
            let absolute = directories.map(|directory| absolute(Path::new(directory)).display().to_string());
            absolute.collect::<Vec<_>>().join(":")
        });
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| absolute(path).display().to_string());
        let given = [
            ("environment", self.puppet_environment.clone()),
            ("modulepath", modulepath),
            ("codedir", path(&self.puppet_codedir)),
            ("certname", self.puppet_certname.clone()),
            ("hiera_config", path(&self.puppet_hiera_config)),
            ("runinterval", self.puppet_interval.clone()),
        ];
        let mut options = Vec::new();
        for (name, value) in given {
            let Some(value) = value else { continue };
            if value.is_empty() || value.starts_with('-') {
                let flag = if name == "runinterval" { "interval" } else { name }.replace('_', "-");
                return Err(Failure::usage(format!("`--puppet-{flag} {value}`: this says nothing")));
            }
            options.push((name.to_owned(), value));
        }
        Ok(Settings { configuration, options, installation: None })
    }
}

/// Has `puppet:` addresses without a server mean files of this host's modules, as with `puppet apply`.
const LOCAL_FILES: (&str, &str) = ("default_file_terminus", "file_server");

/// The settings that a process of Puppet needs that applies a resource.
pub(super) fn for_applying(settings: &Settings, input: &Input) -> Vec<(String, String)> {
    let given = settings.options.iter().filter(|(name, _)| !OURS.contains(&name.as_str())).cloned();
    let local = (*input != Input::Agent).then(|| (LOCAL_FILES.0.to_owned(), LOCAL_FILES.1.to_owned()));
    given.chain(local).collect()
}

/// Settings and our own flags as a file of a package; nothing, if there is nothing to say.
pub(super) fn packed(settings: &Settings, way: Way) -> Option<Vec<u8>> {
    let mut options = settings.options.clone();
    let flags = [(way.ordering == Ordering::Manifest, ORDERING), (way.puppet_only, PUPPET_ONLY)];
    let given = flags.into_iter().filter(|(given, _)| *given);
    options.extend(given.map(|(_, (name, value))| (name.to_owned(), value.to_owned())));
    let is_some = !options.is_empty();
    is_some.then(|| mgmt_telemetry::json_line(&serde_json::json!(options)).into_bytes())
}

/// What such a file says. It comes from whoever may deploy; names are words, so that none of them is taken for something else.
pub(super) fn unpacked(content: &[u8]) -> Result<(Vec<(String, String)>, Way), Failure> {
    let wrong = || Failure::failed("Puppet's settings of the deploy cannot be read");
    let mut options: Vec<(String, String)> = serde_json::from_slice(content).map_err(|_| wrong())?;
    let is_word =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if !options.iter().all(|(name, value)| is_word(name) && !value.starts_with('-')) {
        return Err(wrong());
    }
    let mut take = |(name, value): (&str, &str)| {
        let before = options.len();
        options.retain(|option| (option.0.as_str(), option.1.as_str()) != (name, value));
        options.len() < before
    };
    let ordering = if take(ORDERING) { Ordering::Manifest } else { Ordering::Related };
    let way = Way { ordering, puppet_only: take(PUPPET_ONLY) };
    Ok((options, way))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_settings_with_absolute_paths() {
        let arguments = PuppetArguments {
            puppet_environment: Some("test".to_owned()),
            puppet_modulepath: Some("/a::b".to_owned()),
            puppet_interval: Some("1h".to_owned()),
            ..PuppetArguments::default()
        };
        let settings = arguments.settings().unwrap();
        let here = std::env::current_dir().unwrap();
        let expected = [
            ("environment", "test".to_owned()),
            ("modulepath", format!("/a:{}", here.join("b").display())),
            ("runinterval", "1h".to_owned()),
        ];
        assert_eq!(settings.options, expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(for_applying(&settings, &Input::Agent).len(), 2);
        assert_eq!(for_applying(&settings, &Input::Code(String::new())).len(), 3);
        for way in [
            Way { ordering: Ordering::Manifest, puppet_only: false },
            Way { ordering: Ordering::Related, puppet_only: true },
            Way { ordering: Ordering::Manifest, puppet_only: true },
            Way::default(),
        ] {
            let (options, found) = unpacked(&packed(&settings, way).unwrap()).unwrap();
            assert_eq!((options, found), (settings.options.clone(), way));
        }
        assert_eq!(packed(&Settings::default(), Way::default()), None);
    }

    #[test]
    fn what_says_nothing_is_refused() {
        for wrong in ["", "--color"] {
            let arguments =
                PuppetArguments { puppet_certname: Some(wrong.to_owned()), ..PuppetArguments::default() };
            assert!(arguments.settings().is_err(), "{wrong:?}");
        }
        let conf = PuppetArguments::of_file(Some(Path::new("/nowhere/puppet.conf")));
        assert!(conf.settings().is_err());
        for wrong in [&b"{"[..], br#"[["a b", "c"]]"#, br#"[["tags", "--color"]]"#, br#"[["--tags", "x"]]"#] {
            assert!(unpacked(wrong).is_err());
        }
    }
}
