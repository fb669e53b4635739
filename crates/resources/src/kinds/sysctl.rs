//! `sysctl`: settings of the kernel.
//!
//! [`Sysctl`] is the declaration. `key` reads the name of a setting, `kernel` reads, writes and watches it.

mod kernel;
mod key;

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Needed, Nothing, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use self::key::Key;
use crate::support::text_file::TextFile;

/// The longest value: what the kernel takes and gives at once.
const LONGEST: usize = 4095;
const MODE: u32 = 0o644;

/// Sets a parameter of the kernel, now and after every boot.
///
/// The name of the resource is the name of the parameter, as `sysctl` has it: `net.ipv4.ip_forward`. A dot that belongs to a
/// part of the name is written as a slash, or all dots as slashes and this one as a dot: `net.ipv4.conf.eth0/7.forwarding`,
/// `net/ipv4/conf/eth0.7/forwarding`.
///
/// Values with several parts may be separated by any white space. When somebody writes to the parameter, or changes the
/// file, it is put right at once. What the kernel changes by itself is not told.
///
/// ```mcl
/// sysctl "net.ipv4.ip_forward" {
///     value => "1",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "sysctl", edges, receive, blocking)]
pub struct Sysctl {
    /// The value, as the kernel shows it.
    pub value: Str,
    /// Set it now.
    pub runtime: bool,
    /// Set it at every boot, by a file with nothing else in it.
    pub persist: bool,
    /// The file. If it is left out, it is `/etc/sysctl.d/99-NAME.conf`.
    pub path: Str,
}

impl Default for Sysctl {
    fn default() -> Sysctl {
        Sysctl { value: Str::EMPTY, runtime: true, persist: true, path: Str::EMPTY }
    }
}

impl Kind for Sysctl {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let key = Key::read(name)?;
        let value = |message: &str| Err(Invalid::field("value", message));
        if self.value.is_empty() {
            return value("is missing; expected what the parameter is to be");
        }
        if self.value.trim_ascii().len() != self.value.len() {
            return value("has white space at its beginning or end");
        }
        if self.value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return value("has a control character");
        }
        if self.value.len() > LONGEST {
            return value("is too long for the kernel");
        }
        if !self.runtime && !self.persist {
            return Err(Invalid::new("neither `runtime` nor `persist` is true, so there is nothing to do"));
        }
        if self.persist {
            let path = self.managed_path(&key)?;
            if !path.as_bytes().ends_with(b".conf") {
                return Err(Invalid::field("path", format!("{:?} does not end in `.conf`", self.path))
                    .with_hint("other files are not read when the host boots"));
            }
        }
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        // Such a name does not get past validation.
        let Ok(key) = Key::read(name) else { return Vec::new() };
        let file = self.persist.then(|| self.managed_path(&key).ok()).flatten();
        let file = file.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false });
        self.runtime.then(|| kernel::watch(&key)).into_iter().chain(file).collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let key = Key::read(&cx.id.name).map_err(Error::new)?;
        let runtime = if self.runtime { self.set(&key, cx)? } else { Checked::Right };
        let persist = if self.persist { self.store(&key, cx)? } else { Checked::Right };
        Ok(runtime.and(persist))
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        self.file(name).map(Identity::Path).into_iter().collect()
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        self.file(name).map(Want::ParentOf).into_iter().collect()
    }

    fn equivalent(&self, name: &Str, other: &Sysctl) -> bool {
        let plain = |sysctl: &Sysctl| {
            let value = kernel::normal(&sysctl.value);
            (value, sysctl.runtime, sysctl.persist, sysctl.file(name))
        };
        self == other || plain(self) == plain(other)
    }
}

impl Sysctl {
    fn set(&self, key: &Key, cx: &Context<'_>) -> Result<Checked> {
        let wanted = kernel::normal(&self.value);
        let present = kernel::normal(&kernel::read(key)?);
        if present == wanted {
            return Ok(Checked::Right);
        }
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        let effect = Effect::change(key.dotted()).before(text(&present)).after(text(&wanted));
        cx.describe(effect.presumed());
        if !cx.apply {
            if cx.foreseen.is_some() && !cx.may_come(Needed::Other) {
                kernel::check_writable(key)?;
            }
            return Ok(Checked::Changed);
        }
        kernel::write(key, &self.value)?;
        let taken = kernel::read(key)?;
        if kernel::normal(&taken) != wanted {
            return Err(Error::new(format_args!(
                "the kernel has made {:?} of {:?}",
                Str::new(taken.trim_ascii()),
                self.value
            ))
            .with_hint("write the value as the kernel shows it; some parameters have limits"));
        }
        cx.info(format_args!("set to {}", self.value.display()));
        Ok(Checked::Changed)
    }

    fn store(&self, key: &Key, cx: &Context<'_>) -> Result<Checked> {
        let path = self.managed_path(key).map_err(Error::new)?;
        let wanted = [key.dotted().as_bytes(), b" = ", self.value.as_bytes(), b"\n"].concat();
        let file = TextFile { path, owner: None, mode: MODE, in_place: InPlace::Refuse };
        let checked = file.edit(cx, |content| (content != Some(&wanted)).then(|| wanted.clone()))?;
        if checked == Checked::Changed && cx.apply {
            cx.info(format_args!("stored in {}", file.path));
        }
        Ok(checked)
    }

    /// The file, if there is to be one.
    fn file(&self, name: &Str) -> Option<Str> {
        let key = Key::read(name).ok().filter(|_| self.persist)?;
        Some(self.managed_path(&key).ok()?.as_bytes().into())
    }

    fn managed_path(&self, key: &Key) -> Result<ManagedPath, Invalid> {
        let path = match self.path.is_empty() {
            true => Str::from(format!("/etc/sysctl.d/99-{}.conf", key.dotted().replace('/', "-"))),
            false => self.path.clone(),
        };
        ManagedPath::new(path).map_err(|error| Invalid::field("path", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysctl(value: &str) -> Sysctl {
        Sysctl { value: value.into(), ..Sysctl::default() }
    }

    fn refused(sysctl: &Sysctl, name: &str) -> Invalid {
        Kind::validate(sysctl, &name.into()).unwrap_err()
    }

    #[test]
    fn bad_parameters_are_refused() {
        for wrong in ["", " 1", "1\n", "1\0", "a\nb", &"1".repeat(5000)] {
            assert_eq!(refused(&sysctl(wrong), "vm.swappiness").field, Some("value"), "{wrong:?}");
        }
        let neither = Sysctl { runtime: false, persist: false, ..sysctl("1") };
        assert!(refused(&neither, "vm.swappiness").message.contains("nothing to do"));
        for wrong in ["etc/a.conf", "/etc/a", "/etc/a.conf/"] {
            let wrong = Sysctl { path: wrong.into(), ..sysctl("1") };
            assert_eq!(refused(&wrong, "vm.swappiness").field, Some("path"), "{wrong:?}");
            let unused = Sysctl { persist: false, ..wrong };
            assert!(Kind::validate(&unused, &"vm.swappiness".into()).is_ok());
        }
        assert!(refused(&sysctl("1"), "a..b").message.contains("a..b"));
    }

    #[test]
    fn the_file_has_the_name_of_the_parameter() {
        let at = |name: &str| Kind::provides(&sysctl("1"), &name.into());
        let path = |path: &str| vec![Identity::Path(path.into())];
        assert_eq!(at("vm.swappiness"), path("/etc/sysctl.d/99-vm.swappiness.conf"));
        assert_eq!(at("vm/swappiness"), path("/etc/sysctl.d/99-vm.swappiness.conf"));
        assert_eq!(at("net.conf.eth0/7.x"), path("/etc/sysctl.d/99-net.conf.eth0-7.x.conf"));
        assert!(Kind::provides(&Sysctl { persist: false, ..sysctl("1") }, &"a.b".into()).is_empty());
    }

    #[test]
    fn other_white_space_is_the_same_declaration() {
        let name = Str::from("net.ipv4.tcp_rmem");
        assert!(sysctl("4096 1 2").equivalent(&name, &sysctl("4096\t1  2")));
        assert!(!sysctl("4096 1 2").equivalent(&name, &sysctl("4096 12")));
        let spelled = Sysctl { path: "/etc/sysctl.d/99-net.ipv4.tcp_rmem.conf".into(), ..sysctl("1") };
        assert!(sysctl("1").equivalent(&name, &spelled));
        assert!(!sysctl("1").equivalent(&name, &Sysctl { runtime: false, ..spelled }));
    }
}
