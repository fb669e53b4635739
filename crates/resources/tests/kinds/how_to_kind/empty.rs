//! Keeps a file empty.

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result, ResultExt, Watch};
use mgmt_value::Str;

/// Keeps a file empty.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "empty", blocking)]
pub struct Empty {
    /// The file; the resource's name if it is left out.
    pub path: Str,
}

impl Empty {
    fn path<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.path.is_empty() { name } else { &self.path }
    }
}

impl Kind for Empty {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        match self.path(name).starts_with(b"/") {
            true => Ok(()),
            false => Err(Invalid::field("path", "expected an absolute path")),
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        vec![Watch::Path { path: self.path(name).clone(), recursive: false }]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let path = self.path(&cx.id.name).as_path();
        let size = std::fs::metadata(path).context("cannot look at the file")?.len();
        if size == 0 {
            return Ok(Checked::Right);
        }
        if cx.apply {
            std::fs::write(path, b"").context("cannot empty the file")?;
        }
        Ok(Checked::Changed)
    }
}
