//! Catalogues from a Puppet server.
//!
//! The server is one of this test, which demands certificates as Puppet's own does; what it compiles, the real Puppet compiles.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
mod puppet_server;

use std::path::Path;

use common::{Running, holds, said};
use puppet_server::{Server, make_certificates};
use rustix::process::Signal;

const NAME: &str = "agent.example.com";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Puppet's settings for an agent, with its certificates where Puppet has them.
fn configure(place: &Path, certificates: &Path, authority: &Path, port: u16) -> String {
    let ssl = place.join("ssl");
    for (from, to) in [
        (certificates.join("client.pem"), format!("certs/{NAME}.pem")),
        (certificates.join("client.key"), format!("private_keys/{NAME}.pem")),
        (authority.join("ca.pem"), "certs/ca.pem".to_owned()),
    ] {
        write(&ssl.join(to), &std::fs::read_to_string(from).unwrap());
    }
    let file = place.join("puppet.conf");
    let text = format!(
        "[main]\nssldir = {}\nvardir = {}\ncertname = {NAME}\nenvironment = production\n\
         [agent]\nserver = localhost\nserverport = {port}\nruninterval = 3\n",
        ssl.display(),
        place.join("var").display()
    );
    write(&file, &text);
    file.to_str().unwrap().to_owned()
}

#[test]
fn defect_1_a_server_compiles_and_is_followed() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    make_certificates(&at("certificates"), NAME);
    let (out, copy, tree, mark) = (at("out"), at("copy"), at("tree"), at("mark"));
    let site = |text: &str| {
        format!(
            "file {{ '{}': content => \"{text} ${{facts['clientcert']}}\" }}\n\
             file {{ '{}': source => ['puppet:///modules/m/nothing', 'puppet:///modules/m/greeting'] }}\n\
             file {{ '{}': ensure => directory, recurse => true, source => 'puppet:///modules/m/tree' }}\n\
             mark {{ '{}': ensure => present }}\n",
            out.display(),
            copy.display(),
            tree.display(),
            mark.display()
        )
    };
    let special = at("environments/special");
    write(&at("environments/production/manifests/site.pp"), "notify { 'the wrong environment': }\n");
    write(&special.join("manifests/site.pp"), &site("one"));
    write(&special.join("modules/m/files/greeting"), "hello\n");
    write(&special.join("modules/m/files/tree/a/b"), "deep\n");
    write(
        &special.join("modules/m/lib/puppet/type/mark.rb"),
        "Puppet::Type.newtype(:mark) do\n  ensurable\n  newparam(:path, namevar: true)\n  provide(:ruby) do\n    \
         def exists?; File.exist?(resource[:path]); end\n    def create; File.write(resource[:path], 'made'); end\n    \
         def destroy; File.delete(resource[:path]); end\n  end\nend\n",
    );
    let server = Server::start(&at("environments"), &at("certificates"));
    let conf = configure(&at("agent"), &at("certificates"), &at("certificates"), server.port);
    let mut run = Running::start(&["run", "--tmp-prefix", "puppet", "agent", "--puppet-conf", &conf]);
    holds(&out, &format!("one {NAME}"));
    holds(&copy, "hello\n");
    holds(&tree.join("a/b"), "deep\n");
    // A type that only the server has.
    holds(&mark, "made");
    // Once for each interval, the server is asked again.
    write(&special.join("modules/m/files/greeting"), "hello again\n");
    holds(&copy, "hello again\n");
    // A server that does not compile, and one that is not there, leave the present graph running.
    write(&special.join("manifests/site.pp"), "fail('not today')\n");
    run.wait_for("not today");
    std::fs::write(&out, "broken").unwrap();
    holds(&out, &format!("one {NAME}"));
    server.up(false);
    run.wait_for("the Puppet server localhost");
    write(&special.join("manifests/site.pp"), &site("two"));
    server.up(true);
    holds(&out, &format!("two {NAME}"));
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    // Who does not trust the server, and whom it does not trust, gets nothing.
    make_certificates(&at("others"), NAME);
    for (number, (certificates, authority)) in
        [("certificates", "others"), ("others", "certificates")].into_iter().enumerate()
    {
        let conf = configure(&at(&format!("agent-{number}")), &at(certificates), &at(authority), server.port);
        let said = said(&["graph", "puppet", "agent", "--puppet-conf", &conf]);
        assert_eq!(said.code, 1, "{}", said.stderr);
        assert!(said.stderr.contains("the Puppet server localhost"), "{}", said.stderr);
    }
    // Without any, what is missing is named.
    std::fs::remove_file(at(&format!("agent-0/ssl/certs/{NAME}.pem"))).unwrap();
    let conf = at("agent-0/puppet.conf");
    let said = said(&["graph", "puppet", "agent", "--puppet-conf", conf.to_str().unwrap()]);
    assert!(said.code == 1 && said.stderr.contains(&format!("{NAME}.pem")), "{}", said.stderr);
}
