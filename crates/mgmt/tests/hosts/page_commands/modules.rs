//! Modules that come from elsewhere.

use crate::page_commands::test_env::TestEnv;
use mgmt_test_support::pages::{assert_shown, blocks};

const GIT: &str = "git -c user.name=t -c user.email=t@example.com";

#[test]
fn modules_come_from_elsewhere() {
    let mut env = TestEnv::of("how-to/use-modules.md");
    let [get] = <[String; 1]>::try_from(env.shell.clone()).unwrap();
    // The address of the page, on this machine.
    env.calls("https://example.com/", "file:///tmp/git/");
    let found = env.here("/tmp/git/");
    env.calls("example.com/", found.trim_start_matches('/'));
    env.write("git/team/mgmt-motd/metadata.yaml", &blocks(&env.page, "yaml")[0]);
    env.write(
        "git/team/mgmt-motd/main.mcl",
        "class message($text) {\n\tprint \"motd\" {\n\t\tmsg => $text,\n\t}\n}\n",
    );
    let commit = env.types_well(&format!(
        "cd git/team/mgmt-motd; git init -q -b main .; git add -A; {GIT} commit -q -m change; git rev-parse HEAD"
    ));
    env.calls("3be37a453bfa", &commit.stdout[..12]);
    // What the program of the page has beside it.
    env.write("site/lib/names.mcl", "$default = \"nobody\"\n");
    env.write(
        "site/web/main.mcl",
        "class server($name) {\n\tprint \"server\" {\n\t\tmsg => $name,\n\t}\n}\n",
    );
    env.write("site/main.mcl", &env.block("mcl part", 0));
    let said = env.types_well(&get);
    assert_shown(&env.block("text", 0), &said.stderr);
    // The lock has what the page shows, and the program runs.
    let lock: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(env.path("site/mgmt.lock")).unwrap()).unwrap();
    let shown: serde_json::Value = serde_json::from_str(&blocks(&env.page, "json")[0]).unwrap();
    let keys = |lock: &serde_json::Value| -> Vec<String> {
        let modules = lock["modules"].as_object().unwrap();
        assert_eq!((lock["version"].as_i64(), modules.len()), (Some(1), 1));
        modules.values().next().unwrap().as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&lock), keys(&shown));
    let said = env.types_well("mgmt run --converger-timeout=1 --converged-exit lang site/");
    for part in ["print[server]: www1", "print[motd]: hello from nobody"] {
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
}
