//! Catalogues from a Puppet server.
//!
//! The server is one of this test, which demands certificates as Puppet's own does; what it compiles, the real Puppet compiles.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::puppet_server::{Server, make_certificates, revoke};
use mgmt_test_support::program::{RunningProgram, holds, mgmt_output};
use rustix::process::Signal;

const NAME: &str = "agent.example.com";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// More settings for an agent.
fn configure_more(conf: &str, more: &str) {
    let text = std::fs::read_to_string(conf).unwrap();
    std::fs::write(conf, format!("{text}{more}\n")).unwrap();
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

/// A type that only the server has.
const MARK: &str = "Puppet::Type.newtype(:mark) do\n  ensurable\n  newparam(:path, namevar: true)\n  provide(:ruby) do\n    \
         def exists?; File.exist?(resource[:path]); end\n    def create; File.write(resource[:path], 'made'); end\n    \
         def destroy; File.delete(resource[:path]); end\n  end\nend\n";

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
    write(&special.join("modules/m/lib/puppet/type/mark.rb"), MARK);
    let server = Server::start(&at("environments"), &at("certificates"));
    let conf = configure(&at("agent"), &at("certificates"), &at("certificates"), server.port);
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", "agent", "--puppet-conf", &conf]);
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
        let said = mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", &conf]);
        assert_eq!(said.code, 1, "{}", said.stderr);
        assert!(said.stderr.contains("the Puppet server localhost"), "{}", said.stderr);
    }
    // Without any, what is missing is named.
    std::fs::remove_file(at(&format!("agent-0/ssl/certs/{NAME}.pem"))).unwrap();
    let conf = at("agent-0/puppet.conf");
    let said = mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", conf.to_str().unwrap()]);
    assert!(said.code == 1 && said.stderr.contains(&format!("{NAME}.pem")), "{}", said.stderr);
}

#[test]
fn types_of_an_environment_that_only_the_server_has_are_applied() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    make_certificates(&at("certificates"), NAME);
    let special = at("environments/special");
    write(
        &special.join("manifests/site.pp"),
        &format!("mark {{ '{}': ensure => present }}\n", at("mark").display()),
    );
    write(&special.join("modules/m/lib/puppet/type/mark.rb"), MARK);
    let server = Server::start(&at("environments"), &at("certificates"));
    let conf = configure(&at("agent"), &at("certificates"), &at("certificates"), server.port);
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, text.replace("environment = production", "environment = special")).unwrap();
    let once = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit", "puppet", "agent"];
    let run = mgmt_output(&[&once[..], &["--puppet-conf", &conf]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(at("mark")).unwrap(), "made");
}

#[test]
fn another_server_is_asked_revoked_ones_are_not_and_the_last_catalogue_is_used_where_puppet_says_so() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let certificates = at("certificates");
    make_certificates(&certificates, NAME);
    let out = at("out");
    // The server tells that this host is in the environment `special`; nothing else can be compiled.
    write(&at("environments/node.json"), &format!(r#"{{"name": "{NAME}", "environment": "special"}}"#));
    write(&at("environments/production/manifests/site.pp"), "fail('the wrong environment')\n");
    let site = at("environments/special/manifests/site.pp");
    write(&site, &format!("file {{ '{}': content => 'from the server' }}\n", out.display()));
    let server = Server::start(&at("environments"), &certificates);
    let graph = |conf: &str| mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", conf]);
    // Nobody listens on the first port.
    let conf = configure(&at("agent"), &certificates, &certificates, server.port);
    configure_more(&conf, &format!("server_list = localhost:1,localhost:{}", server.port));
    let found = graph(&conf);
    assert!(
        found.code == 0 && found.stdout.contains(out.to_str().unwrap()),
        "{}{}",
        found.stdout,
        found.stderr
    );
    // A list of revoked certificates without the server's, and one with it.
    let crl = at("agent/ssl/crl.pem");
    revoke(&certificates, &[]);
    std::fs::copy(certificates.join("crl.pem"), &crl).unwrap();
    assert_eq!(graph(&conf).code, 0);
    revoke(&certificates, &["server.pem"]);
    let other = configure(&at("strict"), &certificates, &certificates, server.port);
    std::fs::copy(certificates.join("crl.pem"), at("strict/ssl/crl.pem")).unwrap();
    let revoked = graph(&other);
    assert!(revoked.code == 1 && revoked.stderr.contains("the Puppet server"), "{}", revoked.stderr);
    std::fs::remove_file(at("strict/ssl/crl.pem")).unwrap();
    // Given to a host that runs, it asks for its own.
    let prefix = at("prefix").display().to_string();
    let mut run = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
    run.wait_for("graph empty");
    let deployed =
        mgmt_output(&["deploy", "--prefix", &prefix, "--no-git", "puppet", "agent", "--puppet-conf", &conf]);
    assert_eq!(deployed.code, 0, "{}", deployed.stderr);
    holds(&out, "from the server");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
    // Without any server, there is the last catalogue: not on a host that never had one, nor where it is not wanted.
    server.up(false);
    let last = graph(&conf);
    assert!(last.code == 0 && last.stdout.contains(out.to_str().unwrap()), "{}{}", last.stdout, last.stderr);
    assert!(last.stderr.contains("the last catalogue"), "{}", last.stderr);
    assert_eq!(graph(&other).code, 1);
    configure_more(&conf, "usecacheonfailure = false");
    assert_eq!(graph(&conf).code, 1);
}

#[test]
fn a_type_of_the_server_that_is_made_of_others_knows_them_and_the_last_catalogue_is_in_the_same_order() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let certificates = at("certificates");
    make_certificates(&certificates, NAME);
    let (whole, canary) = (at("whole"), "canary of a catalogue");
    let site = format!(
        "part {{ 'b': text => \"two\n\" }}\npart {{ 'a': text => \"one\n\" }}\nwhole {{ '{}': after => '{}' }}\n\
         file {{ '{}': content => Sensitive('{canary}'), mode => '0600' }}\n\
         file {{ '{}': source => 'puppet:///modules/m/greeting' }}\n",
        whole.display(),
        at("first").display(),
        at("first").display(),
        at("copy").display(),
    );
    let special = at("environments/special");
    write(&special.join("manifests/site.pp"), &site);
    write(&special.join("modules/m/files/greeting"), "hello\n");
    let types = special.join("modules/m/lib/puppet/type");
    write(
        &types.join("part.rb"),
        "Puppet::Type.newtype(:part) do\n  newparam(:name, namevar: true)\n  newparam(:text)\nend\n",
    );
    write(
        &types.join("whole.rb"),
        "Puppet::Type.newtype(:whole) do\n  newparam(:path, namevar: true)\n  newparam(:after)\n  \
         autorequire(:file) { [self[:after]] }\n  def generate\n    \
         parts = catalog.resources.select { |it| it.is_a?(Puppet::Type.type(:part)) }.sort_by(&:title)\n    \
         [Puppet::Type.type(:file).new(path: self[:path], content: parts.map { |it| it[:text] }.join)]\n  end\nend\n",
    );
    let server = Server::start(&at("environments"), &certificates);
    let conf = configure(&at("agent"), &certificates, &certificates, server.port);
    let once = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit", "puppet", "agent"];
    let run = mgmt_output(&[&once[..], &["--puppet-conf", &conf]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    holds(&whole, "one\ntwo\n");
    // What is the same as before is not fetched again.
    let fetched = server.downloads();
    assert!(fetched >= 3, "{fetched}");
    let graph = || mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", &conf]);
    let (fresh, _) = (graph(), server.up(false));
    assert_eq!(server.downloads(), fetched);
    let last = graph();
    assert!(last.stderr.contains("the last catalogue"), "{}", last.stderr);
    assert_eq!(last.stdout, fresh.stdout);
    let order = format!("file[{}] -> ", at("first").display());
    assert!(
        fresh.stdout.lines().any(|line| line.contains(&order) && line.contains("hole")),
        "{}",
        fresh.stdout
    );
    // It has secrets, and nobody else reads it.
    let kept = at("agent/var/mgmt/catalogue.json");
    assert!(std::fs::read_to_string(&kept).unwrap().contains(canary));
    assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(kept.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_server_that_is_busy_is_asked_later_and_one_that_cannot_is_left_for_another() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let certificates = at("certificates");
    make_certificates(&certificates, NAME);
    let site = at("environments/special/manifests/site.pp");
    write(&site, "notify { 'from the server': }\n");
    let (broken, server) = (
        Server::start(&at("environments"), &certificates),
        Server::start(&at("environments"), &certificates),
    );
    let conf = configure(&at("agent"), &certificates, &certificates, server.port);
    configure_more(&conf, "usecacheonfailure = false");
    let graph = || mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", &conf]);
    server.refuse(&[(503, Some(1)), (429, Some(2))]);
    let found = graph();
    assert!(found.code == 0 && found.stdout.contains("from the server"), "{}{}", found.stdout, found.stderr);
    for expected in ["asking again in 1 s", "asking again in 2 s", "not now"] {
        assert!(found.stderr.contains(expected), "{expected}: {}", found.stderr);
    }
    // It does not say when, or wants more than anybody waits for.
    for refusal in [(503, None), (503, Some(86_400)), (500, None)] {
        server.refuse(&[refusal]);
        let found = graph();
        assert!(found.code == 1 && found.stderr.contains("not now"), "{refusal:?}: {}", found.stderr);
    }
    configure_more(&conf, &format!("server_list = localhost:{},localhost:{}", broken.port, server.port));
    broken.refuse(&[(500, None)]);
    let found = graph();
    assert!(found.code == 0 && found.stdout.contains("from the server"), "{}{}", found.stdout, found.stderr);
    // What does not compile is told, and the last catalogue used where Puppet says so.
    write(&site, "fail('not today')\n");
    let found = graph();
    assert!(found.code == 1 && found.stderr.contains("not today"), "{}", found.stderr);
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, text.replace("usecacheonfailure = false", "usecacheonfailure = true")).unwrap();
    let found = graph();
    assert!(found.code == 0 && found.stdout.contains("from the server"), "{}{}", found.stdout, found.stderr);
    assert!(
        found.stderr.contains("using the last catalogue") && found.stderr.contains("not today"),
        "{}",
        found.stderr
    );
}

#[test]
fn facts_of_the_servers_modules_are_known_when_it_compiles_and_when_it_is_applied() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let certificates = at("certificates");
    make_certificates(&certificates, NAME);
    let (out, mark) = (at("out"), at("mark"));
    let special = at("environments/special");
    let site = format!(
        "file {{ '{}': content => \"${{facts['shape']}} ${{facts['colour']}} ${{facts['size']}}\" }}\n\
         mark {{ '{}': ensure => present }}\n",
        out.display(),
        mark.display()
    );
    write(&special.join("manifests/site.pp"), &site);
    let module = special.join("modules/m");
    write(&module.join("lib/facter/shape.rb"), "Facter.add(:shape) { setcode { 'round' } }\n");
    write(&module.join("facts.d/colour.txt"), "colour=blue\n");
    let program = module.join("facts.d/size");
    write(&program, "#!/bin/sh\necho size=large\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    write(
        &module.join("lib/puppet/type/mark.rb"),
        "Puppet::Type.newtype(:mark) do\n  ensurable\n  newparam(:path, namevar: true)\n  provide(:ruby) do\n    \
         confine colour: 'blue'\n    def exists?; File.exist?(resource[:path]); end\n    \
         def create; File.write(resource[:path], Facter.value(:shape)); end\n    def destroy; end\n  end\nend\n",
    );
    let server = Server::start(&at("environments"), &certificates);
    let conf = configure(&at("agent"), &certificates, &certificates, server.port);
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", "agent", "--puppet-conf", &conf]);
    holds(&out, "round blue large");
    holds(&mark, "round");
    // The server's modules get other ones.
    write(&module.join("lib/facter/shape.rb"), "Facter.add(:shape) { setcode { 'square' } }\n");
    std::fs::remove_file(&program).unwrap();
    holds(&out, "square blue ");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn a_server_that_is_not_there_yet_is_asked_until_it_is() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let certificates = at("certificates");
    make_certificates(&certificates, NAME);
    let out = at("out");
    let site = at("environments/special/manifests/site.pp");
    write(&site, &format!("file {{ '{}': content => 'from the server' }}\n", out.display()));
    let server = Server::start(&at("environments"), &certificates);
    server.up(false);
    let conf = configure(&at("agent"), &certificates, &certificates, server.port);
    let text = std::fs::read_to_string(&conf).unwrap();
    std::fs::write(&conf, text.replace("runinterval = 3", "runinterval = 86400")).unwrap();
    // One that is to end has nothing to wait for.
    let once = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit", "puppet", "agent"];
    let ended = mgmt_output(&[&once[..], &["--puppet-conf", &conf]].concat());
    assert!(ended.code == 1 && ended.stderr.contains("the Puppet server"), "{}", ended.stderr);
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", "agent", "--puppet-conf", &conf]);
    run.wait_for("retrying in ");
    server.up(true);
    holds(&out, "from the server");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

/// A process that ends with the test.
struct Ends(std::process::Child);

impl Drop for Ends {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn puppets_own_agent_and_ours_do_not_work_on_one_host_at_the_same_time() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    make_certificates(&at("certificates"), NAME);
    write(&at("environments/special/manifests/site.pp"), "notify { 'from the server': }\n");
    let server = Server::start(&at("environments"), &at("certificates"));
    let conf = configure(&at("agent"), &at("certificates"), &at("certificates"), server.port);
    configure_more(&conf, &format!("rundir = {}", at("run").display()));
    let mut command = std::process::Command::new("bash");
    command.args(["-c", "exec -a 'puppet agent: applying configuration' sleep 1000"]);
    let mut rival = Ends(command.spawn().unwrap());
    let line = format!("/proc/{}/cmdline", rival.0.id());
    program::eventually("its name", || std::fs::read_to_string(&line).unwrap().starts_with("puppet agent"));
    let once = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit", "puppet", "agent"];
    let run = || mgmt_output(&[&once[..], &["--puppet-conf", &conf]].concat());
    let refused = || {
        let refused = run();
        let is_named = refused.stderr.contains(&format!("process {}", rival.0.id()));
        assert!(refused.code == 1 && is_named, "{}", refused.stderr);
        assert!(refused.stderr.contains("puppet agent --disable"), "{}", refused.stderr);
    };
    let state = at("agent/var/state");
    let (daemon, at_work, disabled) =
        (at("run/agent.pid"), state.join("agent_catalog_run.lock"), state.join("agent_disabled.lock"));
    write(&daemon, &format!("{}\n", rival.0.id()));
    refused();
    // One that was told to do nothing may finish what it is at.
    write(&disabled, "{}");
    write(&at_work, &rival.0.id().to_string());
    refused();
    std::fs::remove_file(&at_work).unwrap();
    let done = run();
    assert_eq!(done.code, 0, "{}", done.stderr);
    // So may one that is gone, whatever it has left behind.
    std::fs::remove_file(&disabled).unwrap();
    rival.0.kill().unwrap();
    rival.0.wait().unwrap();
    let done = run();
    assert_eq!(done.code, 0, "{}", done.stderr);
}
