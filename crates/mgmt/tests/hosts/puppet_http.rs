//! Files of Puppet that come from a web server, fetched by ourselves: the same ends up there as with `puppet apply`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use crate::puppet_server::make_certificates;
use crate::web_server::{Page, Web};
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt_output};
use rustix::process::Signal;
use sha2::{Digest as _, Sha256};

const NAME: &str = "web.example.com";
const LONG_AGO: &str = "Thu, 01 Jan 2004 00:00:00 GMT";

fn sum(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Puppet's settings: this authority is trusted, and a run comes every two seconds.
fn configure(place: &Path, authority: &Path) -> String {
    let ssl = place.join("ssl");
    std::fs::create_dir_all(ssl.join("certs")).unwrap();
    std::fs::copy(authority.join("ca.pem"), ssl.join("certs/ca.pem")).unwrap();
    let text = format!(
        "[main]\nssldir = {}\nvardir = {}\ncertname = {NAME}\n[agent]\nruninterval = 2\n",
        ssl.display(),
        place.join("var").display()
    );
    let file = place.join("puppet.conf");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn puppet_apply(conf: &str, manifest: &str) -> CommandOutput {
    let mut command = Command::new("puppet");
    command.args(["apply", "--color=false", "--detailed-exitcodes", "--config", conf, "-e", manifest]);
    command.env_remove("LC_ALL").output().unwrap().into()
}

fn once(conf: &str, manifest: &str) -> CommandOutput {
    let until =
        ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit", "--detailed-exitcode"];
    mgmt_output(&[&until[..], &["puppet", "--puppet-conf", conf, manifest]].concat())
}

/// Names, modes and contents of a directory.
fn tree(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut lines: Vec<String> = entries
        .map(|path| {
            let (mode, text) = (path.metadata().unwrap().mode(), std::fs::read_to_string(&path).unwrap());
            format!("{} {mode:o} {text:?}", path.file_name().unwrap().display())
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn what_comes_from_a_web_server_is_native_and_the_same_as_with_puppet() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    make_certificates(&at("certificates"), NAME);
    let web = Web::start(&at("certificates"));
    let conf = configure(&at("puppet"), &at("certificates"));
    web.put("/plain", Page::new("plain\n").with("last-modified", LONG_AGO).with("etag", "\"1\""));
    web.put("/secure", Page::new("secure\n"));
    web.put("/summed", Page::new("summed\n").with("x-checksum-sha256", &sum("summed\n")));
    web.put("/moved", Page::moved("/on"));
    web.put("/on", Page::moved(&format!("{}/secure", web.secure)));
    let manifest = |root: &Path| {
        format!(
            "File {{ ensure => file }}\n\
             file {{ 'ROOT/plain': source => 'PLAIN/plain' }}\n\
             file {{ 'ROOT/mode': source => 'PLAIN/plain', mode => '0640', owner => 0 }}\n\
             file {{ 'ROOT/secure': source => 'SECURE/secure' }}\n\
             file {{ 'ROOT/summed': source => 'PLAIN/summed' }}\n\
             file {{ 'ROOT/moved': source => 'PLAIN/moved' }}\n\
             file {{ 'ROOT/wanted': source => 'PLAIN/plain', checksum => sha256, checksum_value => '{}' }}\n\
             file {{ 'ROOT/short': source => 'PLAIN/plain', checksum => md5, checksum_value => '{}' }}\n\
             file {{ 'ROOT/second': source => ['PLAIN/none', '/none', 'SECURE/none'] }}\n\
             file {{ 'ROOT/third': source => ['PLAIN/none', 'SECURE/none', 'SECURE/secure'] }}\n\
             file {{ 'ROOT/here': source => ['/none', 'PLAIN/plain'] }}\n\
             file {{ 'ROOT/replaced': source => 'SECURE/secure', backup => '.old' }}\n\
             file {{ 'ROOT/stays': source => 'PLAIN/plain', replace => false }}\n",
            sum("plain\n"),
            "5839145a19c13f3ffb0a3b9527e0a912"
        )
        .replace("ROOT", root.to_str().unwrap())
        .replace("PLAIN", &web.plain)
        .replace("SECURE", &web.secure)
    };
    let (theirs, ours) = (at("theirs"), at("ours"));
    for root in [&theirs, &ours] {
        std::fs::create_dir(root).unwrap();
        std::fs::write(root.join("replaced"), "old").unwrap();
        std::fs::write(root.join("stays"), "old").unwrap();
    }
    // One that nobody has is one that fails, with both; it is left out of the rest.
    let without = |text: String| -> String {
        text.lines().filter(|line| !line.contains("/second'")).map(|line| format!("{line}\n")).collect()
    };
    let applied = puppet_apply(&conf, &without(manifest(&theirs)));
    assert_eq!(applied.code, 2, "{}{}", applied.stdout, applied.stderr);
    let run = once(&conf, &without(manifest(&ours)));
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert_eq!(tree(&ours), tree(&theirs), "{}", run.stderr);
    assert!(tree(&ours).contains(&"replaced 100644 \"secure\\n\"".to_owned()), "{:?}", tree(&ours));
    // Nothing is left to do, and only what has no name is sent again by a process that has no copy.
    assert_eq!(once(&conf, &without(manifest(&ours))).code, 0);
    let stats = mgmt_output(&["puppet", "stats", "--puppet-conf", &conf, &without(manifest(&ours))]);
    assert!(
        stats.stdout.contains("11 native\n") && stats.stdout.contains("0 left to Puppet"),
        "{}{}",
        stats.stdout,
        stats.stderr
    );
    // A list that has something of this host behind an address is for Puppet to choose from.
    let printed = mgmt_output(&["puppet", "print", "--puppet-conf", &conf, &manifest(&ours)]);
    assert!(printed.stdout.contains("is at an address, and may also be elsewhere"), "{}", printed.stdout);
}

#[test]
fn a_web_server_is_followed_and_may_be_away() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    make_certificates(&at("certificates"), NAME);
    let web = Web::start(&at("certificates"));
    let conf = configure(&at("puppet"), &at("certificates"));
    let out = at("out");
    let manifest = format!("file {{ '{}': source => '{}/a' }}", out.display(), web.secure);
    web.put("/a", Page::new("one\n").with("etag", "\"1\""));
    let mut run =
        RunningProgram::start(&["run", "--tmp-prefix", "puppet", "--puppet-conf", &conf, &manifest]);
    holds(&out, "one\n");
    // What has not changed is asked for, and not sent.
    let mut asked = Vec::new();
    eventually("it is asked again", || {
        asked.extend(web.asked());
        asked.iter().filter(|line| *line == "GET /a 304").count() >= 2
    });
    assert_eq!(asked.iter().filter(|line| *line == "GET /a 200").count(), 1, "{asked:?}");
    // What is broken is repaired at once, and also while nobody answers.
    web.down(true);
    run.wait_for("what was fetched before stays");
    std::fs::write(&out, "broken").unwrap();
    holds(&out, "one\n");
    // Another content is there at the next round.
    web.put("/a", Page::new("two\n").with("etag", "\"2\""));
    web.down(false);
    holds(&out, "two\n");
    // What is not what the server says it is is not taken.
    web.put("/a", Page::new("three\n").with("x-checksum-sha256", &sum("four\n")));
    let line = run.wait_for("is not what it should be");
    assert!(line.contains(&sum("three\n")) && line.contains(&sum("four\n")), "{line}");
    holds(&out, "two\n");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn nobody_is_trusted_without_a_reason_and_what_is_wrong_is_told() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    make_certificates(&at("certificates"), NAME);
    make_certificates(&at("others"), NAME);
    let web = Web::start(&at("certificates"));
    let [trusting, other] =
        ["certificates", "others"].map(|name| configure(&at(&format!("{name}-conf")), &at(name)));
    web.put("/a", Page::new("a\n"));
    web.put("/down", Page::moved(&format!("{}/a", web.plain)));
    let out = at("out");
    std::fs::write(&out, "present\n").unwrap();
    // The resource fails after a few tries, so only one of them is waited for.
    let wrong = sum("something else");
    for (conf, source, more, expected) in [
        (&other, format!("{}/a", web.secure), String::new(), "invalid peer certificate"),
        (&trusting, format!("{}/down", web.secure), String::new(), "which nobody vouches for"),
        (&trusting, format!("{}/a", web.plain), format!(", checksum_value => '{wrong}'"), wrong.as_str()),
        (&trusting, format!("{}/none", web.plain), String::new(), "is not there (status 404)"),
    ] {
        let manifest = format!("file {{ '{}': source => '{source}'{more} }}", out.display());
        let mut run =
            RunningProgram::start(&["run", "--tmp-prefix", "puppet", "--puppet-conf", conf, &manifest]);
        run.wait_for(expected);
        holds(&out, "present\n");
        run.signal(Signal::INT);
        let (code, lines) = run.end();
        assert_eq!(code, Some(0), "{lines}");
    }
    // With a sum that is right, it makes no difference who brings it.
    let manifest = format!(
        "file {{ '{}': source => '{}/down', checksum_value => '{}' }}",
        out.display(),
        web.secure,
        sum("a\n")
    );
    let run = once(&trusting, &manifest);
    assert_eq!(run.code, 2, "{}", run.stderr);
    holds(&out, "a\n");
}
