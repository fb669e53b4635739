//! Catalogues from Puppet's own server, which is started once for all of it: that takes long.
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::puppet_server::{make_certificates, revoke};
use mgmt_test_support::program::{RunningProgram, holds, mgmt_output};
use rustix::process::Signal;

const NAME: &str = "agent.example.com";

/// How long the server may take to start, on a machine that is busy with other things.
const START: Duration = Duration::from_secs(900);

/// What the server consists of, without an authority of its own: its certificates are those of the test.
const SERVICES: &str = "puppetlabs.services.request-handler.request-handler-service/request-handler-service
puppetlabs.services.jruby.jruby-puppet-service/jruby-puppet-pooled-service
puppetlabs.services.jruby-pool-manager.jruby-pool-manager-service/jruby-pool-manager-service
puppetlabs.services.puppet-profiler.puppet-profiler-service/puppet-profiler-service
puppetlabs.trapperkeeper.services.webserver.jetty9-service/jetty9-service
puppetlabs.trapperkeeper.services.webrouting.webrouting-service/webrouting-service
puppetlabs.services.config.puppet-server-config-service/puppet-server-config-service
puppetlabs.services.master.master-service/master-service
puppetlabs.trapperkeeper.services.authorization.authorization-service/authorization-service
puppetlabs.services.versioned-code-service.versioned-code-service/versioned-code-service
puppetlabs.trapperkeeper.services.scheduler.scheduler-service/scheduler-service
puppetlabs.trapperkeeper.services.status.status-service/status-service
puppetlabs.trapperkeeper.services.metrics.metrics-service/metrics-service
puppetlabs.trapperkeeper.services.metrics.metrics-service/metrics-webservice
puppetlabs.services.jruby.jruby-metrics-service/jruby-metrics-service
puppetlabs.services.ca.certificate-authority-disabled-service/certificate-authority-disabled-service
puppetlabs.trapperkeeper.services.watcher.filesystem-watch-service/filesystem-watch-service
";

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Puppet's own server, with everything of it below one directory.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(root: &Path, certificates: &Path) -> Server {
        let port = mgmt_test_support::address::reserved_port();
        configure_server(root, certificates, port);
        let at = |name: &str| root.join(name).display().to_string();
        let log = std::fs::File::create(root.join("server.log")).unwrap();
        let mut command = Command::new("java");
        command.args(["-Xms256m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        command.arg(format!("-Djava.io.tmpdir={}", at("tmp")));
        command.arg("-Djruby.logger.class=com.puppetlabs.jruby_utils.jruby.Slf4jLogger");
        command.args([
            "-Djruby.lib=/usr/share/jruby/lib",
            "-jar",
            "/usr/share/puppetserver/puppetserver.jar",
        ]);
        command.args(["--config", &at("conf.d"), "--bootstrap-config", &at("services.d")]);
        command.args(["--restart-file", &at("run/restart")]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut server = Server { child: command.spawn().unwrap(), port };
        let until = Instant::now() + START;
        loop {
            let mut said = String::new();
            std::fs::File::open(root.join("server.log")).unwrap().read_to_string(&mut said).unwrap();
            if said.contains("has successfully started") {
                return server;
            }
            assert!(server.child.try_wait().unwrap().is_none() && Instant::now() < until, "{said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }
}

fn configure_server(root: &Path, certificates: &Path, port: u16) {
    let root_text = root.display();
    let certificate = |name: &str| certificates.join(name).display().to_string();
    for directory in ["tmp", "var", "run", "log", "gems"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    write(&root.join("services.d/bootstrap.cfg"), SERVICES);
    let conf = |name: &str, text: &str| write(&root.join("conf.d").join(name), text);
    conf(
        "webserver.conf",
        &format!(
            "webserver: {{ client-auth: want, ssl-host: 127.0.0.1, ssl-port: {port}, ssl-cert: {}, ssl-key: {}, \
             ssl-ca-cert: {}, ssl-crl-path: {} }}\n",
            certificate("server.pem"),
            certificate("server.key"),
            certificate("ca.pem"),
            certificate("crl.pem")
        ),
    );
    conf("global.conf", &format!("global: {{ logging-config: {root_text}/logback.xml }}\n"));
    conf("metrics.conf", "metrics: { server-id: localhost }\n");
    conf(
        "puppetserver.conf",
        &format!(
            "jruby-puppet: {{ ruby-load-path: [/usr/lib/puppetserver/ruby/vendor_ruby], gem-home: {root_text}/gems, \
             gem-path: [{root_text}/gems, \"/usr/lib/puppetserver/vendored-jruby-gems\"], server-conf-dir: {root_text}/puppet, \
             server-code-dir: {root_text}/puppet/code, server-var-dir: {root_text}/var, server-run-dir: {root_text}/run, \
             server-log-dir: {root_text}/log, max-active-instances: 1 }}\n"
        ),
    );
    // Who may ask for what, and where: as it is delivered.
    for name in ["auth.conf", "web-routes.conf"] {
        let text = std::fs::read_to_string(Path::new("/etc/puppet/puppetserver/conf.d").join(name)).unwrap();
        conf(name, &text);
    }
    write(
        &root.join("logback.xml"),
        "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\"><encoder>\
         <pattern>%-5p %m%n</pattern></encoder></appender><root level=\"info\"><appender-ref ref=\"OUT\"/></root></configuration>\n",
    );
    // Somebody else says in which environment a host is.
    let nodes = root.join("nodes");
    write(&nodes, &format!("#!/bin/sh\ncat {root_text}/node\n"));
    std::fs::set_permissions(&nodes, std::fs::Permissions::from_mode(0o755)).unwrap();
    write(
        &root.join("puppet/puppet.conf"),
        &format!(
            "[main]\ncertname = localhost\n[server]\nnode_terminus = exec\nexternal_nodes = {}\nenvironment_timeout = 0\n\
             hostcert = {}\nhostprivkey = {}\nlocalcacert = {}\nhostcrl = {}\n",
            nodes.display(),
            certificate("server.pem"),
            certificate("server.key"),
            certificate("ca.pem"),
            certificate("crl.pem")
        ),
    );
}

/// Puppet's settings for an agent, with its certificates where Puppet has them.
fn configure(place: &Path, certificates: &Path, authority: &Path, port: u16) -> String {
    let ssl = place.join("ssl");
    for (from, to) in [
        (certificates.join("client.pem"), format!("certs/{NAME}.pem")),
        (certificates.join("client.key"), format!("private_keys/{NAME}.pem")),
        (authority.join("ca.pem"), "certs/ca.pem".to_owned()),
        (authority.join("crl.pem"), "crl.pem".to_owned()),
    ] {
        write(&ssl.join(to), &std::fs::read_to_string(from).unwrap());
    }
    let file = place.join("puppet.conf");
    let text = format!(
        "[main]\nssldir = {}\nvardir = {}\ncertname = {NAME}\nenvironment = production\n\
         [agent]\nserver = localhost\nserverport = {port}\nruninterval = 3\nusecacheonfailure = false\n",
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
fn puppets_own_server_compiles_and_is_followed() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| -> PathBuf { place.path().join(name) };
    for name in ["certificates", "others"] {
        make_certificates(&at(name), NAME);
        revoke(&at(name), &[]);
    }
    let (out, copy, tree, mark) = (at("out"), at("copy"), at("tree"), at("mark"));
    let site = |text: &str| {
        format!(
            "file {{ '{}': content => Sensitive(\"{text} ${{facts['clientcert']}} ${{trusted['certname']}}\") }}\n\
             file {{ '{}': source => ['puppet:///modules/m/nothing', 'puppet:///modules/m/greeting'] }}\n\
             file {{ '{}': ensure => directory, recurse => true, source => 'puppet:///modules/m/tree' }}\n\
             mark {{ '{}': ensure => present }}\n",
            out.display(),
            copy.display(),
            tree.display(),
            mark.display()
        )
    };
    let environments = at("server/puppet/code/environments");
    let special = environments.join("special");
    write(&environments.join("production/manifests/site.pp"), &site("from the wrong environment,"));
    write(&special.join("manifests/site.pp"), &site("one"));
    write(&special.join("modules/m/files/greeting"), "hello\n");
    write(&special.join("modules/m/files/tree/a/b"), "deep\n");
    write(&special.join("modules/m/lib/puppet/type/mark.rb"), MARK);
    write(
        &environments.join("later/manifests/site.pp"),
        &format!("file {{ '{}': content => 'later' }}\n", out.display()),
    );
    write(&at("server/node"), "environment: special\n");
    let server = Server::start(&at("server"), &at("certificates"));
    let conf = configure(&at("agent"), &at("certificates"), &at("certificates"), server.port);
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", "agent", "--puppet-conf", &conf]);
    holds(&out, &format!("one {NAME} {NAME}"));
    holds(&copy, "hello\n");
    holds(&tree.join("a/b"), "deep\n");
    holds(&mark, "made");
    // Once for each interval, the server is asked again.
    write(&special.join("modules/m/files/greeting"), "hello again\n");
    holds(&copy, "hello again\n");
    // A mistake, and a server that does not answer, leave the present graph running.
    write(&special.join("manifests/site.pp"), "fail('not today')\n");
    run.wait_for("not today");
    std::fs::write(&out, "broken").unwrap();
    holds(&out, &format!("one {NAME} {NAME}"));
    write(&special.join("manifests/site.pp"), &site("two"));
    holds(&out, &format!("two {NAME} {NAME}"));
    // The host is moved to another environment.
    write(&at("server/node"), "environment: later\n");
    holds(&out, "later");
    // Who does not trust the server, and whom it does not trust, gets nothing.
    for (number, (certificates, authority)) in
        [("certificates", "others"), ("others", "certificates")].into_iter().enumerate()
    {
        let conf = configure(&at(&format!("agent-{number}")), &at(certificates), &at(authority), server.port);
        let said = mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", &conf]);
        assert_eq!(said.code, 1, "{}", said.stderr);
        assert!(said.stderr.contains("the Puppet server"), "{}", said.stderr);
    }
    // The catalogue of somebody else is not for us.
    let other = at("agent").join("other.conf");
    write(
        &other,
        &std::fs::read_to_string(&conf)
            .unwrap()
            .replace("certname = ", "node_name_value = other\ncertname = "),
    );
    let refused = mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", other.to_str().unwrap()]);
    assert!(refused.code == 1 && refused.stderr.contains("403"), "{}", refused.stderr);
    server.signal(Signal::KILL);
    run.wait_for("the Puppet server localhost");
    std::fs::write(&out, "broken").unwrap();
    holds(&out, "later");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    let gone = mgmt_output(&["graph", "puppet", "agent", "--puppet-conf", &conf]);
    assert!(gone.code == 1 && gone.stderr.contains("the Puppet server localhost"), "{}", gone.stderr);
}
