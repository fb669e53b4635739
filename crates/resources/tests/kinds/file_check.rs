//! One file, directory or link: making it, changing it, removing it, and leaving it alone.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::file_common::{TestEnv, run};
use mgmt_resource::{Checked, Received};
use mgmt_resources::file::{File, Memory};

#[test]
fn a_file_is_touched_into_existence() {
    let world = TestEnv::new();
    world.converges(&world.exists("f"));
    assert_eq!(world.read("f"), b"");
    assert_eq!(world.mode("f"), 0o666 & !umask());
}

#[test]
fn present_is_another_word_for_exists() {
    let world = TestEnv::new();
    world.converges(&File { state: "present".into(), ..world.file("f") });
}

#[test]
fn content_is_written_exactly() {
    let world = TestEnv::new();
    for content in [&b""[..], b"hello\n", b"\x00\xff\xfe not text", &[b'x'; 300_000]] {
        world.converges(&world.content("f", content));
        assert_eq!(world.read("f"), content);
        std::fs::remove_file(world.at("f")).unwrap();
    }
}

#[test]
fn content_is_replaced_and_everything_else_is_kept() {
    let world = TestEnv::new();
    world.write("f", "old");
    world.set_mode("f", 0o640);
    world.set_owner("f", 7, 8);
    world.converges(&world.content("f", "new"));
    assert_eq!((world.mode("f"), world.owner("f")), (0o640, (7, 8)));
    // The same length, so that only the bytes differ.
    world.converges(&world.content("f", "wen"));
    assert_eq!(world.read("f"), b"wen");
}

#[test]
fn without_a_state_a_file_is_edited_but_never_made() {
    let world = TestEnv::new();
    let edit = File { content: Some("new".into()), ..world.file("f") };
    world.refuses(&edit, "does not exist, and is only changed", "`state => \"exists\"`");
    world.refuses(&File { mode: "0600".into(), ..world.file("f") }, "does not exist", "exists");
    world.refuses(&File { mode: "0600".into(), ..world.file("no/f") }, "does not exist", "exists");
    world.refuses(&File { owner: "7".into(), ..world.file("d/") }, "does not exist", "exists");
    world.is_right(&world.file("f"));
    world.is_right(&world.file("no/f"));
    world.is_right(&world.file("d/"));
    world.write("f", "old");
    world.converges(&edit);
}

#[test]
fn what_should_be_absent_is_removed() {
    let world = TestEnv::new();
    world.is_right(&world.absent("f"));
    world.is_right(&world.absent("no/such/f"));
    world.write("f", "");
    world.is_right(&world.absent("f/below/a/file"));
    world.converges(&world.absent("f"));
    world.fifo("p");
    world.converges(&world.absent("p"));
    assert_eq!(world.names(""), [""; 0]);
}

#[test]
fn what_should_be_absent_may_still_say_who_owns_it() {
    let world = TestEnv::new();
    world.write("f", "");
    world.write("d/f", "");
    let rest = |file: File| File { owner: "7".into(), group: "no-such".into(), mode: "0600".into(), ..file };
    world.converges(&rest(world.absent("f")));
    world.converges(&File { recurse: true, ..rest(world.absent("d/")) });
}

#[test]
fn an_absent_directory_goes_with_its_content_only_if_told_so() {
    let world = TestEnv::new();
    world.write("d/sub/f", "");
    world.write("outside/f", "kept");
    world.link("d/out", "../outside");
    for path in ["d/", "d"] {
        world.refuses(&world.absent(path), "the directory is not empty", "`recurse => true`");
    }
    world.converges(&File { recurse: true, ..world.absent("d/") });
    assert_eq!(world.read("outside/f"), b"kept");
    std::fs::create_dir(world.at("empty")).unwrap();
    world.converges(&world.absent("empty/"));
}

#[test]
fn an_absent_link_goes_and_its_target_stays_even_when_it_dangles() {
    let world = TestEnv::new();
    world.link("dangling", "nowhere");
    world.converges(&world.absent("dangling"));
    world.write("d/f", "kept");
    for path in ["link", "link/"] {
        world.link("link", "d");
        world.converges(&File { recurse: true, ..world.absent(path) });
    }
    assert_eq!(world.read("d/f"), b"kept");
}

#[test]
fn a_directory_is_made_with_or_without_its_parents() {
    let world = TestEnv::new();
    world.converges(&world.exists("d/"));
    assert_eq!(world.mode("d"), 0o777 & !umask());
    world.refuses_when(&world.exists("a/b/c/"), true, "does not exist", "declare file[");
    world.converges(&File { recurse: true, mode: "0750".into(), ..world.exists("a/b/c/") });
    assert_eq!((world.mode("a"), world.mode("a/b/c")), (0o777 & !umask(), 0o750));
}

#[test]
fn a_missing_parent_is_named_with_what_to_do_about_it() {
    let world = TestEnv::new();
    let file = world.content("a/b/f", "x");
    let hint = format!("declare file[{}/]", world.path("a").display());
    world.refuses_when(&file, true, "a does not exist", &hint);
    // Whatever will make the directory does not while only looking.
    assert_eq!(world.look(&file).unwrap(), Checked::Changed);
    assert_eq!(world.look(&world.exists("a/b/")).unwrap(), Checked::Changed);
}

#[test]
fn owner_group_and_mode_are_set_from_the_first_moment_and_repaired() {
    let world = TestEnv::new();
    let file = File { owner: "7".into(), group: "8".into(), mode: "0600".into(), ..world.content("f", "x") };
    world.converges(&file);
    let check = || assert_eq!((world.owner("f"), world.mode("f")), ((7, 8), 0o600));
    check();
    world.set_mode("f", 0o644);
    world.converges(&file);
    check();
    world.set_owner("f", 0, 8);
    world.converges(&file);
    check();
    std::fs::remove_file(world.at("f")).unwrap();
    world.converges(&file);
    check();
    std::fs::rename(world.at("f"), world.at("g")).unwrap();
    world.converges(&file);
    check();
    world.write("f", "drift");
    world.converges(&file);
    check();
}

#[test]
fn every_mode_converges_on_files_and_directories() {
    let world = TestEnv::new();
    for mode in ["0755", "4755", "2755", "1777", "6711", "7700", "u=rwxs,go=rx", "u=rwx,g=rxs,o=t", "0"] {
        for name in ["f", "d/"] {
            let file = File { mode: mode.into(), ..world.exists(name) };
            world.converges(&file);
            world.set_mode(name, 0o421);
            world.converges(&file);
            if mode.starts_with(|digit: char| digit.is_ascii_digit()) {
                assert_eq!(world.mode(name), u32::from_str_radix(mode, 8).unwrap(), "{name}");
            }
            run("rm", &["-r".as_ref(), world.at(name).as_os_str()]);
        }
    }
}

#[test]
fn a_symbolic_mode_leaves_those_it_does_not_name() {
    let world = TestEnv::new();
    world.write("f", "");
    world.set_mode("f", 0o640);
    world.converges(&File { mode: "u=rwx".into(), ..world.file("f") });
    assert_eq!(world.mode("f"), 0o740);
    world.converges(&File { mode: "u=rwx".into(), ..world.content("new", "") });
    assert_eq!(world.mode("new"), (0o666 & !umask() & 0o077) | 0o700);
    world.converges(&File { mode: "u=rwx".into(), ..world.exists("new-directory/") });
    assert_eq!(world.mode("new-directory"), 0o700);
    world.set_mode("f", 0o642);
    let dangerous = File { mode: "u=rwxs".into(), ..world.file("f") };
    world.refuses(&dangerous, "would become 4742", "declare the whole mode");
}

#[test]
fn the_setuid_bit_does_not_survive_a_new_owner_by_accident() {
    let world = TestEnv::new();
    world.write("f", "program");
    world.set_mode("f", 0o4755);
    world.converges(&File { owner: "7".into(), ..world.file("f") });
    assert_eq!(world.mode("f"), 0o755);
    world.set_owner("f", 0, 0);
    world.set_mode("f", 0o4755);
    world.converges(&File { owner: "7".into(), mode: "4755".into(), ..world.file("f") });
    assert_eq!((world.mode("f"), world.owner("f").0), (0o4755, 7));
}

#[test]
fn owner_and_mode_alone_work_on_a_directory_spelled_without_slash() {
    let world = TestEnv::new();
    std::fs::create_dir(world.at("d")).unwrap();
    world.converges(&File { mode: "0711".into(), owner: "7".into(), ..world.file("d") });
    assert_eq!((world.mode("d"), world.owner("d").0), (0o711, 7));
    world.refuses(&world.exists("d"), "is a directory, not a regular file", "end the path in a slash");
}

#[test]
fn an_account_that_does_not_exist_is_an_error_only_in_earnest() {
    let world = TestEnv::new();
    for file in [
        File { owner: "no-such-user".into(), ..world.content("f", "x") },
        File { group: "no-such-group".into(), ..world.exists("d/") },
        File { owner: "no-such-user".into(), ..link(&world, "l", "x") },
    ] {
        world.refuses_when(&file, true, "there is no ", "declare it before");
        assert_eq!(world.look(&file).unwrap(), Checked::Changed);
    }
}

#[test]
fn names_of_accounts_are_looked_up() {
    let world = TestEnv::new();
    world.set_owner("", 7, 7);
    world.converges(&File {
        owner: "root".into(),
        group: "root".into(),
        mode: "0755".into(),
        ..world.exists("")
    });
    assert_eq!(world.owner(""), (0, 0));
}

#[test]
fn a_file_is_copied_with_the_mode_of_its_source() {
    let world = TestEnv::new();
    world.write("source", "from there");
    world.set_mode("source", 0o4751);
    let file = File { source: world.path("source"), ..world.exists("f") };
    world.converges(&file);
    assert_eq!((world.read("f"), world.mode("f")), (b"from there".to_vec(), 0o751));
    world.write("source", "another text");
    world.converges(&file);
    world.write("f", "another tex!");
    world.converges(&file);
    world.converges(&File { mode: "u=rw".into(), ..file.clone() });
    assert_eq!(world.mode("f"), 0o651);
    std::fs::remove_file(world.at("source")).unwrap();
    world.refuses(&file, "source: No such file", "");
}

#[test]
fn a_source_may_be_a_link_that_we_can_trust_and_nothing_special() {
    let world = TestEnv::new();
    world.write("real/source", "text");
    world.link("link", "real/../real/source");
    world.converges(&File { source: world.path("link"), ..world.exists("f") });
    assert_eq!(world.read("f"), b"text");
    world.set_owner("link", 7, 7);
    let file = File { source: world.path("link"), ..world.exists("f") };
    world.refuses(&file, "belongs to user 7", "");
    world.fifo("fifo");
    let file = File { source: world.path("fifo"), ..world.exists("f") };
    world.refuses(&file, "it is a FIFO", "");
    let file = File { source: world.path("real"), ..world.exists("f") };
    world.refuses(&file, "it is a directory", "");
}

#[test]
fn a_source_that_hides_its_size_is_copied_and_then_left_alone() {
    let world = TestEnv::new();
    world.converges(&File { source: "/proc/version".into(), ..world.exists("f") });
    assert!(world.read("f").starts_with(b"Linux"));
}

#[test]
fn a_hard_link_to_the_source_is_right_as_it_is() {
    let world = TestEnv::new();
    world.write("source", "text");
    std::fs::hard_link(world.at("source"), world.at("f")).unwrap();
    world.is_right(&File { source: world.path("source"), ..world.exists("f") });
}

#[test]
fn fragments_are_joined_in_order_and_directories_sorted() {
    let world = TestEnv::new();
    world.write("one", "1\n");
    world.write("two", "2\n");
    world.write("three", "3\n");
    world.write("frag.d/b", "b\n");
    world.write("frag.d/a", "a\n");
    world.write("frag.d/.hidden", "h\n");
    world.write("frag.d/sub/never", "never\n");
    world.link("frag.d/c", "../two");
    world.write("more.d/x", "");
    world.write("more.d/y", "y");
    let fragments = ["one", "frag.d/", "two", "more.d/", "three"].map(|name| world.path(name)).to_vec();
    let file = File { fragments, ..world.exists("whole") };
    world.converges(&file);
    assert_eq!(world.read("whole"), b"1\nh\na\nb\n2\n2\ny3\n");
    world.write("frag.d/b", "B\n");
    world.converges(&file);
    world.write("more.d/x", "longer");
    world.converges(&file);
    assert_eq!(world.read("whole"), b"1\nh\na\nB\n2\n2\nlongery3\n");
    world.write("whole", "1\nh\na\nB\n2\n2\nlongery3!");
    world.converges(&file);
    world.fifo("more.d/pipe");
    world.refuses(&file, "it is a FIFO", "");
    std::fs::remove_file(world.at("more.d/pipe")).unwrap();
    std::fs::remove_file(world.at("three")).unwrap();
    world.refuses(&file, "three: No such file", "");
}

#[test]
fn many_fragments_need_few_descriptors() {
    let world = TestEnv::new();
    let fragments: Vec<_> = (0..3000).map(|number| format!("f{number}")).collect();
    fragments.iter().for_each(|name| world.write(name, name));
    let declared = fragments.iter().map(|name| world.path(name)).collect();
    world.converges(&File { fragments: declared, ..world.exists("whole") });
    assert_eq!(world.read("whole"), fragments.concat().as_bytes());
}

#[test]
fn what_another_resource_will_make_is_no_error_when_only_looking() {
    let world = TestEnv::new();
    world.graph(&[("a", world.content("made/source", "x")), ("b", world.content("frag.d/x", "x"))]);
    let copy = File { source: world.path("made/source"), ..world.exists("f") };
    let joined = File { fragments: vec![world.path("frag.d/")], ..world.exists("f") };
    let tree = File { source: world.path("made/"), recurse: true, ..world.exists("d/") };
    std::fs::create_dir(world.at("d")).unwrap();
    for file in [copy, joined, tree] {
        assert_eq!(world.look(&file).unwrap(), Checked::Changed);
        world.apply(&file).unwrap_err();
    }
    let other = File { source: world.path("other"), ..world.exists("f") };
    world.refuses(&other, "other: No such file", "");
}

fn link(world: &TestEnv, name: &str, text: &str) -> File {
    File { symlink: true, source: text.into(), ..world.exists(name) }
}

#[test]
fn a_link_is_made_with_exactly_this_text_and_turned_when_it_differs() {
    let world = TestEnv::new();
    for text in ["nowhere", "../x/./y//z", "/etc/passwd", "with\nnewline"] {
        world.converges(&link(&world, "l", text));
        assert_eq!(std::fs::read_link(world.at("l")).unwrap().as_os_str(), OsStr::new(text));
    }
    world.converges(&File { symlink: true, ..world.absent("l") });
    world.is_right(&File { symlink: true, ..world.absent("l") });
    world.is_right(&File { symlink: true, source: "x".into(), ..world.file("l") });
    assert_eq!(world.look(&link(&world, "no/l", "x")).unwrap(), Checked::Changed);
    world.refuses_when(&link(&world, "no/l", "x"), true, "does not exist", "declare file[");
}

#[test]
fn owner_of_a_link_is_that_of_the_link_and_its_mode_means_nothing() {
    let world = TestEnv::new();
    world.write("victim", "secret");
    world.set_mode("victim", 0o600);
    let file =
        File { owner: "7".into(), group: "8".into(), mode: "0777".into(), ..link(&world, "l", "victim") };
    world.converges(&file);
    assert_eq!((world.owner("l"), world.owner("victim"), world.mode("victim")), ((7, 8), (0, 0), 0o600));
    world.set_owner("l", 0, 0);
    world.converges(&file);
    world.converges(&File {
        owner: "9".into(),
        source: Default::default(),
        state: "".into(),
        ..file.clone()
    });
    assert_eq!((world.owner("l"), world.owner("victim")), ((9, 8), (0, 0)));
    std::fs::remove_file(world.at("l")).unwrap();
    let unmade = File { state: "".into(), ..file };
    world.refuses(&unmade, "does not exist", "exists");
    world.write("l", "no link");
    world.refuses(&unmade, "is a regular file, not a symbolic link", "take `symlink` away");
}

#[test]
fn a_link_replaces_something_else_only_by_force() {
    let world = TestEnv::new();
    world.write("l", "file");
    let file = link(&world, "l", "x");
    world.refuses(&file, "is a regular file, not a symbolic link", "`force => true`");
    world.refuses(&File { symlink: true, ..world.absent("l") }, "is a regular file", "force");
    world.converges(&File { force: true, ..file.clone() });
    std::fs::remove_file(world.at("l")).unwrap();
    std::fs::create_dir(world.at("l")).unwrap();
    world.refuses(&file, "is a directory, not a symbolic link", "`force => true`");
    world.converges(&File { force: true, ..file.clone() });
    std::fs::remove_file(world.at("l")).unwrap();
    world.write("l/inside", "kept");
    world.refuses_when(&File { force: true, ..file }, true, "the directory is not empty", "remove it first");
    assert_eq!(world.read("l/inside"), b"kept");
    let absent = File { symlink: true, force: true, ..world.absent("l") };
    world.refuses_when(&absent, true, "the directory is not empty", "recurse");
    std::fs::remove_file(world.at("l/inside")).unwrap();
    world.converges(&absent);
}

#[test]
fn a_directory_in_the_place_of_a_file_gives_way_only_to_force() {
    let world = TestEnv::new();
    world.write("f/inside", "x");
    let file = world.content("f", "new");
    world.refuses(&file, "is a directory, not a regular file", "`force => true`");
    world.converges(&File { force: true, ..file });
    assert_eq!(world.read("f"), b"new");
}

#[test]
fn a_file_in_the_place_of_a_directory_gives_way_only_to_force() {
    let world = TestEnv::new();
    let directory = world.exists("d/");
    let by_force = File { force: true, ..directory.clone() };
    world.write("d", "file");
    world.refuses(&directory, "is a regular file, not a directory", "`force => true`");
    world.converges(&by_force);
    run("rmdir", &[world.at("d").as_os_str()]);
    world.fifo("d");
    world.refuses(&directory, "is a FIFO, not a directory", "`force => true`");
    world.converges(&by_force);
    run("rmdir", &[world.at("d").as_os_str()]);
    world.link("d", "nowhere");
    world.refuses(&directory, "nowhere does not exist", "");
    world.converges(&by_force);
    run("rmdir", &[world.at("d").as_os_str()]);
    world.write("d", "file");
    world.refuses(&world.absent("d/"), "is a regular file, not a directory", "`force => true`");
    world.converges(&File { force: true, ..world.absent("d/") });
}

#[test]
fn a_link_to_a_directory_will_do_for_a_directory_if_it_can_be_trusted() {
    let world = TestEnv::new();
    std::fs::create_dir(world.at("real")).unwrap();
    world.link("d", "real");
    world.is_right(&world.exists("d/"));
    world.converges(&File { mode: "0711".into(), ..world.exists("d/") });
    assert_eq!(world.mode("real"), 0o711);
    world.set_owner("d", 7, 7);
    world.refuses(&world.exists("d/"), "belongs to user 7", "");
    world.converges(&File { force: true, ..world.exists("d/") });
    assert!(!world.at("d").is_symlink() && world.is_there("real"));
}

#[test]
fn a_link_in_the_place_of_a_file_is_never_written_through() {
    let world = TestEnv::new();
    world.write("victim", "untouched");
    world.link("f", "victim");
    for file in
        [world.content("f", "new"), world.exists("f"), File { mode: "0777".into(), ..world.file("f") }]
    {
        world.refuses(&file, "is a symbolic link, not a regular file", "the link points to");
    }
    world.converges(&File { force: true, ..world.content("f", "new") });
    assert_eq!((world.read("victim"), world.read("f")), (b"untouched".to_vec(), b"new".to_vec()));
}

#[test]
fn special_files_are_refused_without_being_opened() {
    let world = TestEnv::new();
    world.fifo("fifo");
    run("mknod", &[world.at("device").as_os_str(), "c".as_ref(), "1".as_ref(), "5".as_ref()]);
    let _socket = std::os::unix::net::UnixListener::bind(world.at("socket")).unwrap();
    for (name, kind) in [("fifo", "a FIFO"), ("device", "a character device"), ("socket", "a socket")] {
        for force in [false, true] {
            for file in [
                world.content(name, "x"),
                world.exists(name),
                File { mode: "0600".into(), ..world.file(name) },
            ] {
                world.refuses(
                    &File { force, ..file },
                    &format!("is {kind}, not a regular file"),
                    "remove it first",
                );
            }
        }
    }
}

#[test]
fn other_names_of_a_replaced_file_keep_the_old_content() {
    let world = TestEnv::new();
    world.write("shadow", "secret");
    std::fs::hard_link(world.at("shadow"), world.at("f")).unwrap();
    world.converges(&world.content("f", "new"));
    assert_eq!((world.read("shadow"), world.read("f")), (b"secret".to_vec(), b"new".to_vec()));
}

#[test]
fn names_and_content_are_bytes() {
    let world = TestEnv::new();
    for name in [&b"\xff\xfe"[..], b"line\nbreak", b" ", b"\x1b[2J", b"-rf"] {
        let name = OsStr::from_bytes(name);
        world.converges(&world.content(name, b"\xff\x00"));
        world.converges(&world.absent(name));
        let mut directory = name.to_owned();
        directory.push("/");
        world.converges(&world.exists(&directory));
        world.converges(&world.absent(&directory));
    }
}

#[test]
fn the_root_directory_can_be_looked_at() {
    let world = TestEnv::new();
    world.is_right(&File { path: "/".into(), state: "exists".into(), ..File::default() });
    let owned = File { path: "/".into(), owner: "3999999999".into(), ..File::default() };
    assert_eq!(world.look(&owned).unwrap(), Checked::Changed);
}

#[test]
fn what_is_remembered_is_forgotten_when_anything_changes() {
    let world = TestEnv::new();
    world.write("f", "right");
    world.write("source", "right");
    world.write("part", "right");
    let copy = File { source: world.path("source"), ..world.exists("f") };
    let joined = File { fragments: vec![world.path("part")], ..world.exists("f") };
    let content = world.content("f", "right");
    // Long enough that the last change counts as past, so that the check after it is remembered.
    std::thread::sleep(std::time::Duration::from_millis(4500));
    let mut memories = [Memory::default(), Memory::default(), Memory::default()];
    let files = [&content, &copy, &joined];
    for (file, memory) in files.iter().zip(&mut memories) {
        for apply in [true, false, true] {
            assert_eq!(world.run(file, memory, apply).unwrap(), Checked::Right);
        }
    }
    // The same length, and the old time of modification.
    let modified = world.at("f").metadata().unwrap().modified().unwrap();
    world.write("f", "wrong");
    let handle = std::fs::File::options().write(true).open(world.at("f")).unwrap();
    handle.set_modified(modified).unwrap();
    drop(handle);
    for (file, memory) in files.iter().zip(&mut memories) {
        assert_eq!(world.run(file, memory, false).unwrap(), Checked::Changed);
    }
    for (file, memory) in files.iter().zip(&mut memories).take(1) {
        assert_eq!(world.run(file, memory, true).unwrap(), Checked::Changed);
        assert_eq!(world.run(file, memory, true).unwrap(), Checked::Right);
    }
    world.write("source", "wrong");
    world.write("part", "wrong");
    for (file, memory) in files.iter().zip(&mut memories).skip(1) {
        assert_eq!(world.run(file, memory, false).unwrap(), Checked::Changed);
    }
    let other = world.content("f", "other");
    assert_eq!(world.run(&other, &mut memories[0], false).unwrap(), Checked::Changed);
    assert_eq!(world.run(&other, &mut memories[0], true).unwrap(), Checked::Changed);
    let received = [Received { field: "content", changed: true }];
    let got = world.content("f", "received");
    assert_eq!(world.run_receiving(&got, &mut memories[0], true, &received).unwrap(), Checked::Changed);
    assert_eq!(world.read("f"), b"received");
}

#[test]
fn the_security_context_is_set_and_removed_on_everything() {
    let world = TestEnv::new();
    let context = |name: &str| {
        let mut value = [0; 100];
        let path = world.at(name);
        rustix::fs::lgetxattr(&path, "security.selinux", &mut value)
            .map(|length| value[..length].to_vec())
            .ok()
    };
    let label = |file: File, label: &str| File { selinux: Some(label.into()), ..file };
    let link = link(&world, "l", "f");
    for (name, file) in
        [("f", world.content("f", "x")), ("d", world.exists("d/")), ("l", link), ("f", world.file("f"))]
    {
        world.converges(&label(file.clone(), "system_u:object_r:etc_t:s0"));
        assert_eq!(context(name).unwrap(), b"system_u:object_r:etc_t:s0");
        world.converges(&label(file.clone(), "system_u:object_r:tmp_t:s0"));
        world.converges(&label(file.clone(), ""));
        assert_eq!(context(name), None);
        world.is_right(&file);
    }
}

#[test]
fn a_temporary_of_a_killed_run_is_swept_when_its_directory_is_written() {
    let world = TestEnv::new();
    world.write(".mgmt-0123456789abcdef.tmp", "half");
    world.apply(&world.content("f", "x")).unwrap();
    assert_eq!(world.names(""), ["f"]);
}

fn umask() -> u32 {
    mgmt_sys::mode::default_directory_mode() ^ 0o777
}

#[test]
fn what_is_there_keeps_its_content_if_the_file_is_only_to_be_made() {
    let world = TestEnv::new();
    let file = File { createonly: true, mode: "0600".into(), ..world.content("a", "new") };
    world.converges(&file);
    assert_eq!(world.read("a"), b"new");
    world.write("b", "old");
    let file = File { createonly: true, mode: "0600".into(), ..world.content("b", "new") };
    world.converges(&file);
    assert_eq!((world.read("b"), world.mode("b")), (b"old".to_vec(), 0o600));
}

#[test]
fn what_is_there_stays_of_whatever_type_if_it_is_only_to_be_made() {
    let world = TestEnv::new();
    world.write("file", "old");
    world.write("d/below", "x");
    world.set_mode("d", 0o700);
    world.link("l", "nowhere");
    for name in ["d", "l"] {
        world.converges(&File {
            createonly: true,
            owner: "7".into(),
            mode: "0640".into(),
            ..world.content(name, "new")
        });
        assert_eq!(world.owner(name).0, 7, "{name}");
    }
    assert_eq!((world.mode("d"), world.read("d/below")), (0o750, b"x".to_vec()));
    let link = File { createonly: true, symlink: true, source: "elsewhere".into(), ..world.exists("l") };
    world.is_right(&link);
    assert_eq!(std::fs::read_link(world.at("l")).unwrap(), OsStr::new("nowhere"));
    world.is_right(&File { createonly: true, ..world.exists("file/") });
    assert_eq!(world.read("file"), b"old");
}

#[test]
fn anything_that_is_there_will_do_if_the_type_does_not_matter() {
    let world = TestEnv::new();
    let any = |name: &str| File { anytype: true, mode: "0600".into(), ..world.content(name, "new") };
    world.write("f", "old");
    world.write("d/below", "x");
    world.link("l", "f");
    for name in ["none", "f", "d", "l"] {
        world.apply(&any(name)).unwrap();
        world.is_right(&any(name));
    }
    assert_eq!((world.read("none"), world.read("f")), (b"new".to_vec(), b"new".to_vec()));
    assert_eq!((world.mode("d"), world.read("d/below")), (0o700, b"x".to_vec()));
    assert!(world.at("l").is_symlink());
    // It would take no effect there.
    world.refuses(&File { anytype: true, ..world.exists("d/") }, "is for files", "");
}

#[test]
fn a_link_or_a_file_gives_way_to_a_directory_if_it_may() {
    let world = TestEnv::new();
    world.write("f", "old");
    world.write("target/below", "x");
    world.link("l", "target");
    for name in ["f/", "l/"] {
        let directory = File { instead: true, ..world.exists(name) };
        world.converges(&directory);
        assert!(world.at(name.trim_end_matches('/')).symlink_metadata().unwrap().is_dir(), "{name}");
    }
    assert_eq!(world.read("target/below"), b"x");
}

#[test]
fn permissions_are_added_and_taken_away() {
    let world = TestEnv::new();
    let changed = |name: &str| File { modechange: "u+x,g-r".into(), ..world.content(name, "x") };
    world.converges(&changed("new"));
    assert_eq!(world.mode("new"), 0o704);
    world.write("old", "x");
    world.set_mode("old", 0o670);
    world.converges(&changed("old"));
    assert_eq!(world.mode("old"), 0o730);
}

#[test]
fn new_content_is_validated_before_it_is_in_place_and_old_content_is_kept() {
    let world = TestEnv::new();
    world.write("a b", "old");
    world.set_mode("a b", 0o640);
    let file = |content: &str, command: &str| File {
        validatecmd: command.into(),
        backup: ".old".into(),
        ..world.content("a b", content)
    };
    let error = world.apply(&file("bad", "echo it says no; grep -q good %")).unwrap_err();
    assert!(error.to_string().contains("it says no"), "{error}");
    assert_eq!((world.read("a b"), world.at("a b.old").exists()), (b"old".to_vec(), false));
    world.converges(&file("good", "test % != x && grep -q good %"));
    assert_eq!((world.read("a b"), world.read("a b.old")), (b"good".to_vec(), b"old".to_vec()));
    assert_eq!((world.mode("a b"), world.mode("a b.old")), (0o640, 0o640));
    // Who is asked is asked only about what is new.
    world.is_right(&file("good", "false"));
}

#[test]
fn links_and_files_give_way_to_each_other_and_directories_do_not() {
    let world = TestEnv::new();
    world.write("target", "target");
    world.link("a", "target");
    world.converges(&File { instead: true, ..world.content("a", "a file") });
    assert_eq!((world.read("a"), world.read("target")), (b"a file".to_vec(), b"target".to_vec()));
    let link =
        |name: &str| File { instead: true, symlink: true, source: "target".into(), ..world.exists(name) };
    world.converges(&link("a"));
    assert_eq!(world.read("a"), b"target");
    std::fs::create_dir(world.at("d")).unwrap();
    world.refuses(&link("d"), "directory", "");
    world.refuses(&File { instead: true, ..world.content("d", "a file") }, "directory", "");
}
