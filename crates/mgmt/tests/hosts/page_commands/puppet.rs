//! What is typed beside Puppet.

use crate::page_commands::scene::Scene;
use crate::puppet_server::{Server, make_certificates};
use mgmt_test_support::pages::{assert_shown, blocks};

const PAGE: &str = "how-to/coming-from-puppet.md";

#[test]
fn manifests_are_counted_and_joined() {
    let mut scene = Scene::of(PAGE);
    let [stats, _first_run, joint, ..] = &scene.shell.clone()[..] else { panic!("{:?}", scene.shell) };
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
    scene.write("site.pp", &site);
    let said = scene.types_well(stats);
    assert_shown(&blocks(&scene.page, "text")[0], &said.stdout);
    // A program and a manifest that name the same point. The page says nothing of what is in `base`.
    let base = scene.here("class base {\n  file { '/tmp/base': content => \"base\\n\" }\n}\n");
    scene.write("site.pp", &(base + &scene.block("puppet", 0)));
    let program = scene.block("mcl", 0);
    assert!(program.contains("/etc/app.conf"));
    scene.write("main.mcl", &program.replace("/etc/app.conf", &scene.here("/tmp/app.conf")));
    scene.leaves_running(joint);
    scene.waits_for_text("app.conf", "after base\n");
    scene.waits_for_text("base", "base\n");
    scene.ends_it();
}

#[test]
fn a_server_is_kept() {
    const NAME: &str = "agent.example.com";
    let mut scene = Scene::of(PAGE);
    let agent = scene.shell.last().unwrap().clone();
    let certificates = scene.path("certificates");
    make_certificates(&certificates, NAME);
    let out = scene.path("out");
    scene.write("environments/production/manifests/site.pp", "notify { 'the wrong environment': }\n");
    scene.write(
        "environments/special/manifests/site.pp",
        &format!("file {{ '{}': content => 'from the server' }}\n", out.display()),
    );
    std::fs::create_dir_all(scene.path("environments/special/modules")).unwrap();
    let server = Server::start(&scene.path("environments"), &certificates);
    for (from, to) in [
        ("client.pem", format!("ssl/certs/{NAME}.pem")),
        ("client.key", format!("ssl/private_keys/{NAME}.pem")),
        ("ca.pem", "ssl/certs/ca.pem".to_owned()),
    ] {
        scene.write(&to, &std::fs::read_to_string(certificates.join(from)).unwrap());
    }
    // Puppet's own settings are where they always are.
    let place = scene.place.path().display().to_string();
    scene.write(
        "puppet.conf",
        &format!(
            "[main]\nssldir = {place}/ssl\nvardir = {place}/var\ncertname = {NAME}\nenvironment = production\n\
             [agent]\nserver = localhost\nserverport = {}\nruninterval = 3\n",
            server.port
        ),
    );
    let own = "mount --bind \"$1\" /etc/puppet/puppet.conf && export HOME=/root && shift && exec \"$@\"";
    let conf = scene.path("puppet.conf").display().to_string();
    scene.arranges(&["unshare", "--mount", "--", "sh", "-ec", own, "sh", &conf]);
    scene.leaves_running(&agent);
    scene.waits_for_text("out", "from the server");
    scene.ends_it();
}
