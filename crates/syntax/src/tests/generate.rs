//! Programs made from arbitrary bytes: each byte is a choice, and when they run out the simplest choice is taken.
//!
//! All that comes out is valid, in any layout that the language accepts, with comments wherever a newline may be.

/// Makes a program.
pub(crate) fn program(choices: &[u8]) -> String {
    let mut generator = Generator { choices, out: String::new(), depth: 0, brackets: 0 };
    generator.statements();
    generator.out
}

struct Generator<'c> {
    choices: &'c [u8],
    out: String,
    depth: u32,
    /// Newlines mean nothing while this is not zero.
    brackets: u32,
}

impl Generator<'_> {
    fn choose(&mut self, below: u8) -> u8 {
        match self.choices.split_first() {
            Some((first, rest)) => {
                self.choices = rest;
                first % below
            }
            None => 0,
        }
    }

    fn pick<'p>(&mut self, words: &[&'p str]) -> &'p str {
        let index = self.choose(words.len() as u8);
        words[usize::from(index)]
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn comment(&mut self) {
        let text = self.pick(&["# one", "#two", "#", "#\ttabs \t", "# \"quoted ${x}\"", "# }])"]);
        self.put(text);
    }

    /// What may stand between two tokens that need not be apart.
    fn gap(&mut self) {
        let choice = self.choose(12);
        match choice {
            1 | 2 => self.put(" "),
            3 => self.put("\t "),
            4.. if self.brackets > 0 => self.break_line(choice > 8),
            _ => {}
        }
    }

    /// Between two tokens that must be apart.
    fn space(&mut self) {
        self.put(" ");
        self.gap();
    }

    /// A newline, perhaps more, perhaps with comments.
    fn break_line(&mut self, with_comments: bool) {
        if with_comments {
            self.put(" ");
            self.comment();
        }
        self.put("\n");
        for _ in 0..self.choose(3) {
            let line = self.choose(4);
            if line == 1 && with_comments {
                self.put("\t");
                self.comment();
            }
            self.put("\n");
        }
    }

    fn statements(&mut self) {
        loop {
            match self.choose(6) {
                0 => return,
                1 => self.break_line(true),
                2 => self.put("  "),
                _ => {
                    self.statement();
                    let comment = self.choose(3) == 1;
                    self.break_line(comment);
                }
            }
        }
    }

    fn statement(&mut self) {
        let simple = self.depth > 4;
        match self.choose(if simple { 8 } else { 14 }) {
            0 | 1 => self.bind(),
            2 | 3 => self.resource(),
            4 => self.edge(),
            5 => {
                let import = self.pick(&["import \"fmt\"", "import  \"a/\" as b", "import \"x\"as *"]);
                self.put(import);
            }
            6 => {
                let include = self.pick(&["include c", "include a . b()", "include a.b(1, $x) as c"]);
                self.put(include);
            }
            7 => {
                self.put("panic");
                self.arguments();
            }
            8 | 9 => self.if_statement(),
            10 => {
                let head = self.pick(&["for $i, $v in", "forkv $k ,$map in", "for $in,$v in"]);
                self.put(head);
                self.space();
                self.expression();
                self.block();
            }
            11 => {
                let head = self.pick(&["class c", "class a:b"]);
                self.put(head);
                if self.choose(2) == 1 {
                    self.parameters();
                }
                self.block();
            }
            12 => {
                self.put("func f");
                self.signature();
            }
            _ => {
                self.put("collect ");
                self.resource();
            }
        }
    }

    fn bind(&mut self) {
        let name = self.pick(&["$x", "$map", "$in", "$a_b"]);
        self.put(name);
        if self.choose(3) == 1 {
            self.put(" ");
            self.type_();
        }
        let equals = self.pick(&[" = ", "=", " ="]);
        self.put(equals);
        self.expression();
    }

    fn if_statement(&mut self) {
        self.put("if ");
        self.expression();
        self.block();
        match self.choose(3) {
            1 => {
                self.put(" else");
                self.block();
            }
            2 => {
                self.put("else ");
                self.depth += 1;
                self.if_statement();
                self.depth -= 1;
            }
            _ => {}
        }
    }

    fn block(&mut self) {
        self.put(" {");
        self.depth += 1;
        let outer = std::mem::replace(&mut self.brackets, 0);
        match self.choose(4) {
            0 => {}
            1 => self.statement(),
            _ => {
                self.break_line(true);
                self.statements();
            }
        }
        self.brackets = outer;
        self.depth -= 1;
        self.put("}");
    }

    /// Something between brackets.
    fn enclosed(&mut self, open: &str, close: &str, inner: impl FnOnce(&mut Self)) {
        self.put(open);
        self.brackets += 1;
        self.depth += 1;
        self.gap();
        inner(self);
        self.gap();
        self.depth -= 1;
        self.brackets -= 1;
        self.put(close);
    }

    fn list(&mut self, open: &str, close: &str, element: fn(&mut Self)) {
        self.enclosed(open, close, |generator| {
            let count = if generator.depth > 6 { generator.choose(2) } else { generator.choose(4) };
            for index in 0..count {
                element(generator);
                generator.gap();
                if index + 1 < count || generator.choose(2) == 1 {
                    generator.put(",");
                    generator.gap();
                }
            }
        });
    }

    fn resource(&mut self) {
        let kind = self.pick(&["test", "http:server", "a : b"]);
        self.put(kind);
        self.put(" ");
        self.expression();
        self.list(" {", "}", |generator| {
            let head = generator.pick(&["a", "content", "Meta:noop", "Meta", "Before"]);
            generator.put(head);
            generator.gap();
            generator.put("=>");
            generator.gap();
            if generator.choose(3) == 1 {
                generator.expression();
                generator.put(" ?:");
                generator.gap();
            }
            match head {
                "Before" => generator.half(false),
                _ => generator.expression(),
            }
        });
    }

    fn half(&mut self, field: bool) {
        let kind = self.pick(&["A", "Dhcp:Host", "A :B"]);
        self.put(kind);
        self.enclosed("[", "]", Self::expression);
        if field {
            self.put(".f");
        }
    }

    fn edge(&mut self) {
        let field = self.choose(3) == 1;
        let halves = if field { 1 } else { self.choose(3) };
        self.half(field);
        for _ in 0..halves {
            self.operator("->");
            self.half(field);
        }
    }

    /// An operator with what may stand around it.
    fn operator(&mut self, operator: &str) {
        match self.choose(8) {
            1 => self.break_line(false),
            2 => self.break_line(true),
            _ => {}
        }
        self.put(" ");
        self.put(operator);
        self.put(" ");
        match self.choose(8) {
            1 => self.break_line(false),
            2 => self.break_line(true),
            _ => {}
        }
    }

    fn type_(&mut self) {
        self.depth += 1;
        match self.choose(if self.depth > 5 { 3 } else { 9 }) {
            0 => self.put("int"),
            1 => self.put("str"),
            2 => {
                let word = self.pick(&["bool", "float", "variant"]);
                self.put(word);
            }
            3 => {
                self.put("[]");
                self.type_();
            }
            4 | 5 => {
                let open = self.pick(&["map{", "{"]);
                self.enclosed(open, "}", |generator| {
                    generator.put("str");
                    generator.gap();
                    generator.put(":");
                    generator.gap();
                    generator.type_();
                });
            }
            6 => self.enclosed("struct{", "}", |generator| {
                for name in ["a ", "b ", "c "].into_iter().take(usize::from(generator.choose(4))) {
                    generator.put(name);
                    generator.type_();
                    generator.gap();
                    generator.put(";");
                    generator.gap();
                }
            }),
            _ => {
                self.list("func(", ") ", |generator| {
                    if generator.choose(3) == 1 {
                        // The names of arguments differ, so their length will do.
                        let name = format!("$a{} ", generator.out.len());
                        generator.put(&name);
                    }
                    generator.type_();
                });
                self.type_();
            }
        }
        self.depth -= 1;
    }

    fn parameters(&mut self) {
        self.list("(", ")", |generator| {
            generator.put("$p");
            if generator.choose(2) == 1 {
                generator.put(" ");
                generator.type_();
            }
        });
    }

    fn signature(&mut self) {
        self.parameters();
        if self.choose(3) == 1 {
            self.put(" ");
            self.type_();
        }
        self.body();
    }

    fn body(&mut self) {
        self.enclosed(" {", "}", Self::expression);
    }

    fn arguments(&mut self) {
        self.list("(", ")", Self::expression);
    }

    fn expression(&mut self) {
        self.depth += 1;
        match self.choose(if self.depth > 7 { 7 } else { 20 }) {
            0 => self.put("1"),
            1 | 2 => {
                let number = self.pick(&["007", "-1", "-0", "2.50", "0.1", "-3.0", "true", "false"]);
                self.put(number);
            }
            3 | 4 => {
                let string = self.pick(&[
                    "\"\"",
                    "\"a${b}\"",
                    "\"two\n\nlines\"",
                    "\"# no\"",
                    "\"\\\\\"",
                    "\"é\r\n\"",
                ]);
                self.put(string);
            }
            5 | 6 => {
                let variable = self.pick(&["$x", "$a.b", "$map", "$ y"]);
                self.put(variable);
            }
            7 => self.list("[", "]", Self::expression),
            8 => self.list("{", "}", |generator| {
                generator.expression();
                generator.gap();
                generator.put("=>");
                generator.gap();
                generator.expression();
            }),
            9 => self.list("struct{", "}", |generator| {
                generator.put("f");
                generator.gap();
                generator.put("=>");
                generator.gap();
                generator.expression();
            }),
            10 => {
                let name = self.pick(&["f", "fmt . printf", "$g", "map.keys"]);
                self.put(name);
                self.arguments();
            }
            11 => {
                self.put("func");
                self.signature();
                if self.choose(2) == 1 {
                    self.arguments();
                }
            }
            12 => self.if_expression(),
            13 => self.enclosed("(", ")", Self::expression),
            14 => {
                self.put("not ");
                self.expression();
            }
            15 => {
                self.put("$l");
                self.enclosed("[", "]", Self::expression);
            }
            16 => {
                self.put("$s");
                let choice = self.choose(4);
                if choice == 1 {
                    self.break_line(true);
                }
                self.put("->f");
                if choice == 2 {
                    self.operator("<|>");
                    self.expression();
                }
            }
            17 => {
                // In parentheses, because comparisons do not chain.
                self.put("(");
                self.brackets += 1;
                self.put("$a");
                let operator = self.pick(&["==", "<", "in", ">="]);
                self.operator(operator);
                self.put("$b");
                self.brackets -= 1;
                self.put(")");
            }
            18 => {
                self.put("$a");
                let glued = self.pick(&["-1", " -1.5", "- 1", " - -1"]);
                self.put(glued);
            }
            _ => {
                self.expression();
                let operator = self.pick(&["+", "-", "*", "/", "and", "or", "<|>"]);
                self.operator(operator);
                self.expression();
            }
        }
        self.depth -= 1;
    }

    fn if_expression(&mut self) {
        self.put("if ");
        self.expression();
        self.body();
        self.put(" else ");
        if self.choose(3) == 1 {
            self.depth += 1;
            self.if_expression();
            self.depth -= 1;
        } else {
            self.body();
        }
    }
}
