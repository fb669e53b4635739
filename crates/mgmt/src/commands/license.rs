//! `mgmt --license`

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

const TERMS: &str = "\
mgmt is free software. You may use it under the terms of either of these, at your option:

  the MIT license, https://opensource.org/license/mit
  the Apache license, version 2.0, https://www.apache.org/licenses/LICENSE-2.0

It comes without any warranty, to the extent that the law permits.
";

pub(crate) fn run(terminal: &Terminal) -> Result<Exit, Failure> {
    terminal.data(TERMS);
    Ok(Exit::OK)
}
