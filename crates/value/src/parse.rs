//! Reading the text of a type.

use std::collections::HashSet;
use std::sync::Arc;

use crate::Type;

/// How deep types may nest. Deeper text is refused, so that no text can exhaust the stack.
const DEPTH: usize = 64;

impl Type {
    /// Reads the printed form of a type.
    ///
    /// Names of function arguments may be left out, a `;` may stand before the closing brace of a struct, and
    /// blanks may surround every part. `None` is the answer to anything else, to text that nests too deep, and to
    /// a type variable, which no person can write. Whether the key of a map can be one is not asked; see
    /// [`Type::is_hashable`].
    pub fn parse(text: &str) -> Option<Type> {
        let mut parser = Parser { rest: text, depth: 0 };
        let ty = parser.ty()?;
        parser.blanks();
        parser.rest.is_empty().then_some(ty)
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn ty(&mut self) -> Option<Type> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let ty = if self.eat("[]") {
            Type::list(self.ty()?)
        } else if self.eat("map{") {
            self.map()?
        } else if self.eat("struct{") {
            self.structure()?
        } else if self.eat("func(") {
            self.func()?
        } else {
            simple(self.word())?
        };
        self.depth -= 1;
        Some(ty)
    }

    fn map(&mut self) -> Option<Type> {
        let key = self.ty()?;
        self.expect(":")?;
        let value = self.ty()?;
        self.expect("}")?;
        Some(Type::map(key, value))
    }

    fn structure(&mut self) -> Option<Type> {
        let mut names = HashSet::new();
        let mut fields: Vec<(Arc<str>, Type)> = Vec::new();
        while !self.eat("}") {
            let name = self.word();
            if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !names.insert(name) {
                return None;
            }
            self.blank()?;
            fields.push((name.into(), self.ty()?));
            if !self.eat(";") {
                self.expect("}")?;
                break;
            }
        }
        Some(Type::Struct(fields.into()))
    }

    fn func(&mut self) -> Option<Type> {
        let mut args: Vec<(Arc<str>, Type)> = Vec::new();
        if !self.eat(")") {
            args.push(self.argument()?);
            while self.eat(",") {
                args.push(self.argument()?);
            }
            self.expect(")")?;
        }
        Some(Type::func(args, self.ty()?))
    }

    /// `name type` or only `type`. A name is followed by a blank and then a type, a type by neither, so looking
    /// one word ahead tells them apart.
    fn argument(&mut self) -> Option<(Arc<str>, Type)> {
        let start = self.rest;
        let name = self.word();
        if !name.is_empty() && self.blank().is_some() && !self.rest.starts_with([',', ')']) {
            return Some((name.into(), self.ty()?));
        }
        self.rest = start;
        Some(("".into(), self.ty()?))
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        let end = self.rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.eat(token).then_some(())
    }

    /// At least one blank.
    fn blank(&mut self) -> Option<()> {
        let before = self.rest.len();
        self.blanks();
        (self.rest.len() < before).then_some(())
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}

fn simple(word: &str) -> Option<Type> {
    Some(match word {
        "bool" => Type::Bool,
        "str" => Type::Str,
        "int" => Type::Int,
        "float" => Type::Float,
        "variant" => Type::Variant,
        "nil" => Type::Nil,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printed_form_is_read_back() {
        for text in [
            "bool",
            "str",
            "int",
            "float",
            "variant",
            "nil",
            "[]str",
            "[][]int",
            "map{str: int}",
            "map{struct{a int; b str}: []float}",
            "struct{}",
            "struct{a bool; bb int; c_d str}",
            "struct{nested struct{a map{int: str}}; list []struct{}}",
            "func() float",
            "func(0 str, 1 int) float",
            "func(a str, b func(x int) bool) []map{str: variant}",
        ] {
            let ty = Type::parse(text).unwrap_or_else(|| panic!("{text} is not read"));
            assert_eq!(ty.to_string(), text);
        }
    }

    #[test]
    fn argument_names_blanks_and_a_last_semicolon_may_vary() {
        for (text, printed) in [
            ("  int\t", "int"),
            ("[] str", "[]str"),
            ("map{str:int}", "map{str: int}"),
            ("map{ str :  int }", "map{str: int}"),
            ("struct{ }", "struct{}"),
            ("struct{a int;}", "struct{a int}"),
            ("struct{ a  int ;b str ; }", "struct{a int; b str}"),
            ("func(str, int) float", "func(0 str, 1 int) float"),
            ("func( str ,b int )float", "func(0 str, b int) float"),
            ("func(str str) str", "func(str str) str"),
            ("func(map map{str: int}) str", "func(map map{str: int}) str"),
            ("func([]str, struct{}) nil", "func(0 []str, 1 struct{}) nil"),
        ] {
            assert_eq!(Type::parse(text).map(|ty| ty.to_string()).as_deref(), Some(printed), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_type() {
        for text in [
            "",
            " ",
            "Bool",
            "string",
            "int64",
            "?1",
            "[]",
            "[",
            "[3]int",
            "int int",
            "int]",
            "map",
            "map{}",
            "map{str}",
            "map{str: }",
            "map{str: int",
            "map{str; int}",
            "map {str: int}",
            "struct",
            "struct{a}",
            "struct{a int b str}",
            "struct{a int; a str}",
            "struct{;}",
            "struct{a int;;}",
            "struct{1a int}",
            "structa{}",
            "struct{a-b int}",
            "func",
            "func()",
            "func(",
            "func(a) int",
            "func(a str,) int",
            "func(, a str) int",
            "func(a str b) int",
            "func($a str) int",
            "int\u{a0}",
            "é",
        ] {
            assert_eq!(Type::parse(text), None, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded_and_width_is_not() {
        assert!(Type::parse(&format!("{}int", "[]".repeat(DEPTH - 1))).is_some());
        assert_eq!(Type::parse(&format!("{}int", "[]".repeat(DEPTH))), None);
        assert_eq!(Type::parse(&"[]".repeat(1_000_000)), None);
        assert_eq!(Type::parse(&"func(".repeat(1_000_000)), None);
        let wide = format!("struct{{{}}}", (0..10_000).map(|i| format!("f{i} int;")).collect::<String>());
        assert!(matches!(Type::parse(&wide), Some(Type::Struct(fields)) if fields.len() == 10_000));
    }
}
