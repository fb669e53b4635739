use super::*;
use crate::module::files::Memory;

/// What an import in the file that the program starts with gives: the file, or what is wrong.
fn import(files: &Memory, entry: &str, name: &str) -> String {
    let resolver = Resolver::new(files, None);
    let (from, _) = resolver.entry(&Entry::parse(entry).unwrap()).unwrap();
    resolved(&resolver, &from, name).map_or_else(|error| error, |location| location.display)
}

fn resolved(resolver: &Resolver<'_>, from: &Location, name: &str) -> Result<Location, String> {
    match resolver.resolve(&ImportName::parse(name).unwrap(), from) {
        Ok((location, _)) => Ok(location),
        Err(error) => Err(match error.hint() {
            Some(hint) => format!("{error} | {hint}"),
            None => error.to_string(),
        }),
    }
}

fn entry(files: &Memory, argument: &str) -> String {
    let resolver = Resolver::new(files, None);
    match resolver.entry(&Entry::parse(argument).unwrap()) {
        Ok((location, content)) => format!("{} {}", location.display, String::from_utf8_lossy(&content)),
        Err(error) => match error.hint() {
            Some(hint) => format!("{error} | {hint}"),
            None => error.to_string(),
        },
    }
}

#[test]
fn a_program_starts_where_its_argument_says() {
    let mut files = Memory::from([
        ("/a/x.mcl", "x"),
        ("/a/main.mcl", "plain"),
        ("/b/metadata.yaml", "main: sub/start.mcl"),
        ("/b/sub/start.mcl", "start"),
        ("/c/metadata.yaml", "main: gone.mcl"),
        ("/d/metadata.yaml", "main: /x"),
        ("/e/other", ""),
    ]);
    files.set_standard_input("typed");
    for (argument, wanted) in [
        ("a/x.mcl", "a/x.mcl x"),
        ("/a/x.mcl", "a/x.mcl x"),
        ("a/", "a/main.mcl plain"),
        ("b/", "b/sub/start.mcl start"),
        ("b/metadata.yaml", "b/sub/start.mcl start"),
        ("-", "standard input typed"),
        ("$x = 1", "command line $x = 1"),
        ("a/y.mcl", "there is no file `a/y.mcl` | did you mean `x.mcl`?"),
        ("c/", "there is no file `c/gone.mcl`"),
        (
            "d/",
            "d/metadata.yaml:1:7: `main` must be a relative path | write it relative to the directory of the metadata",
        ),
        ("e/", "there is no module in `e/`: it has neither `metadata.yaml` nor `main.mcl`"),
        (
            "f/",
            "there is no module in `f/`: it has neither `metadata.yaml` nor `main.mcl` | did you mean `a/`?",
        ),
        ("a/metadata.yaml", "there is no file `a/metadata.yaml`"),
    ] {
        assert_eq!(entry(&files, argument), wanted, "{argument}");
    }
}

#[test]
fn standard_input_can_be_asked_for_twice() {
    let mut files = Memory::default();
    files.set_standard_input("typed");
    let resolver = Resolver::new(&files, None);
    for _ in 0..2 {
        assert_eq!(resolver.entry(&Entry::StandardInput).unwrap().1, b"typed");
    }
}

#[test]
fn local_imports_are_relative_to_the_file_that_imports() {
    let files = Memory::from([
        ("/p/metadata.yaml", "main: src/main.mcl"),
        ("/p/src/main.mcl", ""),
        ("/p/src/lib/one.mcl", ""),
        ("/p/src/lib/two.mcl", ""),
        ("/p/src/mod/metadata.yaml", "main: deep/start.mcl\npath: vendor/"),
        ("/p/src/mod/deep/start.mcl", ""),
        ("/p/src/mod/deep/near.mcl", ""),
        ("/p/bare/main.mcl", ""),
        ("/p/none/x", ""),
    ]);
    let resolver = Resolver::new(&files, None);
    let (main, _) = resolver.entry(&Entry::Directory("p".into())).unwrap();
    let at = |from: &Location, name: &str| resolved(&resolver, from, name).unwrap();
    let one = at(&main, "lib/one.mcl");
    assert_eq!((one.display.as_str(), one.base()), ("p/src/lib/one.mcl", Path::new("/p/src/lib")));
    assert!(one.metadata().is_none());
    assert_eq!(at(&one, "two.mcl").display, "p/src/lib/two.mcl");
    assert_eq!(at(&one, "../main.mcl").identity, main.identity);
    let module = at(&main, "mod/");
    assert_eq!(
        (module.display.as_str(), module.base()),
        ("p/src/mod/deep/start.mcl", Path::new("/p/src/mod"))
    );
    assert_eq!(module.metadata_source().unwrap().0, "p/src/mod/metadata.yaml");
    assert_eq!(at(&module, "near.mcl").display, "p/src/mod/deep/near.mcl");
    assert_eq!(at(&main, "../bare/").display, "p/bare/main.mcl");
    assert_eq!(
        import(&files, "p/", "lib/on.mcl"),
        "there is no file `p/src/lib/on.mcl` | did you mean `one.mcl`?"
    );
    assert_eq!(
        import(&files, "p/", "../none/"),
        "there is no module in `p/none/`: it has neither `metadata.yaml` nor `main.mcl`"
    );
    let strings = ImportName::parse("lib/one").unwrap();
    assert_eq!(resolver.local_namesake(&strings, &main).as_deref(), Some("lib/one.mcl"));
    assert_eq!(resolver.local_namesake(&ImportName::parse("mod").unwrap(), &main).as_deref(), Some("mod/"));
    assert_eq!(resolver.local_namesake(&ImportName::parse("fmt").unwrap(), &main), None);
}

/// A program with two modules inside each other, each with a directory of modules.
fn nested(outer: &str, inner: &str) -> Memory {
    let mut files =
        Memory::from([("/p/main.mcl", ""), ("/p/outer/inner/main.mcl", ""), ("/p/outer/main.mcl", "")]);
    files.insert("/p/metadata.yaml", "path: m0/");
    files.insert("/p/outer/metadata.yaml", outer);
    files.insert("/p/outer/inner/metadata.yaml", inner);
    files
}

#[test]
fn modules_from_elsewhere_are_looked_for_from_the_inside_out() {
    let search = |files: &Memory, module_path: Option<&str>, imports: &[&str]| {
        let resolver = Resolver::new(files, module_path.map(PathBuf::from));
        let (mut from, _) = resolver.entry(&Entry::Directory("/p".into())).unwrap();
        for name in imports {
            from = resolved(&resolver, &from, name).unwrap();
        }
        let roots = from.search_path();
        roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    let files = nested("path: m1/", "path: m2/");
    assert_eq!(search(&files, None, &[]), "/p/m0");
    assert_eq!(search(&files, Some("all/"), &["outer/"]), "/p/outer/m1 /p/m0 /all");
    assert_eq!(search(&files, None, &["outer/", "inner/"]), "/p/outer/inner/m2 /p/outer/m1 /p/m0");
    assert_eq!(search(&files, None, &["outer/main.mcl"]), "/p/m0");
    let files = nested("path: m1/\nparentpathblock: true", "path: m2/");
    assert_eq!(search(&files, Some("/all"), &["outer/", "inner/"]), "/p/outer/inner/m2 /p/outer/m1 /all");
    let files = nested("", "parentpathblock: true");
    assert_eq!(search(&files, Some("/all"), &["outer/"]), "/p/m0 /all");
    assert_eq!(search(&files, Some("/all"), &["outer/", "inner/"]), "/all");
    let plain = Memory::from([("/q/x.mcl", "")]);
    let resolver = Resolver::new(&plain, None);
    let (from, _) = resolver.entry(&Entry::File("q/x.mcl".into())).unwrap();
    assert_eq!(from.search_path(), [Path::new("/q/modules")]);
}

#[test]
fn the_first_directory_with_metadata_wins() {
    let mut files = nested("path: m1/", "");
    let from_outer = |files: &Memory| {
        let resolver = Resolver::new(files, Some("/all".into()));
        let (main, _) = resolver.entry(&Entry::Directory("/p".into())).unwrap();
        let outer = resolved(&resolver, &main, "outer/").unwrap();
        resolved(&resolver, &outer, "git://h/team/mgmt-x").map_or_else(|error| error, |found| found.display)
    };
    assert_eq!(
        from_outer(&files),
        "the module `git://h/team/mgmt-x` has not been downloaded | `mgmt get p/` downloads it"
    );
    files.insert("/all/h/team/mgmt-x/main.mcl", "");
    assert!(
        from_outer(&files).starts_with("`all/h/team/mgmt-x/` is not a module: it has no `metadata.yaml`")
    );
    files.insert("/all/h/team/mgmt-x/metadata.yaml", "");
    assert_eq!(from_outer(&files), "all/h/team/mgmt-x/main.mcl");
    files.insert("/p/m0/h/team/mgmt-x/metadata.yaml", "main: other.mcl");
    files.insert("/p/m0/h/team/mgmt-x/other.mcl", "");
    assert_eq!(from_outer(&files), "p/m0/h/team/mgmt-x/other.mcl");
}

#[test]
fn a_downloaded_module_imports_nothing_around_it() {
    let files = Memory::from([
        ("/main.mcl", ""),
        ("/modules/h/a/metadata.yaml", ""),
        ("/modules/h/a/main.mcl", ""),
        ("/modules/h/a/sub/x.mcl", ""),
        ("/modules/h/b/main.mcl", ""),
        ("/modules/h/b/metadata.yaml", ""),
    ]);
    let resolver = Resolver::new(&files, None);
    let (main, _) = resolver.entry(&Entry::File("main.mcl".into())).unwrap();
    let module = resolved(&resolver, &main, "git://h/a").unwrap();
    let inside = resolved(&resolver, &module, "sub/x.mcl").unwrap();
    assert_eq!(resolved(&resolver, &inside, "../main.mcl").unwrap().identity, module.identity);
    for name in ["../../b/", "../../b/main.mcl", "../../../../main.mcl"] {
        let error = resolved(&resolver, &inside, name).unwrap_err();
        assert!(error.contains("is not part of the downloaded module `modules/h/a/`"), "{error}");
    }
    assert_eq!(resolved(&resolver, &inside, "git://h/b").unwrap().display, "modules/h/b/main.mcl");
}

#[test]
fn a_module_that_is_not_the_locked_one_is_refused() {
    let mut files = Memory::from([
        ("/main.mcl", ""),
        ("/modules/h/a/metadata.yaml", ""),
        ("/modules/h/a/main.mcl", "$x = 1\n"),
    ]);
    let hash = tree_hash(&files, Path::new("/modules/h/a")).unwrap();
    let lock = |hash: &str| {
        format!("{{\"version\":1,\"modules\":{{\"h/a/\":{{\"url\":\"git://h/a\",\"hash\":\"{hash}\"}}}}}}")
    };
    files.insert("/mgmt.lock", lock(&hash));
    assert_eq!(import(&files, "main.mcl", "git://h/a"), "modules/h/a/main.mcl");
    files.insert("/modules/h/a/files/new", "");
    let refused = import(&files, "main.mcl", "git://h/a");
    assert!(
        refused.starts_with("the module in `modules/h/a/` is not the one that `mgmt.lock` names | "),
        "{refused}"
    );
    files.insert("/mgmt.lock", "{}");
    let broken = entry(&files, "main.mcl");
    assert!(
        broken.starts_with("the lock file `mgmt.lock` cannot be used: it has no `version` | "),
        "{broken}"
    );
}
