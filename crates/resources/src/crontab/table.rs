//! Jobs in the text of a table.

/// A job as it is to be in the table.
#[derive(Debug, PartialEq)]
pub(super) struct Job {
    /// The comment that it is known by.
    pub(super) comment: Vec<u8>,
    pub(super) environment: Vec<Vec<u8>>,
    pub(super) line: Vec<u8>,
}

impl Job {
    /// The table with the job in it. Nothing if it is there already.
    pub(super) fn put_into(&self, text: &[u8]) -> Option<Vec<u8>> {
        let lines = lines(text);
        let wanted = self.lines();
        let at = self.find(&lines).or_else(|| self.find_nameless(&lines));
        let new: Vec<&[u8]> = match at {
            Some(at) if lines[at.clone()] == wanted[..] => return None,
            Some(at) => [&lines[..at.start], &wanted[..], &lines[at.end..]].concat(),
            None => [&lines[..], &wanted[..]].concat(),
        };
        Some(joined(&new))
    }

    /// The table without the job. Nothing if it is not there.
    pub(super) fn removed_from(&self, text: &[u8]) -> Option<Vec<u8>> {
        let lines = lines(text);
        let at = self.find(&lines)?;
        Some(joined(&[&lines[..at.start], &lines[at.end..]].concat()))
    }

    fn lines(&self) -> Vec<&[u8]> {
        let environment = self.environment.iter().map(Vec::as_slice);
        std::iter::once(&self.comment[..]).chain(environment).chain([&self.line[..]]).collect()
    }

    /// The lines of the job: its comment, and all up to the job itself, if one follows.
    fn find(&self, lines: &[&[u8]]) -> Option<std::ops::Range<usize>> {
        let start = lines.iter().position(|line| line.trim_ascii_end() == self.comment)?;
        let rest = &lines[start + 1..];
        let variables = rest.iter().take_while(|line| is_variable(line)).count();
        let has_job = rest.get(variables).is_some_and(|line| is_job(line));
        Some(start..start + 1 + variables + usize::from(has_job))
    }

    /// The same job, if it is there without a comment.
    fn find_nameless(&self, lines: &[&[u8]]) -> Option<std::ops::Range<usize>> {
        if !self.environment.is_empty() {
            return None;
        }
        let same = |line: &[u8]| words(line).eq(words(&self.line));
        let is_nameless = |at: usize| at == 0 || !lines[at - 1].starts_with(b"# ");
        let at = (0..lines.len()).find(|&at| is_job(lines[at]) && same(lines[at]) && is_nameless(at))?;
        Some(at..at + 1)
    }
}

/// Whether it is a line for the environment.
pub(super) fn is_variable(line: &[u8]) -> bool {
    let Some(at) = line.iter().position(|byte| *byte == b'=') else { return false };
    let name = line[..at].trim_ascii();
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

fn is_job(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    !line.is_empty() && !line.starts_with(b"#") && !is_variable(line)
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.is_empty() { Vec::new() } else { text.split(|byte| *byte == b'\n').collect() }
}

/// Cron reads no table whose last line has no end.
fn joined(lines: &[&[u8]]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line, &b"\n"[..]]).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(environment: &[&str], line: &str) -> Job {
        let environment = environment.iter().map(|line| line.as_bytes().to_vec()).collect();
        Job { comment: b"# mgmt: backup".to_vec(), environment, line: line.into() }
    }

    #[track_caller]
    fn becomes(text: &str, job: &Job, expected: &str) {
        let new = job.put_into(text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&new), expected);
        assert_eq!(job.put_into(&new), None);
    }

    #[test]
    fn a_job_is_added_changed_where_it_is_and_removed() {
        let wanted = job(&["MAILTO=me"], "0 3 * * * backup");
        let block = "# mgmt: backup\nMAILTO=me\n0 3 * * * backup\n";
        becomes("", &wanted, block);
        becomes("# mine\n* * * * * other", &wanted, &format!("# mine\n* * * * * other\n{block}"));
        let old = "A=b\n# mgmt: backup\nMAILTO=you\nX=y\n5 5 * * * old\n# mgmt: other\n1 1 * * * x\n";
        becomes(old, &wanted, &format!("A=b\n{block}# mgmt: other\n1 1 * * * x\n"));
        // A comment without a job is no job.
        becomes("# mgmt: backup\n\n1 1 * * * x\n", &wanted, &format!("{block}\n1 1 * * * x\n"));
        let gone = wanted.removed_from(format!("A=b\n{block}\n# x\n").as_bytes()).unwrap();
        assert_eq!(String::from_utf8_lossy(&gone), "A=b\n\n# x\n");
        assert_eq!(wanted.removed_from(&gone), None);
    }

    #[test]
    fn the_same_job_without_a_name_gets_one() {
        let wanted = job(&[], "@daily backup --all");
        becomes("@daily  backup --all\n", &wanted, "# mgmt: backup\n@daily backup --all\n");
        // It is somebody else's.
        let other = "# mgmt: other\n@daily backup --all\n";
        becomes(other, &wanted, &format!("{other}# mgmt: backup\n@daily backup --all\n"));
    }
}
