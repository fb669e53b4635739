//! What is typed beside Puppet.

use crate::page_commands::test_env::TestEnv;
use crate::puppet_server::{Server, make_certificates};
use mgmt_test_support::pages::{assert_shown, blocks};

const PAGE: &str = "how-to/coming-from-puppet.md";

#[test]
fn manifests_are_counted_and_joined() {
    let mut env = TestEnv::of(PAGE);
    let [stats, _first_run, joint, ..] = &env.shell.clone()[..] else { panic!("{:?}", env.shell) };
    // What the page counts.
    let mut site = String::new();
    for number in 0..40 {
        site.push_str(&format!("notify {{ 'n{number}': }}\n"));
    }
    site.push_str("exec { '/bin/true': logoutput => true }\n");
    for number in 0..6 {
        site.push_str(&format!("schedule {{ 's{number}': period => daily }}\n"));
    }
    for name in ["a", "b"] {
        site.push_str(&format!("package {{ '{name}': ensure => present, install_options => ['--x'] }}\n"));
    }
    site.push_str("resources { 'host': purge => true }\n");
    env.write("site.pp", &site);
    let said = env.types_well(stats);
    assert_shown(&blocks(&env.page, "text")[0], &said.stdout);
    // A program and a manifest that name the same point. The page says nothing of what is in `base`.
    let base = env.here("class base {\n  file { '/tmp/base': content => \"base\\n\" }\n}\n");
    env.write("site.pp", &(base + &env.block("puppet", 0)));
    let program = env.block("mcl", 0);
    assert!(program.contains("/etc/app.conf"));
    env.write("main.mcl", &program.replace("/etc/app.conf", &env.here("/tmp/app.conf")));
    env.leaves_running(joint);
    env.waits_for_text("app.conf", "after base\n");
    env.waits_for_text("base", "base\n");
    env.ends_it();
}

#[test]
fn a_server_is_kept() {
    const NAME: &str = "agent.example.com";
    let mut env = TestEnv::of(PAGE);
    let agent = env.shell.last().unwrap().clone();
    let certificates = env.path("certificates");
    make_certificates(&certificates, NAME);
    let out = env.path("out");
    env.write("environments/production/manifests/site.pp", "notify { 'the wrong environment': }\n");
    env.write(
        "environments/special/manifests/site.pp",
        &format!("file {{ '{}': content => 'from the server' }}\n", out.display()),
    );
    std::fs::create_dir_all(env.path("environments/special/modules")).unwrap();
    let server = Server::start(&env.path("environments"), &certificates);
    for (from, to) in [
        ("client.pem", format!("ssl/certs/{NAME}.pem")),
        ("client.key", format!("ssl/private_keys/{NAME}.pem")),
        ("ca.pem", "ssl/certs/ca.pem".to_owned()),
    ] {
        env.write(&to, &std::fs::read_to_string(certificates.join(from)).unwrap());
    }
    // Puppet's own settings are where they always are.
    let place = env.place.path().display().to_string();
    env.write(
        "puppet.conf",
        &format!(
            "[main]\nssldir = {place}/ssl\nvardir = {place}/var\ncertname = {NAME}\nenvironment = production\n\
             [agent]\nserver = localhost\nserverport = {}\nruninterval = 3\n",
            server.port
        ),
    );
    let own = "mount --bind \"$1\" /etc/puppet/puppet.conf && export HOME=/root && shift && exec \"$@\"";
    let conf = env.path("puppet.conf").display().to_string();
    env.arranges(&["unshare", "--mount", "--", "sh", "-ec", own, "sh", &conf]);
    env.leaves_running(&agent);
    env.waits_for_text("out", "from the server");
    env.ends_it();
}
