//! What each tool is told: the same work in the language of each.

use std::fmt::Write as _;
use std::path::PathBuf;

/// What a tool is to do.
pub(crate) enum Job<'a> {
    /// These files, with this content.
    Files { paths: &'a [PathBuf], content: &'a str },
    /// These directories, each by a command, and after the one before.
    Chain(&'a [PathBuf]),
}

pub(crate) fn mcl(job: &Job<'_>) -> String {
    let mut text = String::new();
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "file \"{}\" {{\n\tstate => \"exists\",\n\tmode => \"0644\",\n\tcontent => \"{content}\",\n}}",
                    path.display()
                );
            }
        }
        Job::Chain(directories) => {
            for (number, directory) in directories.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "exec \"e{number}\" {{\n\tcmd => \"/bin/mkdir {}\",\n\tshell => \"\",\n}}",
                    directory.display()
                );
            }
            for number in 1..directories.len() {
                let _ = writeln!(text, "Exec[\"e{}\"] -> Exec[\"e{number}\"]", number - 1);
            }
        }
    }
    text
}

pub(crate) fn puppet(job: &Job<'_>) -> String {
    let mut text = String::new();
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "file {{ '{}': ensure => file, mode => '0644', content => '{content}' }}",
                    path.display()
                );
            }
        }
        Job::Chain(directories) => {
            for (number, directory) in directories.iter().enumerate() {
                let after =
                    if number > 0 { format!(", require => Exec['e{}']", number - 1) } else { String::new() };
                let _ = writeln!(
                    text,
                    "exec {{ 'e{number}': command => '/bin/mkdir {}'{after} }}",
                    directory.display()
                );
            }
        }
    }
    text
}

/// `has_content` is whether this version has a word for the content of a file; before, it was put together from lines.
pub(crate) fn cfengine(job: &Job<'_>, has_content: bool) -> String {
    // Promises of one type are kept in their order, so that a chain needs nothing else.
    let mut text = String::from(
        "body common control { bundlesequence => { \"main\" }; }\nbody perms m { mode => \"0644\"; }\n",
    );
    if !has_content {
        text.push_str(
            "body edit_defaults e { empty_file_before_editing => \"true\"; edit_backup => \"false\"; }\n\
             bundle edit_line content { insert_lines: \"$(main.content)\"; }\n",
        );
    }
    text.push_str("bundle agent main\n{\n");
    match job {
        Job::Files { paths, content } => {
            let _ = writeln!(text, "vars: \"content\" string => \"{content}\";\nfiles:");
            let how = match has_content {
                true => "content => \"$(content)\"",
                false => "edit_line => content, edit_defaults => e",
            };
            for path in *paths {
                let _ = writeln!(text, "\"{}\" create => \"true\", perms => m, {how};", path.display());
            }
        }
        Job::Chain(directories) => {
            text.push_str("commands:\n");
            for directory in *directories {
                let _ = writeln!(text, "\"/bin/mkdir {}\";", directory.display());
            }
        }
    }
    text.push_str("}\n");
    text
}

pub(crate) fn ansible(job: &Job<'_>) -> String {
    let mut text = String::from("- hosts: all\n  gather_facts: false\n  tasks:\n");
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "  - copy: {{dest: {}, mode: \"0644\", content: \"{content}\"}}",
                    path.display()
                );
            }
        }
        Job::Chain(directories) => {
            for directory in *directories {
                let _ = writeln!(text, "  - command: /bin/mkdir {}", directory.display());
            }
        }
    }
    text
}

pub(crate) fn pyinfra(job: &Job<'_>) -> String {
    let mut text = String::from("from io import StringIO\nfrom pyinfra.operations import files, server\n");
    match job {
        Job::Files { paths, content } => {
            for path in *paths {
                let _ = writeln!(
                    text,
                    "files.put(src=StringIO('{content}'), dest='{}', mode='644')",
                    path.display()
                );
            }
        }
        Job::Chain(directories) => {
            for directory in *directories {
                let _ = writeln!(text, "server.shell(commands=['/bin/mkdir {}'])", directory.display());
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_told_every_file_and_every_command_in_order() {
        let paths: Vec<PathBuf> = (0..3).map(|number| format!("/x/{number}").into()).collect();
        let old = |job: &Job<'_>| cfengine(job, false);
        let new = |job: &Job<'_>| cfengine(job, true);
        let writers: [&dyn Fn(&Job<'_>) -> String; 6] = [&mcl, &puppet, &old, &new, &ansible, &pyinfra];
        for writer in writers {
            let files = writer(&Job::Files { paths: &paths, content: "some text" });
            let chain = writer(&Job::Chain(&paths));
            assert!(files.contains("some text"), "{files}");
            for (text, word) in [(&files, "/x/"), (&chain, "/bin/mkdir /x/")] {
                let places: Vec<_> = (0..3).map(|number| text.find(&format!("{word}{number}"))).collect();
                assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
            }
        }
    }
}
