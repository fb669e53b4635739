//! The resource kinds: one file (or folder) each, and the registry of them all.

pub mod augeas;
pub mod cron;
pub mod crontab;
pub mod debconf;
pub mod deploy_tar;
pub mod exec;
pub mod exit;
pub mod file;
pub mod firewalld;
pub mod group;
pub mod gsettings;
pub mod gzip;
pub mod host;
pub mod hostname;
pub mod http;
pub mod ini;
pub mod json_edit;
pub mod kv;
pub mod line;
pub mod mount;
pub mod msg;
pub mod net;
pub mod noop;
pub mod nspawn;
pub mod panic;
pub mod password;
pub mod pippet;
pub mod pkg;
pub mod print;
pub mod remote;
pub mod schedule;
pub mod ssh_authorized_key;
pub mod ssh_known_host;
pub mod svc;
pub mod sysctl;
pub mod tar;
pub mod test;
pub mod tidy;
pub mod timer;
pub mod user;
pub mod value;

use mgmt_resource::{Registry, Schema, schema_of};

/// All kinds.
pub const KINDS: Registry = Registry::new(ALL);

const ALL: &[fn() -> &'static Schema] = &[
    schema_of::<augeas::Augeas>,
    schema_of::<cron::Cron>,
    schema_of::<crontab::Crontab>,
    schema_of::<debconf::Debconf>,
    schema_of::<deploy_tar::DeployTar>,
    schema_of::<exec::Exec>,
    schema_of::<exit::Exit>,
    schema_of::<file::File>,
    schema_of::<firewalld::Firewalld>,
    schema_of::<group::Group>,
    schema_of::<gsettings::Gsettings>,
    schema_of::<gzip::Gzip>,
    schema_of::<host::Host>,
    schema_of::<hostname::Hostname>,
    schema_of::<http::HttpServer>,
    schema_of::<http::HttpServerFile>,
    schema_of::<http::HttpServerFlag>,
    schema_of::<http::HttpServerProxy>,
    schema_of::<http::HttpServerUi>,
    schema_of::<http::HttpServerUiInput>,
    schema_of::<ini::Ini>,
    schema_of::<json_edit::JsonEdit>,
    schema_of::<kv::Kv>,
    schema_of::<line::Line>,
    schema_of::<mount::Mount>,
    schema_of::<msg::Msg>,
    schema_of::<net::Net>,
    schema_of::<noop::Noop>,
    schema_of::<nspawn::Nspawn>,
    schema_of::<panic::Panic>,
    schema_of::<password::Password>,
    schema_of::<pippet::Pippet>,
    schema_of::<pkg::Pkg>,
    schema_of::<print::Print>,
    schema_of::<remote::Remote>,
    schema_of::<schedule::Schedule>,
    schema_of::<ssh_authorized_key::SshAuthorizedKey>,
    schema_of::<ssh_known_host::SshKnownHost>,
    schema_of::<svc::Svc>,
    schema_of::<sysctl::Sysctl>,
    schema_of::<tar::Tar>,
    schema_of::<test::Test>,
    schema_of::<tidy::Tidy>,
    schema_of::<timer::Timer>,
    schema_of::<user::User>,
    schema_of::<value::Value>,
];
