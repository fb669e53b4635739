//! Checking programs that are in memory.

use mgmt_diagnostics::Diagnostic;
use mgmt_lang::module::{Entry, Memory};
use mgmt_lang::{Checked, Environment, Onlooker};
use mgmt_resource::ResourceGraph;
use mgmt_resources::KINDS;

/// Checks `/main.mcl`, with lints.
pub(crate) fn checked(files: &Memory) -> Checked {
    let environment =
        Environment { kinds: &KINDS, library: mgmt_funcs::library(), files, module_path: None, lints: true };
    mgmt_lang::check(&Entry::File("/main.mcl".into()), &environment).unwrap()
}

/// Evaluates a program that checks.
pub(crate) fn evaluated(checked: &Checked, files: &Memory) -> Result<ResourceGraph, Vec<Diagnostic>> {
    mgmt_lang::evaluate(checked, &KINDS, &Onlooker::new(files, checked.deploy.clone(), "host".into()))
}
