//! Where a page is followed: a directory that stands for `/tmp/`, and if need be hosts with a network.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use mgmt_test_support::pages::{blocks, root};
use mgmt_test_support::program::{CommandOutput, EVENT_TIMEOUT};
use mgmt_test_support::terminal::TerminalSession;

/// A page, and a directory in which it is followed.
pub(crate) struct TestEnv {
    pub(crate) place: tempfile::TempDir,
    pub(crate) page: String,
    pub(crate) shell: Vec<String>,
    pub(crate) running: Vec<Child>,
    network: Option<Network>,
    /// What becomes the shell in the end, and has arranged something before.
    around: Vec<String>,
    /// What is called otherwise here.
    names: Vec<(String, String)>,
    /// Where runs work. Without it, where they do by default.
    has_prefix: bool,
}

impl TestEnv {
    /// A page, by its path in `docs`.
    pub(crate) fn of(page: &str) -> TestEnv {
        let page = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
        let shell = blocks(&page, "sh");
        let place = tempfile::tempdir().unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_mgmt")).parent().unwrap();
        let names = names(&[&root().canonicalize().unwrap(), &root(), program], place.path());
        let (running, around) = (Vec::new(), Vec::new());
        TestEnv { place, page, shell, running, network: None, around, names, has_prefix: true }
    }

    /// The same, with hosts that are in one network, at the addresses that pages have.
    pub(crate) fn in_a_network(page: &str) -> TestEnv {
        let mut env = TestEnv::of(page);
        env.network = Some(Network::new());
        env
    }

    /// Has commands run by something that arranges what they need, and becomes them then.
    pub(crate) fn arranges(&mut self, words: &[&str]) {
        self.around = words.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Lets runs work where they do by default.
    pub(crate) fn has_no_prefix(&mut self) {
        self.has_prefix = false;
    }

    /// What the page calls by this name has that one here, which may be made of earlier ones.
    pub(crate) fn calls(&mut self, name: &str, here: &str) {
        let here = self.here(here);
        self.names.push((name.to_owned(), here));
    }

    /// Where something is that the page says is in `/tmp/`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A text of the page, here.
    pub(crate) fn here(&self, text: &str) -> String {
        renamed(text, &self.names)
    }

    /// The nth block of this language, here.
    pub(crate) fn block(&self, language: &str, nth: usize) -> String {
        self.here(&blocks(&self.page, language)[nth])
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // In one step, as an editor does.
        let next = path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &path).unwrap();
    }

    /// A command on a host. Those without a network have one host, whatever it is called.
    fn command(&self, host: &str, text: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_mgmt")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut words = self.network.as_ref().map(|network| network.around(host)).unwrap_or_default();
        words.extend(self.around.iter().cloned());
        words.extend(["sh", "-ec"].map(str::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(self.here(text)).env("PATH", path).current_dir(self.place.path());
        if self.has_prefix {
            command.env("MGMT_PREFIX", self.path(&format!("prefix-{host}")));
        }
        command.env("HOME", self.place.path()).env("MGMT_CLUSTER_PACE", "quick").stdin(Stdio::null());
        command
    }

    /// Types something that ends, and gives what was said.
    pub(crate) fn types(&self, text: &str) -> CommandOutput {
        self.types_on("here", text)
    }

    pub(crate) fn types_on(&self, host: &str, text: &str) -> CommandOutput {
        self.command(host, text).output().unwrap().into()
    }

    #[track_caller]
    pub(crate) fn types_well(&self, text: &str) -> CommandOutput {
        self.types_well_on("here", text)
    }

    #[track_caller]
    pub(crate) fn types_well_on(&self, host: &str, text: &str) -> CommandOutput {
        let said = self.types_on(host, text);
        assert_eq!(said.code, 0, "{text}{}{}\n{}", said.stdout, said.stderr, self.logs());
        said
    }

    /// Types the same again until it says this in the end. A machine that is slow is given more time than the page gives, and
    /// what is undone too often is left alone for a while: so twice as long each time.
    #[track_caller]
    pub(crate) fn types_until(&self, text: &str, shown: &str) {
        assert!(text.contains("sleep 0.1"), "{text}");
        let mut said = Vec::new();
        for seconds in ["0.1", "0.2", "0.5", "1", "2", "4", "8", "16", "32", "60"] {
            let now = self.types(&text.replace("sleep 0.1", &format!("sleep {seconds}")));
            if now.stdout.ends_with(shown) {
                return;
            }
            said.push(now);
        }
        panic!("{text} does not show {shown:?}, but {said:?}");
    }

    /// Types something that goes on, and leaves it alone.
    pub(crate) fn leaves_running(&mut self, text: &str) {
        self.leaves_running_on("here", text);
    }

    pub(crate) fn leaves_running_on(&mut self, host: &str, text: &str) {
        let text = format!("exec {}", text.trim());
        let log = std::fs::File::create(self.log(host)).unwrap();
        let child = self.command(host, &text).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.running.push(child);
    }

    /// Types something at a terminal.
    pub(crate) fn at_a_terminal(&self, text: &str) -> TerminalSession {
        let mut command = self.command("here", &format!("exec {}", text.trim()));
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        TerminalSession::with_keyboard(command)
    }

    fn log(&self, host: &str) -> PathBuf {
        self.path(&format!("log-{host}"))
    }

    /// What the last thing that was left running there has said.
    pub(crate) fn log_of(&self, host: &str) -> String {
        std::fs::read_to_string(self.log(host)).unwrap_or_default()
    }

    fn logs(&self) -> String {
        let mut logs = String::new();
        for entry in std::fs::read_dir(self.place.path()).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_str().unwrap().starts_with("log-") {
                let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
                logs.push_str(&format!("---- {}\n{text}", entry.file_name().display()));
            }
        }
        logs
    }

    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + EVENT_TIMEOUT;
        while !is_so() {
            assert!(Instant::now() < until, "waited in vain: {what}\n{}", self.logs());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Types something that ends on a host, again until it says this.
    #[track_caller]
    pub(crate) fn waits_until_it_says(&self, host: &str, text: &str, part: &str) -> CommandOutput {
        let until = Instant::now() + EVENT_TIMEOUT;
        loop {
            let said = self.types_on(host, text);
            if said.stdout.contains(part) {
                return said;
            }
            assert!(Instant::now() < until, "{text} does not say {part:?}: {said:?}\n{}", self.logs());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    #[track_caller]
    pub(crate) fn waits_for_text(&self, name: &str, text: &str) {
        self.wait_for(&format!("{name} is {text:?}"), || {
            std::fs::read_to_string(self.path(name)).is_ok_and(|found| found == text)
        });
    }

    /// Ends what is left running, as Ctrl-C does.
    pub(crate) fn ends_it(&mut self) {
        for mut child in self.running.drain(..) {
            let id = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
            child.wait().unwrap();
        }
    }

    /// Ends what is left running without a word.
    pub(crate) fn kills_it(&mut self) {
        for mut child in self.running.drain(..) {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        match std::thread::panicking() {
            true => self.kills_it(),
            false => self.ends_it(),
        }
    }
}

/// The commands of a block, each by itself.
pub(crate) fn lines(block: &str) -> Vec<String> {
    block.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// A namespace with the addresses that pages have. Hosts in it differ by their names and by where they work.
struct Network(String);

impl Network {
    fn new() -> Network {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("pg{}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let network = Network(name.clone());
        ip(&["netns", "add", &name]);
        for address in ["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"] {
            ip(&["-n", &name, "addr", "add", address, "dev", "lo"]);
        }
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        network
    }

    /// What becomes a command on a host of this name.
    fn around(&self, host: &str) -> Vec<String> {
        let space = format!("--net=/run/netns/{}", self.0);
        let named = "hostname \"$1\" && shift && exec \"$@\"";
        ["nsenter", &space, "unshare", "--uts", "--", "sh", "-ec", named, "sh", host]
            .map(str::to_owned)
            .to_vec()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("ip is missing: run `cargo xtask setup`");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What is called otherwise at a place. The project is called what it is, also if it is below `/tmp/`.
fn names(project: &[&Path], place: &Path) -> Vec<(String, String)> {
    let own = project.iter().copied().chain([place]).map(|path| path.display().to_string());
    let pages = ("/tmp/".to_owned(), format!("{}/", place.display()));
    own.map(|path| (path.clone(), path)).chain([pages]).collect()
}

fn renamed(text: &str, names: &[(String, String)]) -> String {
    let (mut here, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        // What has been put in place of a name is left alone.
        match names.iter().find(|(name, _)| rest.starts_with(name)) {
            Some((name, own)) => {
                here.push_str(own);
                rest = &rest[name.len()..];
            }
            None => {
                here.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    here
}

#[test]
fn a_project_below_tmp_keeps_its_path() {
    let names = names(&[Path::new("/tmp/x/mgmt"), Path::new("/tmp/target/debug")], Path::new("/tmp/.tmpA"));
    let here = |text| renamed(text, &names);
    assert_eq!(here("cat /tmp/page"), "cat /tmp/.tmpA/page");
    for own in ["/tmp/x/mgmt/target/debug/mgmt run", "/tmp/target/debug/mgmt", "/tmp/.tmpA/page"] {
        assert_eq!(here(own), own);
    }
}
