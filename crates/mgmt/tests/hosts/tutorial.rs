//! The tutorial from a fresh machine, start to finish, on hosts that were booted for it: one like this machine, and one with nothing
//! on it.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::packaging::{EPOCH, stripped, tree};
use flate2::Compression;
use mgmt_release::{Release, deb, elf};
use mgmt_test_support::pages::{Step, steps};
use mgmt_test_support::program::EVENT_TIMEOUT;

/// As the page calls it.
const PACKAGE: &str = "mgmt_0.1.0-1_amd64.deb";

#[test]
fn a_service_repairs_itself_as_the_page_says() {
    if booted_host::is_booted() {
        return on_a_booted_host();
    }
    given(|files| {
        booted_host::on_booted_host_with("a_service_repairs_itself_as_the_page_says", files);
    });
}

/// What this machine has installed is no help there.
#[test]
fn a_debian_with_nothing_on_it_is_enough() {
    if booted_host::is_booted() {
        let tools = ["cargo", "curl", "etcd", "git", "ip", "python3", "ruby", "ssh"];
        let found: Vec<&str> =
            tools.into_iter().filter(|tool| sh(&format!("command -v {tool}")).status.success()).collect();
        assert!(found.is_empty(), "{found:?}");
        return on_a_booted_host();
    }
    given(|files| booted_host::on_clean_host_with("a_debian_with_nothing_on_it_is_enough", files));
}

/// The package and the page.
fn given(boots: impl FnOnce(&[(&str, &Path)])) {
    let place = tempfile::tempdir().unwrap();
    let (binary, release) = (stripped(place.path()), Release::new(env!("CARGO_PKG_VERSION"), EPOCH));
    let needs = elf::needs(&std::fs::read(&binary).unwrap()).unwrap();
    assert_eq!(deb::file_name(&release, &needs), PACKAGE, "the page has another name for it");
    let package = place.path().join(PACKAGE);
    let content = deb::write(&tree(&binary, &release), &release, &needs, Compression::fast()).unwrap();
    std::fs::write(&package, content).unwrap();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial/self-repairing-service.md");
    boots(&[(PACKAGE, &package), ("page.md", &page)]);
}

fn sh(commands: &str) -> Output {
    // What somebody has who has just logged in.
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).current_dir("/root").env_clear().env("HOME", "/root");
    shell.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap()
}

fn on_a_booted_host() {
    // Machines that build keep services from starting, and index manual pages for half a minute.
    let fresh = sh(
        "rm -rf /usr/sbin/policy-rc.d /var/lib/man-db/auto-update /var/lib/mgmt /etc/mgmt; ! command -v mgmt",
    );
    assert!(fresh.status.success(), "{fresh:?}");
    std::fs::copy(format!("/mgmt-test-result/{PACKAGE}"), format!("/root/{PACKAGE}")).unwrap();
    let page = std::fs::read_to_string("/mgmt-test-result/page.md").unwrap();
    let mut count = 0;
    for step in steps(&page) {
        count += 1;
        match step {
            Step::File(name, content) => std::fs::write(Path::new("/root").join(name), content).unwrap(),
            Step::Run(code, commands) => {
                // Somebody may break a thing in the moment in which it is repaired, and has to do it again.
                let mut last = None;
                let mut is_done = || {
                    let output = sh(&commands);
                    let is_done = output.status.code() == Some(code);
                    last = Some(output);
                    is_done
                };
                let tries = (0..3).any(|_| is_done());
                assert!(tries, "{commands}: {last:?}");
            }
            Step::Shows(text, commands) => {
                let until = Instant::now() + EVENT_TIMEOUT;
                loop {
                    let output = sh(&commands);
                    if output.status.success() && String::from_utf8_lossy(&output.stdout).contains(&text) {
                        break;
                    }
                    let journal = || {
                        String::from_utf8_lossy(&sh("journalctl --no-pager --lines=80").stdout).into_owned()
                    };
                    assert!(
                        Instant::now() < until,
                        "`{commands}` does not show `{text}`: {output:?}\n{}",
                        journal()
                    );
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
        }
    }
    assert!(count >= 20, "only {count} steps");
    // Nothing was left out: every block of commands of the page is a step.
    assert_eq!(
        page.matches("```sh").count(),
        page.matches("<!-- run:").count() + page.matches("<!-- shows:").count()
    );
    assert!(sh("! command -v mgmt; ! test -e /var/lib/mgmt").status.success());
}
