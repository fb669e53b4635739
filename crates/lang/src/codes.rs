//! The error index.
//!
//! A code is for ever: its meaning may be told better, but a number is never used again for something else.
//! `M0001` to `M0199` belong to the text itself and live in the crate `syntax`.

use crate::diagnostic::Class;

/// Declares the codes: name, number, class, title, explanation.
macro_rules! codes {
    ($( $name:ident $id:literal $class:ident $title:literal $explanation:literal )*) => {
        /// A rule of the language beyond its grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Code {
            $( #[doc = $title] $name, )*
        }

        impl Code {
            pub(crate) fn id(self) -> &'static str {
                match self {
                    $( Code::$name => $id, )*
                }
            }

            pub(crate) fn from_id(id: &str) -> Option<Code> {
                match id {
                    $( $id => Some(Code::$name), )*
                    _ => None,
                }
            }

            pub(crate) fn class(self) -> Class {
                match self {
                    $( Code::$name => Class::$class, )*
                }
            }
        }

        /// Every code of this crate with its title and its explanation.
        pub const CODES: &[(&str, &str, &str)] = &[ $( ($id, $title, $explanation), )* ];
    };
}

codes! {
    // How constructs are put together.
    DuplicateField "M0201" Structure "a parameter is set twice in one resource"
        "A resource sets each of its parameters once, also when both values have conditions: it would not be clear \
         which one counts. Keep one of them. If the value depends on something, say so in the value, with an `if` \
         expression.

Wrong:

    print \"greeting\" {
    	msg => $hostname == \"a\" ?: \"hello\",
    	msg => $hostname != \"a\" ?: \"goodbye\",
    }

Right:

    print \"greeting\" {
    	msg => if $hostname == \"a\" { \"hello\" } else { \"goodbye\" },
    }"
    DuplicateMeta "M0202" Structure "a metaparameter is set twice in one resource"
        "A resource sets each of its metaparameters once. Keep one of them; the value can be an `if` expression when \
         it depends on something.

Wrong:

    print \"a\" {
    	Meta:retry => 3,
    	Meta:retry => 5,
    }

Right:

    print \"a\" {
    	Meta:retry => 5,
    }"
    UnknownMeta "M0203" Structure "there is no such metaparameter"
        "Metaparameters are the same for every kind of resource: they say how often to try again, how long to wait, \
         whether to change anything at all. The word after `Meta:` is one of them, and so is each field of a `Meta` \
         struct. The message lists them, or the one that is spelled almost like this.

Wrong:

    print \"a\" {
    	Meta:retries => 3,
    }

Right:

    print \"a\" {
    	Meta:retry => 3,
    }"
    UnknownEdgeWord "M0204" Structure "there is no such edge"
        "A capitalised word in a resource says how it stands to another one. `Before` and `Notify` put this resource \
         first, `Depend` and `Listen` the other one; `Notify` and `Listen` also tell of changes. Values are sent by an \
         edge of its own, outside of the resource.

Wrong:

    print \"a\" {}
    print \"b\" {
    	After => Print[\"a\"],
    }

Right:

    print \"a\" {}
    print \"b\" {
    	Depend => Print[\"a\"],
    }"
    DuplicateMapKey "M0205" Structure "a key stands twice in one map"
        "A map has one value for each key, so a literal that names a key twice says two things at once. Keys are \
         compared as they are written: the same text with the same variables in it is the same key.

Wrong:

    $ports = {\"http\" => 80, \"http\" => 8080}
    test \"a\" { int64 => $ports[\"http\"], }

Right:

    $ports = {\"http\" => 80, \"proxy\" => 8080}
    test \"a\" { int64 => $ports[\"http\"], }"
    MixedMapKeys "M0206" Structure "the keys of a map have different types"
        "All keys of a map have one type, and all its values have one type. Values of different types under fixed \
         names are a struct.

Wrong:

    $names = {\"zero\" => 0, 1 => 1}
    test \"a\" { int64 => $names[\"zero\"], }

Right:

    $names = {\"zero\" => 0, \"one\" => 1}
    test \"a\" { int64 => $names[\"zero\"], }"
    UnhashableKey "M0207" Structure "this cannot be the key of a map"
        "A key is a bool, a str, an int, a float, or a struct of these. Lists, maps and functions cannot be keys. A \
         struct with a field for each part often does what a list was meant for.

Wrong:

    $points = {[0, 1] => \"up\"}
    test \"a\" { anotherstr => $points[[0, 1]], }

Right:

    $points = {struct{x => 0, y => 1} => \"up\"}
    test \"a\" { anotherstr => $points[struct{x => 0, y => 1}], }"
    DuplicateStructField "M0208" Structure "a field stands twice in one struct"
        "Each field of a struct has one value, so it stands in the literal once. Rename one of them, or remove it.

Wrong:

    $user = struct{name => \"a\", name => \"b\"}
    print \"x\" { msg => $user->name, }

Right:

    $user = struct{name => \"a\", nick => \"b\"}
    print \"x\" { msg => $user->name + $user->nick, }"
    ImportInLoop "M0209" Structure "an import stands in a loop"
        "An import is found when the program is read, long before a loop has a value. Put it in front of the loop; \
         what it brings is seen inside of the loop too.

Wrong:

    for $index, $name in [\"a\", \"b\"] {
    	import \"fmt\"
    	print \"${name}\" { msg => fmt.printf(\"%d\", $index), }
    }

Right:

    import \"fmt\"
    for $index, $name in [\"a\", \"b\"] {
    	print \"${name}\" { msg => fmt.printf(\"%d\", $index), }
    }"
    BadVariableName "M0210" Structure "a variable has a name that cannot be read"
        "Two underscores in a row are kept for names that the language makes itself. A variable with such a name can \
         be defined, and then not be read. Use a single underscore.

Wrong:

    $log__level = \"debug\"
    print \"a\" { msg => $log__level, }

Right:

    $log_level = \"debug\"
    print \"a\" { msg => $log_level, }"
    DeclaredLiteral "M0211" Parse "a literal is not of its declared type"
        "The type between a variable and the equals sign is the type of the value. A literal that is of another type \
         can never be right. Change one of the two; nothing is converted by itself, not even an int to a float.

Wrong:

    $port str = 80
    print \"a\" { msg => $port, }

Right:

    $port str = \"80\"
    print \"a\" { msg => $port, }"
    DuplicateParameter "M0212" Structure "two parameters have the same name"
        "The parameters of a function or a class have different names, because only one of them could be read.

Wrong:

    func add($a, $a) { $a + $a }
    test \"x\" { int64 => add(1, 2), }

Right:

    func add($a, $b) { $a + $b }
    test \"x\" { int64 => add(1, 2), }"
    DuplicateClass "M0213" Interpolation "a class is defined twice"
        "A block defines a class of one name once. A class that is written with a colon, such as `class a:b`, is \
         defined in the body of the class `a`, and meets the classes that are there. Rename one of them, or make one \
         class with a parameter of both.

Wrong:

    class web {
    	print \"a\" {}
    }
    class web {
    	print \"b\" {}
    }
    include web

Right:

    class web($name) {
    	print \"${name}\" {}
    }
    include web(\"a\")
    include web(\"b\")"

    // Names.
    UnknownVariable "M0301" Scope "there is no such variable here"
        "A variable can be read in the block that defines it and in all blocks inside of that, before and after its \
         definition. What an `if`, a loop, a class or a function defines is not visible outside of it. What an \
         imported file defines is seen behind the name of the import, and what a class defines behind the name of \
         `include ... as`.

Wrong:

    if $hostname == \"a\" {
    	$text = \"hello\"
    }
    print \"x\" { msg => $text, }

Right:

    $text = if $hostname == \"a\" { \"hello\" } else { \"goodbye\" }
    print \"x\" { msg => $text, }"
    UnknownFunction "M0302" Scope "there is no such function here"
        "A function is defined by the program, is one of the few that are always there, or comes from a module and is \
         called behind the name of its import. A function in a variable is called with a dollar in front: `$f(1)`.

Wrong:

    print \"a\" { msg => fmt.printf(\"%d\", 42), }

Right:

    import \"fmt\"
    print \"a\" { msg => fmt.printf(\"%d\", 42), }"
    UnknownClass "M0303" Scope "there is no such class here"
        "A class can be included in the block that defines it and in all blocks inside of that. A class of an \
         imported file is included behind the name of the import, and a class inside of another class behind the name \
         of `include ... as`.

Wrong:

    class outer {
    	class inner {
    		print \"a\" {}
    	}
    }
    include inner

Right:

    class outer {
    	class inner {
    		print \"a\" {}
    	}
    }
    include outer as o
    include o.inner"
    ClassArguments "M0304" Scope "a class is given the wrong number of arguments"
        "An include gives each parameter of the class one argument, in the same order. There are no optional \
         parameters; a class without any is included without parentheses.

Wrong:

    class greet($name, $text) {
    	print \"${name}\" { msg => $text, }
    }
    include greet(\"a\")

Right:

    class greet($name, $text) {
    	print \"${name}\" { msg => $text, }
    }
    include greet(\"a\", \"hello\")"
    DuplicateDefinition "M0305" Scope "a name is defined twice in one block"
        "A variable has one value and is not assigned to: a second definition in the same block contradicts the \
         first. The same holds for functions. The order of definitions does not matter, so the last one does not win \
         either. Give one of them another name.

Wrong:

    $text = \"a\"
    $text = $text + \"b\"
    print \"x\" { msg => $text, }

Right:

    $start = \"a\"
    $text = $start + \"b\"
    print \"x\" { msg => $text, }"
    Recursion "M0306" Scope "a definition needs itself"
        "Definitions are not carried out one after the other, so none can need itself, neither directly nor through \
         others. Functions and classes do not call themselves; the functions of the module `iter` go over lists. \
         Inside of a block a name that the block defines always means that definition, so an inner `$x` cannot be \
         made of an outer `$x`: give the inner one another name.

Wrong:

    $text = \"a\"
    if $hostname == \"x\" {
    	$text = $text + \"b\"
    	print \"x\" { msg => $text, }
    }

Right:

    $text = \"a\"
    if $hostname == \"x\" {
    	$longer = $text + \"b\"
    	print \"x\" { msg => $longer, }
    }"
    DuplicateImport "M0307" Scope "a module is imported twice in one block"
        "One import of a module is enough for a block and for all blocks inside of it. Remove the second one; if it \
         has another name after `as`, choose one of the names.

Wrong:

    import \"fmt\"
    import \"fmt\" as format
    print \"a\" { msg => fmt.printf(\"%d\", 1) + format.printf(\"%d\", 2), }

Right:

    import \"fmt\"
    print \"a\" { msg => fmt.printf(\"%d\", 1) + fmt.printf(\"%d\", 2), }"
    DuplicateAlias "M0308" Scope "an alias is used twice in one block"
        "What stands before a dot must mean one thing. Imports and includes share their names: `import` without `as` \
         takes the last part of the path. Give one of them another name with `as`.

Wrong:

    import \"strings\"
    import \"golang/strings\"
    print \"a\" { msg => strings.to_upper(\"a\"), }

Right:

    import \"strings\" as text
    import \"golang/strings\"
    print \"a\" { msg => text.trim_space(strings.to_upper(\" a\")), }"

    // Modules.
    BadImportName "M0401" Scope "this cannot be imported"
        "What stands between the quotes of an import is one of four things: the name of a module that comes with the \
         program, such as `fmt`; the path of a file that ends in `.mcl`; the path of a directory, with a slash at its \
         end; or the address of a repository. Paths are relative to the directory of the file that imports them, and \
         in their shortest form.

Wrong:

    import \"./lib.mcl\"
    print \"a\" { msg => $lib.text, }

Right:

    import \"lib.mcl\"
    print \"a\" { msg => $lib.text, }"
    UnknownModule "M0402" Scope "there is no such module"
        "A plain name between the quotes means a module that comes with the program. A file of your own is imported \
         by its path with `.mcl` at the end, and a directory with a slash at the end.

Wrong:

    import \"lib\"
    print \"a\" { msg => $lib.text, }

Right:

    import \"lib/\"
    print \"a\" { msg => $lib.text, }"
    ImportNotFound "M0403" Scope "an imported file is not there"
        "The path of an import is relative to the directory of the file that contains it, not to the directory in \
         which the program is started. A directory is a module if it has a `metadata.yaml` or a `main.mcl`.

Wrong:

    import \"library.mcl\"
    print \"a\" { msg => $library.text, }

Right:

    import \"lib.mcl\"
    print \"a\" { msg => $lib.text, }"
    ModuleNotDownloaded "M0404" Scope "a remote module has not been downloaded"
        "Modules from other places are downloaded once, before the program runs, and never by running it. `mgmt get` \
         does that, and records in a lock file what it has found, so that the next machine gets the same."
    RecursiveImport "M0405" Scope "a module imports itself"
        "Imports do not go in circles, neither directly nor through other files. Put what both files need into a \
         third one, and import that from both. A file sees its own definitions without an import.

Wrong:

    import \"main.mcl\"
    $text = \"hello\"
    print \"a\" { msg => $main.text, }

Right:

    $text = \"hello\"
    print \"a\" { msg => $text, }"
    EffectInModule "M0406" Scope "a module does something by itself"
        "A file that is imported only defines things: its top level has imports, variables, functions and classes. \
         Resources, edges, loops, conditions and includes go into a class, which whoever imports the file includes.

Wrong:

    import \"effects.mcl\"
    print \"a\" { msg => $effects.text, }

Right:

    import \"lib.mcl\"
    print \"a\" { msg => $lib.text, }
    include lib.greet"
    BadMetadata "M0407" Scope "the metadata of a module is wrong"
        "The file `metadata.yaml` of a module says where its parts are: `main` is the file that it starts with, \
         `files` the directory of files that go with it, and `path` the directory of the modules that it imports. All \
         of them are relative to the directory of the metadata. An empty file means the usual places."
    UnreadableFile "M0408" Scope "a file cannot be read"
        "The file is there and cannot be read: it is not a regular file, is larger than any program, belongs to \
         somebody else, or is a link that leads out of its module. The message says which. Root does not read a \
         downloaded module either that somebody else owns than root and the owner of the program, or that anyone on \
         the host can write to, because whoever decides what is in it decides what root does."
    LockMismatch "M0409" Scope "a downloaded module is not the one that was locked"
        "The lock file `mgmt.lock` records the commit and the content of each downloaded module, so that every \
         machine runs the same. This module has other content. If its files were changed by hand, remove its \
         directory, and let `mgmt get` bring the locked one; to take a newer one, let `mgmt get` update the lock."

    // Types.
    Mismatch "M0501" Type "a value of one type stands where another is wanted"
        "Types are never converted by themselves: an int is not a float, and neither is a text. The message names \
         both types, and the labels show where each of them comes from; either side can be the wrong one. `convert` \
         has functions between numbers and texts, and `fmt.printf` makes text of any value.

Wrong:

    $count = 3
    print \"a\" { msg => \"there are \" + $count, }

Right:

    import \"fmt\"
    $count = 3
    print \"a\" { msg => fmt.printf(\"there are %d\", $count), }"
    ArgumentCount "M0502" Type "a function is given the wrong number of arguments"
        "A call gives each parameter of the function one argument. There are no optional parameters in functions of \
         the program; a few functions of the library take one more or one less, and their signature says so.

Wrong:

    func add($a, $b) { $a + $b }
    test \"x\" { int64 => add(1), }

Right:

    func add($a, $b) { $a + $b }
    test \"x\" { int64 => add(1, 2), }"
    Ambiguous "M0503" Type "the type of a value cannot be known"
        "Every value has a type before the program runs. Most are found by how a value is made and used, but nothing \
         says of what an empty list is a list if only its length is asked for. Declare the type where the value is \
         bound, or the type of the parameter.

Wrong:

    $names = []
    test \"a\" { int64 => len($names), }

Right:

    $names []str = []
    test \"a\" { int64 => len($names), }"
    InfiniteType "M0504" Type "a type contains itself"
        "A function that is given to itself would have a type that contains itself, without end. There is no \
         recursion in the language; the functions of the module `iter` go over lists.

Wrong:

    $twice = func($f) { $f($f) }
    test \"a\" { interface => $twice(func($x) { $x }), }

Right:

    $twice = func($f) { $f($f(1)) }
    test \"a\" { interface => $twice(func($x) { $x + 1 }), }"
    UnknownStructField "M0505" Type "a struct has no such field"
        "The type of a struct lists its fields, and no other can be read. If the field may be missing, \
         `$s->field <|> value` gives a value for that.

Wrong:

    $user = struct{name => \"a\", shell => \"/bin/sh\"}
    print \"x\" { msg => $user->login, }

Right:

    $user = struct{name => \"a\", shell => \"/bin/sh\"}
    print \"x\" { msg => $user->name + $user->shell, }"
    NotAContainer "M0506" Type "this is neither a list nor a map"
        "Brackets look into a list by position, or into a map by key. The fields of a struct are read with an arrow. \
         A text has no elements; the module `strings` has functions for parts of it.

Wrong:

    $user = struct{name => \"a\"}
    print \"x\" { msg => $user[\"name\"], }

Right:

    $user = struct{name => \"a\"}
    print \"x\" { msg => $user->name, }"
    NotAStruct "M0507" Type "this is not a struct"
        "An arrow reads a field of a struct. The values of a map and the elements of a list are read with brackets.

Wrong:

    $user = {\"name\" => \"a\"}
    print \"x\" { msg => $user->name, }

Right:

    $user = {\"name\" => \"a\"}
    print \"x\" { msg => $user[\"name\"], }"
    OperatorType "M0508" Type "an operator cannot work on values of this type"
        "`+` joins texts and adds numbers; `-`, `*`, `/` and the comparisons by size work on numbers; `==` and `!=` on \
         everything but functions. Lists are joined by `list.concat`.

Wrong:

    $names = [\"a\"] + [\"b\"]
    print $names {}

Right:

    import \"list\"
    $names = list.concat([\"a\"], [\"b\"])
    print $names {}"
    NotCallable "M0509" Type "this is not a function"
        "Only functions can be called. A variable holds a function if it is bound to `func(...) { ... }`; the value of \
         any other variable is read without parentheses.

Wrong:

    $text = \"hello\"
    print \"a\" { msg => $text(), }

Right:

    $text = func() { \"hello\" }
    print \"a\" { msg => $text(), }"
    BadFormat "M0510" Type "a format has an unknown verb"
        "A format knows the verbs `%t` for a bool, `%s` and `%q` for a text, `%d` for an int, `%f` for a float, `%v` \
         and `%T` for any value and for its type. There are no widths, precisions or flags. A percent sign by itself \
         is written `%%`.

Wrong:

    import \"fmt\"
    print \"a\" { msg => fmt.printf(\"100%\"), }

Right:

    import \"fmt\"
    print \"a\" { msg => fmt.printf(\"%d%%\", 100), }"
    FormatCount "M0511" Type "a format and its arguments do not match in number"
        "Each verb of a format takes one argument, in order, and no argument is left over. A percent sign that is no \
         verb is written `%%`.

Wrong:

    import \"fmt\"
    print \"a\" { msg => fmt.printf(\"%s is %d\", \"x\"), }

Right:

    import \"fmt\"
    print \"a\" { msg => fmt.printf(\"%s is %d\", \"x\", 1), }"
    NotAccepted "M0512" Type "a function does not work on values of this type"
        "Some functions work on several types and not on all. The message lists the types that they work on, and \
         `mgmt docs` has the whole signature.

Wrong:

    test \"a\" { int64 => len(42), }

Right:

    test \"a\" { int64 => len(\"forty-two\"), }"
    BadTypeText "M0513" Type "the text of a type is wrong"
        "Some functions take the type of their result as a text, because nothing else in the program says what the \
         data is. The text is a type as it is written in the language: `[]str`, `map{str: int}`, \
         `struct{name str; count int}`.

Wrong:

    import \"encoding\"
    $user = encoding.decode_json(\"{}\", \"struct{name string}\")
    print \"a\" { msg => $user->name, }

Right:

    import \"encoding\"
    $user = encoding.decode_json(\"{\\\"name\\\": \\\"a\\\"}\", \"struct{name str}\")
    print \"a\" { msg => $user->name, }"
    UnhashableType "M0514" Type "the keys of a map have a type that keys cannot have"
        "A key is a bool, a str, an int, a float, or a struct of these. Here the type of a key is something else, which \
         became clear from how it is made. Lists, maps and functions cannot be keys.

Wrong:

    $point = [0, 1]
    $names = {$point => \"up\"}
    print \"a\" { msg => $names[$point], }

Right:

    $point = struct{x => 0, y => 1}
    $names = {$point => \"up\"}
    print \"a\" { msg => $names[$point], }"

    TypeTooLarge "M0515" Type "the type of a value is too large"
        "A function that puts its argument into a struct twice, or is given its own result, makes a type of twice the \
         size. Functions that do this to each other soon have types that are larger than any memory. Nobody needs \
         such a value; a list or a map holds many things of one type."

    // Resources.
    UnknownKind "M0601" Type "there is no such kind of resource"
        "The word before the name of a resource is its kind; in an edge it is capitalised. `mgmt kinds` lists all kinds \
         that there are.

Wrong:

    fiel \"/tmp/a\" {}

Right:

    file \"/tmp/a\" {
    	state => $const.res.file.state.exists,
    }"
    UnknownField "M0602" Type "a kind has no such parameter"
        "Each kind has its own parameters; `mgmt docs` describes them. What holds for every kind is a metaparameter and \
         is set with `Meta:` in front.

Wrong:

    print \"a\" {
    	message => \"hello\",
    }

Right:

    print \"a\" {
    	msg => \"hello\",
    }"
    FieldType "M0603" Type "a parameter has the wrong type"
        "Each parameter of a kind has one type, and values are not converted by themselves. The hint has what the \
         parameter is for. A single value for a parameter that takes a list goes between brackets.

Wrong:

    test \"a\" {
    	slicestring => \"one\",
    }

Right:

    test \"a\" {
    	slicestring => [\"one\"],
    }"
    MetaType "M0604" Type "a metaparameter has the wrong type"
        "Each metaparameter has one type, which is the same for every kind. `Meta` without a name takes a struct with \
         any of them as fields.

Wrong:

    print \"a\" {
    	Meta:sema => \"disk\",
    }

Right:

    print \"a\" {
    	Meta:sema => [\"disk\"],
    }"
    OneHalf "M0605" Type "an edge has one end only"
        "An edge goes from one resource to another, which comes after it. A reference to a resource alone says \
         nothing.

Wrong:

    print \"a\" {}
    Print[\"a\"]

Right:

    print \"a\" {}
    print \"b\" {}
    Print[\"a\"] -> Print[\"b\"]"
    CannotSend "M0606" Type "a kind that sends nothing is asked to send"
        "Some kinds send values to others while the program runs: the output of a command, for example. This one \
         sends nothing, so no edge can take a value from it. The description of a kind lists what it sends.

Wrong:

    print \"a\" {}
    test \"b\" {}
    Print[\"a\"].msg -> Test[\"b\"].anotherstr

Right:

    exec \"a\" { cmd => \"uptime\", }
    print \"b\" {}
    Exec[\"a\"].output -> Print[\"b\"].msg"
    CannotReceive "M0607" Type "a kind cannot receive"
        "Some kinds take values that others send. This one does not, so no edge can set its parameters. The description \
         of a kind says whether it receives.

Wrong:

    test \"a\" {}
    exec \"b\" { cmd => \"true\", }
    Test[\"a\"].hello -> Exec[\"b\"].cmd

Right:

    test \"a\" {}
    print \"b\" {}
    Test[\"a\"].hello -> Print[\"b\"].msg"
    UnknownSent "M0608" Type "a kind does not send such a value"
        "Each kind that sends has names for its values. The message lists them, or the one that is spelled almost like \
         this.

Wrong:

    exec \"a\" { cmd => \"uptime\", }
    print \"b\" {}
    Exec[\"a\"].out -> Print[\"b\"].msg

Right:

    exec \"a\" { cmd => \"uptime\", }
    print \"b\" {}
    Exec[\"a\"].output -> Print[\"b\"].msg"
    SentType "M0609" Type "a value that is sent has not the type of the parameter that receives it"
        "What is sent must be of the type of the parameter that takes it; nothing is converted on the way. Both types \
         are shown at the two ends of the edge.

Wrong:

    test \"a\" {}
    print \"b\" {}
    Test[\"a\"].answer -> Print[\"b\"].msg

Right:

    test \"a\" {}
    print \"b\" {}
    Test[\"a\"].hello -> Print[\"b\"].msg"
    DuplicateMetaStruct "M0610" Resource "metaparameters are set in two ways"
        "A metaparameter is set by itself, or as a field of a `Meta` struct, and not both: it would not be clear which \
         one counts.

Wrong:

    print \"a\" {
    	Meta:noop => true,
    	Meta => struct{noop => false, retry => 3},
    }

Right:

    print \"a\" {
    	Meta:noop => true,
    	Meta => struct{retry => 3},
    }"
    BadName "M0611" Resource "a resource cannot have this name"
        "The name of a resource is not empty. A name that starts with a dollar is almost always a variable that was \
         meant to be read: in a string that needs braces, and alone it needs no quotes. If the dollar is meant, the \
         resource says so with `Meta:dollar`.

Wrong:

    $name = \"a\"
    print \"$name\" { msg => $name, }

Right:

    $name = \"a\"
    print \"${name}\" { msg => $name, }"
    OutOfRange "M0612" Resource "a number does not fit"
        "The numbers of the language have 64 bits and a sign. Many parameters take a smaller range: a number without \
         a sign, or one of 8, 16 or 32 bits. The message names the range.

Wrong:

    test \"a\" { uint8 => 256, }

Right:

    test \"a\" { uint8 => 255, }"
    ConflictingResource "M0613" Resource "a resource is declared twice, and not in the same way"
        "A kind and a name make one resource, wherever they stand in the program. Several declarations of it are fine \
         as long as they say the same; these do not. The labels show the first of them, and what differs.

Wrong:

    print \"a\" { msg => \"hello\", }
    print \"a\" { msg => \"goodbye\", }

Right:

    print \"a\" { msg => \"hello\", }
    print \"b\" { msg => \"goodbye\", }"
    BadResource "M0614" Resource "a resource cannot be like this"
        "Each parameter is right by itself, but not all of them together: one needs another one, or excludes it, or \
         the name does not go with them. The message is that of the kind, whose description has the rules.

Wrong:

    test \"a\" { validateerror => \"no\", }

Right:

    test \"a\" { validateerror => \"\", }"
    MissingResource "M0615" Resource "an edge leads to a resource that is not there"
        "Both ends of an edge must be declared, with the same kind and the same name, at the same time as the edge. A \
         resource in a branch that is not taken is not there.

Wrong:

    print \"hello\" {}
    print \"world\" {}
    Print[\"hello\"] -> Print[\"word\"]

Right:

    print \"hello\" {}
    print \"world\" {}
    Print[\"hello\"] -> Print[\"world\"]"
    HiddenSender "M0616" Resource "a hidden resource is asked to send"
        "A hidden resource is there to be exported to other hosts or to be collected. It never runs, so it never has a \
         value to send. It may well receive one.

Wrong:

    test \"a\" { Meta:hidden => true, }
    print \"b\" {}
    Test[\"a\"].hello -> Print[\"b\"].msg

Right:

    test \"a\" {}
    print \"b\" {}
    Test[\"a\"].hello -> Print[\"b\"].msg"
    DuplicateReceive "M0617" Resource "a parameter is received twice"
        "A parameter takes its value from one resource. From two of them it would have now one value and now the \
         other, for no reason that anybody sees. An edge from a list of resources is several edges.

Wrong:

    test [\"a\", \"b\"] {}
    print \"c\" {}
    Test[[\"a\", \"b\"]].hello -> Print[\"c\"].msg

Right:

    test [\"a\", \"b\"] {}
    print \"c\" {}
    Test[\"a\"].hello -> Print[\"c\"].msg
    Test[\"b\"] -> Print[\"c\"]"
    Circle "M0618" Resource "the edges go in a circle"
        "Edges say which resource comes before which. In a circle none of them could be the first. The message shows \
         the whole way around; one of these edges must go, or turn around.

Wrong:

    print \"a\" {}
    print \"b\" { Before => Print[\"a\"], }
    Print[\"a\"] -> Print[\"b\"]

Right:

    print \"a\" {}
    print \"b\" { Depend => Print[\"a\"], }
    Print[\"a\"] -> Print[\"b\"]"

    // Values.
    Failed "M0701" Value "a function failed"
        "The types are right, but the function has no value for these arguments: the element is not there, the text is \
         not a number, the divisor is zero. `value <|> other` gives another value for when that happens.

Wrong:

    $names = [\"a\", \"b\"]
    print \"x\" { msg => $names[2], }

Right:

    $names = [\"a\", \"b\"]
    print \"x\" { msg => $names[2] <|> \"nobody\", }"
    Panicked "M0702" Value "the program panics"
        "The program itself has asked to stop, with `panic`. Nothing can catch that; the condition or the text that it \
         is given says why. It does nothing when the condition is false or the text is empty.

Wrong:

    panic($hostname != \"\", \"this host has a name\")

Right:

    panic($hostname == \"\", \"this host has no name\")"

    // What is probably not meant.
    UnusedImport "M0801" Lint "an import is not used"
        "Nothing of the module is used. Remove the import; a module that is needed again is imported again.

Wrong:

    import \"fmt\"
    print \"a\" { msg => \"hello\", }

Right:

    print \"a\" { msg => \"hello\", }"
    UnusedBind "M0802" Lint "a variable is not used"
        "The variable is never read, so its value is never made. Often another name was meant where it should be \
         read.

Wrong:

    $greeting = \"hello\"
    print \"a\" { msg => \"greeting\", }

Right:

    $greeting = \"hello\"
    print \"a\" { msg => $greeting, }"
    UnusedFunction "M0803" Lint "a function is not used"
        "The function is never called, so nothing of what it says happens. Remove it, or call it.

Wrong:

    func double($x) { $x * 2 }
    test \"a\" { int64 => 2 * 2, }

Right:

    func double($x) { $x * 2 }
    test \"a\" { int64 => double(2), }"
    UnusedClass "M0804" Lint "a class is not included"
        "A class does nothing by itself: without an include nothing in it happens.

Wrong:

    class greet {
    	print \"a\" {}
    }
    print \"b\" {}

Right:

    class greet {
    	print \"a\" {}
    }
    print \"b\" {}
    include greet"
    UnusedParameter "M0805" Lint "a parameter is not used"
        "The parameter of a function or a class is never read, so whatever is given for it makes no difference.

Wrong:

    func double($x, $y) { $x * 2 }
    test \"a\" { int64 => double(2, 3), }

Right:

    func double($x) { $x * 2 }
    test \"a\" { int64 => double(2), }"
    Shadowing "M0806" Lint "a definition hides another"
        "Inside of the block the name means something else than outside, and the outer one cannot be read there. That \
         is allowed, and easily misread. It does not change the outer one either, as an assignment would.

Wrong:

    $text = \"hello\"
    if $hostname == \"a\" {
    	$text = \"goodbye\"
    	print \"a\" { msg => $text, }
    }
    print \"b\" { msg => $text, }

Right:

    $text = \"hello\"
    if $hostname == \"a\" {
    	$other = \"goodbye\"
    	print \"a\" { msg => $other, }
    }
    print \"b\" { msg => $text, }"
    DuplicateResource "M0807" Lint "a resource is declared twice"
        "The second declaration says the same as the first and changes nothing. Perhaps it was copied, and its name \
         was meant to be another one.

Wrong:

    print \"a\" { msg => \"hello\", }
    print \"a\" { msg => \"hello\", }

Right:

    print \"a\" { msg => \"hello\", }
    print \"b\" { msg => \"hello\", }"
    SelfComparison "M0808" Lint "a value is compared with itself"
        "Both sides are the same, so the result is the same in every run. Probably one of them should be something \
         else.

Wrong:

    $name = \"a\"
    if $name == $name {
    	print \"a\" { msg => $name, }
    }

Right:

    $name = \"a\"
    if $name == $hostname {
    	print \"a\" { msg => $name, }
    }"
    UnreachableBranch "M0809" Lint "a branch is never taken"
        "The condition has the same value in every run, so what stands in the other branch never happens.

Wrong:

    if $hostname == \"a\" and false {
    	print \"a\" {}
    }

Right:

    if $hostname == \"a\" {
    	print \"a\" {}
    }"
    SameLoopVariables "M0810" Lint "both variables of a loop have the same name"
        "A loop has two variables, and the second hides the first if both have one name. Give the first one a name of \
         its own, even if nothing reads it.

Wrong:

    for $name, $name in [\"a\", \"b\"] {
    	print \"${name}\" {}
    }

Right:

    for $index, $name in [\"a\", \"b\"] {
    	test \"${name}\" { int64 => $index, }
    }"
    OrphanClass "M0811" Lint "a class inside of nothing"
        "A class that is written with a colon, such as `class a:b`, is moved into the body of the class `a` of the same \
         block, and is included through that. There is no such class here, so nothing can ever include this one.

Wrong:

    class web:server {
    	print \"a\" {}
    }

Right:

    class web {
    }
    class web:server {
    	print \"a\" {}
    }
    include web as w
    include w.server"
}

#[cfg(test)]
mod tests {
    use mgmt_diagnostics::Severity;

    use super::CODES;
    use crate::module::{Entry, Memory};
    use crate::{Environment, Onlooker};

    /// The lines of an example, without their indent.
    fn example(explanation: &str, heading: &str) -> Option<String> {
        let mut lines = explanation.lines().skip_while(|line| *line != heading);
        lines.next()?;
        assert_eq!(lines.next(), Some(""), "{heading}");
        let text: String =
            lines.map_while(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect();
        assert!(!text.is_empty(), "{heading}");
        Some(text)
    }

    /// What is said about a program, also when it is evaluated: level and code.
    fn said(program: String) -> Vec<(Severity, &'static str)> {
        let files = Memory::from([
            ("/main.mcl", program.as_str()),
            ("/lib.mcl", "$text = \"x\"\nclass greet {\n\tprint \"greeting\" {}\n}\n"),
            ("/lib/main.mcl", "$text = \"x\"\n"),
            ("/effects.mcl", "$text = \"x\"\nprint \"greeting\" {}\n"),
        ]);
        let environment = Environment {
            kinds: &mgmt_resources::KINDS,
            library: mgmt_funcs::library(),
            files: &files,
            module_path: None,
            lints: true,
        };
        let checked = crate::check(&Entry::File("/main.mcl".into()), &environment).unwrap();
        let mut found = checked.diagnostics.clone();
        if checked.is_right() {
            let host = Onlooker::new(&files, checked.deploy.clone(), "host".into());
            found.extend(crate::evaluate(&checked, environment.kinds, &host).err().into_iter().flatten());
        }
        found.iter().map(|diagnostic| (diagnostic.severity, diagnostic.code.unwrap())).collect()
    }

    #[test]
    fn numbers_are_unique_and_in_order() {
        assert!(CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let last = mgmt_syntax::CODES.last().unwrap();
        assert!(last.0 < CODES[0].0);
    }

    #[test]
    fn explanations_are_a_paragraph_and_examples() {
        for (id, title, explanation) in CODES {
            assert!(id.len() == 5 && id.starts_with('M'), "{id}");
            assert!(!title.is_empty() && !title.ends_with('.'), "{id}");
            let mut blocks = explanation.split("\n\n");
            let paragraph = blocks.next().unwrap();
            assert!(paragraph.ends_with('.') && !paragraph.contains("  "), "{id}");
            assert!(!paragraph.contains('\n') && paragraph.len() > 60, "{id}");
            assert!(paragraph.matches(". ").count() < 6, "{id}");
            let rest: Vec<&str> = blocks.collect();
            assert!(matches!(rest.as_slice(), [] | ["Wrong:", _, "Right:", _]), "{id}: {rest:?}");
        }
    }

    #[test]
    fn a_wrong_example_has_its_mistake_and_a_right_one_has_none() {
        let mut without = Vec::new();
        for (id, _, explanation) in CODES {
            let (Some(wrong), Some(right)) = (example(explanation, "Wrong:"), example(explanation, "Right:"))
            else {
                without.push(*id);
                continue;
            };
            let wrong = said(wrong);
            assert!(!wrong.is_empty() && wrong.iter().all(|(_, code)| code == id), "{id}: {wrong:?}");
            assert_eq!(said(right), [], "{id}");
        }
        // What is wrong is not in the program, or is long.
        assert_eq!(without, ["M0404", "M0407", "M0408", "M0409", "M0515"]);
    }
}
