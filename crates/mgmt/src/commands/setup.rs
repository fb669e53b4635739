//! `mgmt setup`: what a host needs so that the program runs there as a service.

mod firstboot;
mod pkg;
mod svc;
mod systemd;
mod unit;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Prepare this host: packages, the service, scripts for the first boot
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Pkg(pkg::Arguments),
    Svc(svc::Arguments),
    Firstboot(firstboot::Arguments),
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    match &arguments.what {
        What::Pkg(arguments) => pkg::run(arguments, terminal),
        What::Svc(arguments) => svc::run(arguments),
        What::Firstboot(arguments) => firstboot::run(arguments),
    }
}
