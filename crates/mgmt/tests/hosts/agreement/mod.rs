//! What a plan says and what a run then does, compared line by line.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::Command;

use serde_json::Value as Json;

use mgmt_test_support::program::CommandOutput;

/// Plans, runs, and compares. What the plan calls exact has to be in the history, word for word, and what it calls predicted, too,
/// unless something before it is unknown. Gives how many lines there were.
pub(crate) fn agrees(program: &str, front_end: &str, text: &str, prefix: &str) -> Result<usize, String> {
    // In the order of the plan: of two that change one file and could be done at once, the second finds it changed.
    let (parsed, history, run) = plan_and_run(program, front_end, text, prefix, &["--sema=1"])?;
    let (planned, mut done) = (planned(&parsed), done(&history));
    let told = format!("planned {planned:#?}\ndone {done:#?}\n{run:?}");
    let steps = parsed["steps"].as_array().unwrap();
    let open = planned.iter().any(|(certainty, _)| certainty == "unknown")
        || steps.iter().any(|step| step.get("open").is_some());
    for (certainty, line) in &planned {
        match done.iter().position(|found| found == line) {
            Some(at) => drop(done.remove(at)),
            None if certainty == "unknown" || (open && certainty == "predicted") => {}
            None => return Err(format!("{certainty}, but not done: {line}\n{told}")),
        }
    }
    // What a command does, and what follows from that, nobody can tell beforehand.
    match done.is_empty() || open {
        true => Ok(planned.len()),
        false => Err(format!("done, but not planned: {done:#?}\n{told}")),
    }
}

/// Plans and runs, with everything at once that may be done at once. What the plan calls exact has to be in the history, whatever
/// came first. Gives how many such lines there were.
#[allow(dead_code, reason = "not every test compares this")]
pub(crate) fn exact_holds(program: &str, front_end: &str, text: &str, prefix: &str) -> Result<usize, String> {
    let (parsed, history, run) = plan_and_run(program, front_end, text, prefix, &[])?;
    let (planned, mut done) = (planned(&parsed), done(&history));
    let told = format!("planned {planned:#?}\ndone {done:#?}\n{run:?}");
    let exact: Vec<&Json> =
        planned.iter().filter(|(certainty, _)| certainty == "exact").map(|(_, line)| line).collect();
    for line in &exact {
        match done.iter().position(|found| found == *line) {
            Some(at) => drop(done.remove(at)),
            None => return Err(format!("exact, but not done: {line}\n{told}")),
        }
    }
    Ok(exact.len())
}

/// What of a program fails.
#[allow(dead_code, reason = "not every test compares this")]
pub(crate) struct Failure<'a> {
    /// The resources that fail.
    pub(crate) resources: &'a [&'a str],
    /// The plan says so. Otherwise it calls nothing of them exact.
    pub(crate) is_foreseen: bool,
    /// Plan and run are those of a user other than root.
    pub(crate) unprivileged: bool,
}

/// Plans and runs a program of which some resources fail. They have to be said to fail in the plan, and nothing else, or not to be
/// called exact; whatever is called exact and is not blocked has to be done.
#[allow(dead_code, reason = "not every test compares this")]
pub(crate) fn fails_as_planned(
    program: &str,
    front_end: &str,
    text: &str,
    prefix: &str,
    failure: &Failure<'_>,
) -> Result<(), String> {
    let expected = failure.resources;
    let ask = |arguments: &[&str]| match failure.unprivileged {
        true => ask_unprivileged(program, prefix, arguments),
        false => ask(program, arguments),
    };
    let plan = ask(&["plan", "--prefix", prefix, "--format", "json", front_end, text]);
    let parsed: Json = serde_json::from_str(&plan.stdout).map_err(|error| format!("{error}: {plan:?}"))?;
    let steps = parsed["steps"].as_array().unwrap();
    let named = |key: &str| -> Vec<&str> {
        let with = steps.iter().filter(|step| step.get(key).is_some());
        with.map(|step| step["resource"].as_str().unwrap()).collect()
    };
    let is_as_foreseen = match failure.is_foreseen {
        true => plan.code == 1 && named("error") == expected,
        false => plan.code == 0,
    };
    if !is_as_foreseen {
        return Err(format!("the plan ended with {} and says: {parsed:#}", plan.code));
    }
    let converge = ["--converger-timeout=0", "--converged-exit", "--max-runtime=120", "--sema=1"];
    let run = ask(&[&["run", "--prefix", prefix][..], &converge[..], &[front_end, text][..]].concat());
    let history = ask(&["history", "--prefix", prefix, "--format", "json"]);
    let history: Json =
        serde_json::from_str(&history.stdout).map_err(|error| format!("{error}: {history:?}"))?;
    let with = |outcome: &str| -> Vec<&str> {
        let changes = history["changes"].as_array().unwrap().iter();
        let these = changes.filter(|change| change["outcome"] == outcome);
        these.map(|change| change["resource"].as_str().unwrap()).collect()
    };
    let (mut failed, changed) = (with("failed"), with("changed"));
    failed.sort_unstable();
    failed.dedup();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    let told = format!("{parsed:#}\n{history:#}\n{run:?}");
    if run.code == 0 || failed != wanted {
        return Err(format!("the run ended with {}, failed: {failed:?}\n{told}", run.code));
    }
    for step in steps {
        let resource = step["resource"].as_str().unwrap();
        let is_exact = |line: &Json| line["certainty"] == "exact" && step["noop"] != true;
        if step["lines"].as_array().unwrap().iter().any(is_exact) && !changed.contains(&resource) {
            return Err(format!("{resource} is exact, but not done\n{told}"));
        }
        if step.get("blocked_by").is_some() && changed.contains(&resource) {
            return Err(format!("{resource} is blocked, but done\n{told}"));
        }
    }
    Ok(())
}

/// The plan, and the history after a run.
fn plan_and_run(
    program: &str,
    front_end: &str,
    text: &str,
    prefix: &str,
    flags: &[&str],
) -> Result<(Json, Json, CommandOutput), String> {
    let plan = ask(program, &["plan", "--prefix", prefix, "--format", "json", front_end, text]);
    let parsed: Json = serde_json::from_str(&plan.stdout).map_err(|error| format!("{error}: {plan:?}"))?;
    assert_eq!(parsed["format_version"], 1);
    if plan.code != 0 {
        return Err(format!("the plan ended with {}: {parsed:#}", plan.code));
    }
    let converge = ["--converger-timeout=0", "--converged-exit", "--max-runtime=300"];
    let words = [&["run", "--prefix", prefix][..], &converge[..], flags, &[front_end, text][..]].concat();
    let run = ask(program, &words);
    if run.code != 0 {
        return Err(format!("the run ended with {}: {run:?}", run.code));
    }
    let history = ask(program, &["history", "--prefix", prefix, "--format", "json"]);
    let history = serde_json::from_str(&history.stdout).map_err(|error| format!("{error}: {history:?}"))?;
    Ok((parsed, history, run))
}

/// The lines of a plan, and how sure it is of each.
fn planned(plan: &Json) -> Vec<(String, Json)> {
    let mut lines = Vec::new();
    for step in plan["steps"].as_array().unwrap() {
        for line in step["lines"].as_array().unwrap() {
            let whose = line.get("resource").unwrap_or(&step["resource"]);
            lines.push((line["certainty"].as_str().unwrap().to_owned(), words(whose, line)));
        }
    }
    lines
}

/// What was done.
fn done(history: &Json) -> Vec<Json> {
    let mut lines = Vec::new();
    for change in history["changes"].as_array().unwrap() {
        assert_eq!(change["outcome"], "changed", "{change}");
        for effect in change["effects"].as_array().into_iter().flatten() {
            lines.push(words(effect.get("resource").unwrap_or(&change["resource"]), effect));
        }
    }
    lines
}

fn words(whose: &Json, line: &Json) -> Json {
    let keys = ["action", "what", "aspect", "before", "after", "private", "opaque"];
    Json::Array([whose.clone()].into_iter().chain(keys.map(|key| line[key].clone())).collect())
}

/// The same as a user without any rights of root.
fn ask_unprivileged(program: &str, prefix: &str, arguments: &[&str]) -> CommandOutput {
    std::fs::create_dir_all(prefix).unwrap();
    std::os::unix::fs::chown(prefix, Some(65534), Some(65534)).unwrap();
    let nobody =
        ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
    ask("setpriv", &[&nobody[..], &[program], arguments].concat())
}

fn ask(program: &str, arguments: &[&str]) -> CommandOutput {
    Command::new(program).args(arguments).current_dir("/").output().unwrap().into()
}
