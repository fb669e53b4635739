//! The rules that a text can break, explained.
//!
//! A code is for ever: its explanation may get better, but a number never gets another meaning. `M0001` to `M0099` are
//! about characters, words and grammar, `M0100` to `M0199` about strings; what is beyond belongs to the meaning of
//! a program.

/// Every code with its title and its explanation, in the order of the codes.
///
/// An explanation is a paragraph, then examples: `Wrong:` and `Right:`, each followed by lines that are indented by
/// four spaces. Paragraphs and examples are separated by an empty line.
pub const CODES: &[(&str, &str, &str)] = &[
    (
        "M0001",
        "the text is not UTF-8",
        "A program is UTF-8 text. The message names the first byte that is not. Most often the file was saved in \
         an older encoding such as Latin-1, or it is no text at all. Save it as UTF-8 in your editor, or convert \
         it with `iconv -f latin1 -t utf-8`. Content that is not text belongs in a file of its own that a resource \
         names.",
    ),
    (
        "M0002",
        "the text is too long",
        "Places in a text are counted with 32 bits, so it can be at most 4 GiB long. A file of that size is almost \
         always something else than a program. Split it into modules, or let a loop replace the repetition.",
    ),
    (
        "M0003",
        "a character that means nothing",
        "Outside of strings and comments a program is made of letters, digits and a few signs. This character is \
         none of them; it is often a quote that a word processor made typographic, a non-breaking space, or an \
         operator that other languages have. The rest of the line was read as if it were not there.

Wrong:

    $rest = $a % 3

Right:

    $rest = math.mod($a, 3)",
    ),
    (
        "M0004",
        "a carriage return that ends no line",
        "A line ends with a line feed, or with a carriage return and a line feed. A carriage return alone ended \
         lines on very old systems, and many programs show nothing at all where one stands. Convert the file with \
         `tr '\\r' '\\n'`, or remove the character. Inside a string write it as `\\r`.",
    ),
    (
        "M0005",
        "a word that is not spelled like a name",
        "Names are written with lower case letters, digits and underscores; they start with a letter and do not \
         end with an underscore. In front of brackets, where a resource is referred to, the first letter of its \
         kind is a capital, and only that one.

Wrong:

    $fooBar = 1

Right:

    $foo_bar = 1",
    ),
    (
        "M0006",
        "an integer that does not fit in 64 bits",
        "Integers go from -9223372036854775808 to 9223372036854775807. If the value is only ever printed or \
         compared for equality, make it a string. If it need not be exact, make it a float by adding `.0`.

Wrong:

    $big = 99999999999999999999

Right:

    $big = 99999999999999999999.0",
    ),
    (
        "M0007",
        "a float that is too large",
        "Floats have 64 bits; the largest is a little below 1.8 with 308 digits behind it. This number is larger, \
         and would be infinite. It probably has digits that were not meant.",
    ),
    (
        "M0010",
        "something else was expected here",
        "The text cannot go on like this. The message says what the grammar wants at this place and what it found \
         instead, and a hint guesses what was meant. If the place looks fine, look at the end of the line before: \
         something may be missing there.

Wrong:

    if $x = 1 {
        test \"a\" {}
    }

Right:

    if $x == 1 {
        test \"a\" {}
    }",
    ),
    (
        "M0011",
        "a comma is missing",
        "The elements of a list, the entries of a map or a struct, the arguments of a call and the items of \
         a resource are separated by commas, also when each stands on its own line. Only the comma behind the last \
         one may be left out.

Wrong:

    file \"/tmp/a\" {
        content => \"hello\"
        mode => \"u=rw\",
    }

Right:

    file \"/tmp/a\" {
        content => \"hello\",
        mode => \"u=rw\",
    }",
    ),
    (
        "M0012",
        "a comma without anything before it",
        "A comma ends an element. Here none was begun: there are two commas in a row, or one directly behind the \
         opening bracket. Remove the comma, or write the element that is missing.

Wrong:

    $x = [1, , 3]

Right:

    $x = [1, 2, 3]",
    ),
    (
        "M0013",
        "a bracket is never closed",
        "Each `(`, `[` and `{` needs its counterpart. The place of the error is where the missing one was noticed: \
         at the end of the file, or where a new statement starts. The second place is the bracket that is still \
         open.

Wrong:

    $x = [1, 2
    $y = 3

Right:

    $x = [1, 2]
    $y = 3",
    ),
    (
        "M0014",
        "a closing bracket that closes nothing",
        "There is no open bracket of this kind here. Remove the closing one, or look above it for an opening one \
         that is missing or that was closed too early.

Wrong:

    $x = [1, 2]]

Right:

    $x = [[1, 2]]",
    ),
    (
        "M0015",
        "two statements on one line",
        "A statement ends with its line. Where it was complete something else followed on the same line. Put the \
         next statement on a line of its own; if it was meant as a part of the one before, an operator or a comma \
         is missing.

Wrong:

    $x = 1 $y = 2

Right:

    $x = 1
    $y = 2",
    ),
    (
        "M0016",
        "a comparison in place of a bind",
        "One `=` gives a name to a value, two of them compare values. At the start of a line only a bind can \
         stand.

Wrong:

    $x == 1

Right:

    $x = 1",
    ),
    (
        "M0017",
        "a reserved word as a name",
        "The words of the language cannot be names, not even where no other thing could be meant: if, else, for, \
         forkv, true, false, and, or, not, in, bool, str, int, float, map, struct, variant, func, class, include, \
         import, as, collect, panic. A variable may be called `$map`, `$collect` or `$in`, and a function in \
         a module may be called `map` or `collect`.

Wrong:

    $class = \"web\"

Right:

    $my_class = \"web\"",
    ),
    (
        "M0018",
        "a capital letter too many or too few",
        "Variables, functions, classes, fields and the kinds of new resources are lower case. Where a resource \
         that exists is referred to, as in an edge, each part of its kind starts with a capital letter.

Wrong:

    class Web {
    }
    Dhcp:host[\"a\"] -> File[\"b\"]

Right:

    class web {
    }
    Dhcp:Host[\"a\"] -> File[\"b\"]",
    ),
    (
        "M0019",
        "comparisons do not chain",
        "A comparison gives true or false, so comparing its result with a number would mean nothing. Compare two \
         values at a time and join the comparisons with `and`. If a result really is to be compared, put the \
         inner comparison in parentheses.

Wrong:

    $ok = 1 < $x < 10

Right:

    $ok = 1 < $x and $x < 10",
    ),
    (
        "M0020",
        "the result of something is called directly",
        "Only a name, a variable or a function that is written on the spot can be called. If a call returns \
         a function, give it a name first.

Wrong:

    $x = make()(1)

Right:

    $f = make()
    $x = $f(1)",
    ),
    (
        "M0021",
        "there is no unary minus",
        "A minus in front of a value is part of a number and touches its digits. Anything else is negated by \
         taking it away from zero.

Wrong:

    $y = -$x

Right:

    $y = 0 - $x",
    ),
    (
        "M0022",
        "`else` does not follow its brace",
        "A statement ends with its line, so `else` stands on the line of the `}` that closes the branch before \
         it.

Wrong:

    if $x {
        test \"a\" {}
    }
    else {
        test \"b\" {}
    }

Right:

    if $x {
        test \"a\" {}
    } else {
        test \"b\" {}
    }",
    ),
    (
        "M0023",
        "an opening brace on a line of its own",
        "A statement ends with its line, so the `{` of a body stands on the line of what it belongs to.

Wrong:

    class web
    {
        pkg \"nginx\" {}
    }

Right:

    class web {
        pkg \"nginx\" {}
    }",
    ),
    (
        "M0024",
        "an operator of another language",
        "Truth values are combined with the words `and`, `or` and `not`; the signs for them that other languages \
         have are not used.

Wrong:

    $x = $a && !$b

Right:

    $x = $a and not $b",
    ),
    (
        "M0025",
        "things are nested too deeply",
        "Brackets, blocks, functions and branches can be inside each other up to a limit that the message names, \
         and a chain of operators or of `else if` can have as many links. No program that people write comes near \
         it; one that was generated may. Give parts of it names with binds, and use the names. Many alternatives \
         are better looked up in a map than asked for one by one.",
    ),
    (
        "M0026",
        "a name stands twice in a type",
        "The fields of a struct have different names, and so have the arguments of a function: otherwise nobody \
         could tell which one is meant. The second place is where the name was used first.

Wrong:

    $x struct{a int; a str} = $y

Right:

    $x struct{a int; b str} = $y",
    ),
    (
        "M0027",
        "a capitalised word that is no part of a resource",
        "In the body of a resource lower case words are fields. Capitalised ones are `Meta` for metaparameters and \
         `Before`, `Depend`, `Notify` and `Listen` for edges; an edge names another resource by its kind and its \
         name.

Wrong:

    file \"/tmp/a\" {
        Content => \"hello\",
        Before => \"/tmp/b\",
    }

Right:

    file \"/tmp/a\" {
        content => \"hello\",
        Before => File[\"/tmp/b\"],
    }",
    ),
    (
        "M0028",
        "an edge that sends half a value",
        "An edge between fields sends the value of one to the other, so both halves name a field, and there are \
         exactly two of them. To send on further, write another edge. An edge that only orders names no fields.

Wrong:

    Exec[\"a\"].output -> File[\"b\"]

Right:

    Exec[\"a\"].output -> File[\"b\"].content",
    ),
    (
        "M0099",
        "formatting would have changed the meaning",
        "After formatting a text it is read again and compared with what it was. The two were not the same, so the \
         file was left as it is. This is a mistake in the formatter and never in your program. Please report it \
         with the file, or with the part of it that is enough to show the mistake.",
    ),
    (
        "M0100",
        "a string has no end",
        "A string starts with a double quote and goes on to the next one. This one has none up to the end of the \
         file. A quote inside of a string is written `\\\"`, and a backslash `\\\\`, so a string whose last \
         character is a single backslash does not end there.

Wrong:

    $path = \"C:\\\"

Right:

    $path = \"C:\\\\\"",
    ),
    (
        "M0101",
        "a string that goes on too far",
        "A string may go over several lines. Behind the end of this one something stands that cannot follow \
         a string, so it probably ends at a quote that was meant to start the next one. The second place is where \
         the string starts: look there for the missing quote.

Wrong:

    test \"foo {}
    test \"bar\" {}

Right:

    test \"foo\" {}
    test \"bar\" {}",
    ),
    (
        "M0102",
        "an unknown escape in a string",
        "A backslash in a string starts one of the escapes \\a \\b \\f \\n \\r \\t \\v \\\\ \\\" and \\$. Any other \
         character behind it is a mistake, so that a misspelled one does not go unnoticed. A backslash itself is \
         written twice. There are no escapes with numbers; write the character itself.

Wrong:

    $pattern = \"\\d+\"

Right:

    $pattern = \"\\\\d+\"",
    ),
    (
        "M0103",
        "only the name of a variable can stand in `${}`",
        "Inside a string `${name}` stands for the value of the variable of that name, which may have dots and has \
         no dollar of its own. Expressions cannot stand there: give the value a name first. For the two characters \
         themselves write `\\${`.

Wrong:

    $text = \"there are ${$a + 1} of them\"

Right:

    $b = $a + 1
    $text = \"there are ${b} of them\"",
    ),
];

#[cfg(test)]
mod tests {
    use super::CODES;
    use crate::{Code, Source, SyntaxError, parse};

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

    fn row(code: Code) -> &'static (&'static str, &'static str, &'static str) {
        CODES.iter().find(|row| row.0 == code.id()).unwrap_or_else(|| panic!("{code:?} is not explained"))
    }

    #[test]
    fn every_code_has_one_row_and_every_row_a_code() {
        assert!(CODES.is_sorted_by(|a, b| a.0 < b.0));
        let ids: Vec<&str> = Code::ALL.iter().map(|code| code.id()).collect();
        let rows: Vec<&str> = CODES.iter().map(|row| row.0).collect();
        assert_eq!(ids, rows);
    }

    #[test]
    fn explanations_are_a_paragraph_and_examples() {
        for (id, title, explanation) in CODES {
            assert!(id.len() == 5 && id.starts_with('M'), "{id}");
            assert!(!title.is_empty() && !title.ends_with('.'), "{id}");
            let mut blocks = explanation.split("\n\n");
            let paragraph = blocks.next().unwrap();
            assert!(paragraph.ends_with('.') && !paragraph.contains("  "), "{id}");
            assert!(!paragraph.contains('\n'), "{id}");
            assert!(paragraph.matches(". ").count() < 6, "{id}");
            let rest: Vec<&str> = blocks.collect();
            assert!(matches!(rest.as_slice(), [] | ["Wrong:", _, "Right:", _]), "{id}: {rest:?}");
        }
    }

    #[test]
    fn a_wrong_example_has_its_mistake_and_a_right_one_has_none() {
        let mut without = Vec::new();
        for &code in Code::ALL {
            let (_, _, explanation) = row(code);
            let (Some(wrong), Some(right)) = (example(explanation, "Wrong:"), example(explanation, "Right:"))
            else {
                without.push(code);
                continue;
            };
            let codes: Vec<Code> = parse(&wrong).errors().iter().map(|error| error.code).collect();
            assert!(!codes.is_empty() && codes.iter().all(|found| *found == code), "{code:?}: {codes:?}");
            assert_eq!(parse(&right).errors(), [], "{code:?}");
            assert!(crate::format(&right).is_ok(), "{code:?}");
        }
        // These are too large to show or invisible; the next test has them.
        use Code::*;
        assert_eq!(without, [NotUtf8, TooLarge, CarriageReturn, FloatOverflow, TooDeep, FormatterBug]);
    }

    #[test]
    fn what_has_no_example_happens_too() {
        let first = |errors: &[SyntaxError]| errors.first().map(|error| error.code);
        assert_eq!(crate::decode(b"\xff").unwrap_err().code, Code::NotUtf8);
        assert_eq!(first(&Source::bounded("$x = 1\n", 3).errors), Some(Code::TooLarge));
        assert_eq!(first(parse("$x = 1\r$y = 2\n").errors()), Some(Code::CarriageReturn));
        let float = format!("$x = {}.0\n", "9".repeat(400));
        assert_eq!(first(parse(&float).errors()), Some(Code::FloatOverflow));
        let deep = format!("$x = {}\n", "(".repeat(100_000));
        assert_eq!(first(parse(&deep).errors()), Some(Code::TooDeep));
    }
}
