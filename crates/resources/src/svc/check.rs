use mgmt_resource::{Checked, Context, Error, Result};

use super::Svc;

pub(super) async fn check(_: &Svc, _: &mut Context<'_>) -> Result<Checked> {
    Err(Error::new("services cannot be managed yet"))
}
