//! What a declaration has to fulfil. Only the parameters are looked at, never the host.

use mgmt_resource::{Invalid, Result};
use mgmt_sys::process::Signal;
use mgmt_value::Str;

use super::Exec;

pub(super) fn validate(exec: &Exec, name: &Str) -> Result<(), Invalid> {
    no_nul(exec, name)?;
    commands(exec, name)?;
    environment(exec)?;
    signal(exec)?;
    let creates = Some(&exec.creates).filter(|path| !path.is_empty()).map(|path| ("creates", path));
    let watched = exec.watchfiles.iter().map(|path| ("watchfiles", path));
    let newer = exec.mtimes.iter().map(|path| ("mtimes", path));
    let made = exec.paths.iter().map(|path| ("paths", path));
    for (field, path) in watched.chain(newer).chain(creates).chain(made) {
        if !path.starts_with(b"/") {
            return Err(Invalid::field(field, format!("expected an absolute path, found {path:?}"))
                .with_hint(
                    "a path starts with a slash; a directory to watch as a whole ends with one as well",
                ));
        }
    }
    Ok(())
}

fn commands(exec: &Exec, name: &Str) -> Result<(), Invalid> {
    for line in exec.lines(name) {
        if line.words().is_empty() {
            return Err(Invalid::field(line.field, "the command is blank, expected a program")
                .with_hint("leave it out, or write a program and its arguments"));
        }
    }
    if exec.args.is_empty() {
        return Ok(());
    }
    if !exec.shell.is_empty() {
        return Err(Invalid::field("args", "a command for a `shell` can't have `args`")
            .with_hint("write the arguments into `cmd`, or leave `shell` out"));
    }
    let words = exec.main_line(name).words();
    if words.len() > 1 {
        return Err(Invalid::field(
            "cmd",
            format!(
                "with `args` it is the program alone, but {:?} is {} words",
                exec.command(name),
                words.len()
            ),
        )
        .with_hint("move all words but the first to the start of `args`"));
    }
    Ok(())
}

fn environment(exec: &Exec) -> Result<(), Invalid> {
    for name in exec.env.reveal().0.keys() {
        let wrong = match name.first() {
            None => "a variable needs a name".to_owned(),
            Some(b'0'..=b'9') => format!("the name of a variable can't start with a digit, found {name:?}"),
            _ if name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_') => continue,
            _ => format!("the name of a variable is letters, digits and underscores, found {name:?}"),
        };
        return Err(Invalid::field("env", wrong));
    }
    Ok(())
}

fn signal(exec: &Exec) -> Result<(), Invalid> {
    if exec.sig.is_empty() {
        return Ok(());
    }
    match Signal::parse(&exec.sig.to_text()) {
        Ok(_) => Ok(()),
        Err(unknown) => Err(Invalid::field("sig", unknown.to_string())),
    }
}

/// The system ends a text at the first NUL.
fn no_nul(exec: &Exec, name: &Str) -> Result<(), Invalid> {
    let texts = [
        ("cmd", exec.command(name)),
        ("cwd", &exec.cwd),
        ("shell", &exec.shell),
        ("watchcmd", &exec.watchcmd),
        ("watchcwd", &exec.watchcwd),
        ("watchshell", &exec.watchshell),
        ("ifcmd", &exec.ifcmd),
        ("ifcwd", &exec.ifcwd),
        ("ifshell", &exec.ifshell),
        ("nifcmd", &exec.nifcmd),
        ("nifcwd", &exec.nifcwd),
        ("nifshell", &exec.nifshell),
        ("creates", &exec.creates),
        ("donecmd", &exec.donecmd),
        ("donecwd", &exec.donecwd),
        ("doneshell", &exec.doneshell),
        ("refreshcmd", &exec.refreshcmd),
        ("refreshcwd", &exec.refreshcwd),
        ("refreshshell", &exec.refreshshell),
        ("user", &exec.user),
        ("group", &exec.group),
    ];
    let lists = [
        ("args", &exec.args),
        ("watchfiles", &exec.watchfiles),
        ("mtimes", &exec.mtimes),
        ("paths", &exec.paths),
    ];
    let lists = lists.iter().flat_map(|(field, list)| list.iter().map(move |text| (*field, text)));
    let values = exec.env.reveal().0.values().map(|value| ("env", value));
    for (field, text) in texts.into_iter().chain(lists).chain(values) {
        if text.contains(&0) {
            // Not shown: a value of `env` may be secret.
            return Err(Invalid::field(field, "it holds a NUL byte, which no command or path can hold"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Exec {
        Exec { cmd: "/bin/true".into(), ..Exec::default() }
    }

    fn refused(exec: &Exec) -> Invalid {
        validate(exec, &"name".into()).expect_err("should be refused")
    }

    #[test]
    fn a_plain_command_is_accepted_and_the_name_stands_for_it() {
        assert_eq!(validate(&good(), &"name".into()), Ok(()));
        assert_eq!(validate(&Exec::default(), &"/bin/true with words".into()), Ok(()));
        let args = Exec { args: vec!["a b".into(), Str::EMPTY], ..good() };
        assert_eq!(validate(&args, &"name".into()), Ok(()));
    }

    #[test]
    fn a_blank_command_is_refused() {
        assert_eq!(refused(&Exec { cmd: " \t\n".into(), ..good() }).field, Some("cmd"));
        assert_eq!(validate(&Exec::default(), &" ".into()).unwrap_err().field, Some("cmd"));
        assert_eq!(refused(&Exec { ifcmd: " ".into(), ..good() }).field, Some("ifcmd"));
        assert_eq!(refused(&Exec { nifcmd: " ".into(), ..good() }).field, Some("nifcmd"));
        assert_eq!(refused(&Exec { watchcmd: " ".into(), ..good() }).field, Some("watchcmd"));
        assert_eq!(refused(&Exec { donecmd: " ".into(), ..good() }).field, Some("donecmd"));
    }

    #[test]
    fn arguments_go_with_a_single_word_and_no_shell() {
        let args = vec![Str::from("a")];
        let shell = Exec { args: args.clone(), shell: "/bin/sh".into(), ..good() };
        assert_eq!(refused(&shell).field, Some("args"));
        let words = refused(&Exec { cmd: "/bin/echo b".into(), args: args.clone(), ..good() });
        assert_eq!(words.field, Some("cmd"));
        assert!(words.message.contains("2 words"), "{words}");
        let name = validate(&Exec { args, ..Exec::default() }, &"/bin/echo b".into());
        assert_eq!(name.unwrap_err().field, Some("cmd"));
    }

    #[test]
    fn names_of_variables_are_checked_and_values_never_shown() {
        for wrong in ["", "1A", "A-B", "A B", "A=B", "Ä"] {
            let invalid = refused(&Exec { env: [(wrong, "canary")].into_iter().collect(), ..good() });
            assert_eq!(invalid.field, Some("env"), "{wrong}");
            assert!(!invalid.to_string().contains("canary"));
        }
        let right = [("PATH", "/bin"), ("_a1", ""), ("lower", "x=y")].into_iter().collect();
        assert_eq!(validate(&Exec { env: right, ..good() }, &"name".into()), Ok(()));
        let shown = format!("{:?}", Exec { env: [("TOKEN", "canary")].into_iter().collect(), ..good() });
        assert!(shown.contains("env: (secret)") && !shown.contains("canary"), "{shown}");
        let nul = refused(&Exec { env: [("A", "canary\0")].into_iter().collect(), ..good() });
        assert!(!nul.to_string().contains("canary"));
    }

    #[test]
    fn a_signal_is_a_full_name_and_the_right_spelling_is_suggested() {
        assert_eq!(validate(&Exec { sig: "SIGINT".into(), ..good() }, &"name".into()), Ok(()));
        for wrong in ["INT", "sigint", "int", "2"] {
            let invalid = refused(&Exec { sig: wrong.into(), ..good() });
            assert_eq!(invalid.field, Some("sig"));
            assert!(invalid.message.contains("\"SIGINT\""), "{invalid}");
        }
        assert!(refused(&Exec { sig: "SIGNOPE".into(), ..good() }).message.contains("SIGTERM"));
    }

    #[test]
    fn paths_are_absolute() {
        let wrong = || vec![Str::from("/ok"), "rel".into()];
        assert_eq!(refused(&Exec { watchfiles: wrong(), ..good() }).field, Some("watchfiles"));
        assert_eq!(refused(&Exec { mtimes: wrong(), ..good() }).field, Some("mtimes"));
        assert_eq!(refused(&Exec { paths: wrong(), ..good() }).field, Some("paths"));
        assert_eq!(refused(&Exec { mtimes: vec![Str::EMPTY], ..good() }).field, Some("mtimes"));
        assert_eq!(refused(&Exec { creates: "rel".into(), ..good() }).field, Some("creates"));
    }

    #[test]
    fn a_nul_byte_is_refused_everywhere() {
        let nul = || Str::from("/a\0b");
        let cases = [
            (Exec { cmd: nul(), ..good() }, "cmd"),
            (Exec { args: vec![nul()], ..good() }, "args"),
            (Exec { cwd: nul(), ..good() }, "cwd"),
            (Exec { ifcmd: nul(), ..good() }, "ifcmd"),
            (Exec { creates: nul(), ..good() }, "creates"),
            (Exec { mtimes: vec![nul()], ..good() }, "mtimes"),
            (Exec { user: nul(), ..good() }, "user"),
        ];
        for (exec, field) in cases {
            assert_eq!(refused(&exec).field, Some(field));
        }
    }
}
