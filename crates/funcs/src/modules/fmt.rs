//! `fmt`

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::{arity, module};
use crate::{Failure, printf as format};

module! {
    path: "fmt",
    doc: "Text from values.",
    functions: [printf],
}

/// Puts values into a text.
///
/// | verb | value | text |
/// |---|---|---|
/// | `%t` | bool | `true` or `false` |
/// | `%s` | str | as it is |
/// | `%q` | str | in double quotes, with escapes |
/// | `%d` | int | decimal |
/// | `%f` | float | the shortest decimal that is exact: 42.0 gives `42` |
/// | `%v` | any | text as it is, everything else as the language writes it |
/// | `%T` | any | its type |
/// | `%%` | | a percent sign |
///
/// There is no width, precision or flag. Where the format is known while compiling, the number and types of the values
/// are checked against it; otherwise a mismatch is a fatal error and values that are left over are ignored. Text that is
/// not ASCII is kept as it is, also in the format, and a percent sign alone at the end is an error.
///
/// ```mcl
/// fmt.printf("%s is %d", "the answer", 42) == "the answer is 42"
/// fmt.printf("%v", [1, 2,]) == "[1, 2]"
/// fmt.printf("100%%") == "100%"
/// ```
#[function(signature = "func(format str, values ?1...) str", inference = Printf)]
fn printf(arguments: &[Value]) -> Result<Str, Failure> {
    match arguments {
        [Value::Str(format), values @ ..] => Ok(Str::new(format::print(format, values)?)),
        [other, ..] => Err(Failure::fatal(format!("expected a format text, found {}", other.ty()))),
        [] => Err(arity(1, 0)),
    }
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::Value;

    #[test]
    fn the_first_argument_is_the_format() {
        assert_eq!(shown("fmt.printf", &[Value::str("%s-%d"), Value::str("a"), Value::Int(1)]), r#""a-1""#);
        assert_eq!(shown("fmt.printf", &[Value::Int(1)]), "F: expected a format text, found int");
        assert_eq!(shown("fmt.printf", &[]), "F: expected 1 arguments, found 0");
    }
}
