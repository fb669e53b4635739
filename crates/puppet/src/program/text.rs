//! Values as a program writes them: in words that a person would choose.

use std::collections::BTreeSet;

use mgmt_value::{Str, Value};

use super::containers::Variable;

/// What is noted among the variables if a text is put together by the function of this name.
pub(super) const FORMAT: &str = "fmt.printf";

/// Writes values, and notes which variables stand in them.
pub(super) struct Writer<'a> {
    pub(super) variables: Vec<&'a Variable>,
    pub(super) used: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(mut variables: Vec<&'a Variable>) -> Writer<'a> {
        // Of two that are both in a text, the longer one says more.
        variables.sort_by_key(|variable| std::cmp::Reverse(variable.value.to_string().len()));
        Writer { variables, used: BTreeSet::new() }
    }

    pub(super) fn value(&mut self, value: &Value) -> String {
        if let Some(variable) = self.variables.iter().find(|variable| variable.value == *value) {
            self.used.insert(variable.name.clone());
            return format!("${}", variable.name);
        }
        let all = |parts: Vec<String>| parts.join(" ");
        match value {
            Value::Str(text) => self.text(text),
            Value::List(list) => {
                let items = list.items.iter().map(|item| format!("{},", self.value(item))).collect();
                format!("[{}]", all(items))
            }
            Value::Map(map) => {
                let entries = map.entries().iter();
                let entries =
                    entries.map(|(key, value)| format!("{} => {},", self.value(key), self.value(value)));
                format!("{{{}}}", all(entries.collect()))
            }
            Value::Struct(value) => {
                let fields = value.fields.iter();
                let fields = fields.map(|(name, value)| format!("{name} => {},", self.value(value)));
                format!("struct{{{}}}", all(fields.collect()))
            }
            // A number without a point would be an integer.
            Value::Float(value) if value.is_finite() => format!("{value:?}"),
            other => other.to_string(),
        }
    }

    /// A text in which values of variables are named. Only texts stand in a text by themselves, so that one with numbers is formatted.
    pub(super) fn text(&mut self, text: &Str) -> String {
        self.formatted(text).unwrap_or_else(|| self.name(text))
    }

    /// A text with the values of variables that are numbers, if there are any in it.
    fn formatted(&mut self, text: &Str) -> Option<String> {
        let text = text.to_text();
        let is_long = text.trim_end_matches('\n').contains('\n');
        let (mut written, mut given, mut has_number) = (String::from("\""), Vec::new(), false);
        let (mut rest, mut before) = (&*text, None);
        while let Some(letter) = rest.chars().next() {
            if let Some((variable, length)) = self.variable_at(rest, before, true) {
                let is_number = matches!(variable.value, Value::Int(_));
                has_number |= is_number;
                written.push_str(if is_number { "%d" } else { "%s" });
                given.push(variable.name.clone());
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
                continue;
            }
            match letter {
                '%' => written.push_str("%%"),
                letter => escape(letter, is_long, &mut written),
            }
            before = Some(letter);
            rest = &rest[letter.len_utf8()..];
        }
        has_number.then(|| {
            let list: String = given.iter().map(|name| format!(", ${name}")).collect();
            self.used.extend(given);
            self.used.insert(FORMAT.to_owned());
            format!("{FORMAT}({written}\"{list})")
        })
    }

    /// A text in which values of variables are named that are texts.
    pub(super) fn name(&mut self, text: &Str) -> String {
        let text = text.to_text();
        let is_long = text.trim_end_matches('\n').contains('\n');
        let mut written = String::from("\"");
        let mut rest = &*text;
        let mut before = None;
        while let Some(letter) = rest.chars().next() {
            if let Some((variable, length)) = self.variable_at(rest, before, false) {
                self.used.insert(variable.name.clone());
                written.push_str(&format!("${{{}}}", variable.name));
                before = rest[..length].chars().next_back();
                rest = &rest[length..];
                continue;
            }
            escape(letter, is_long, &mut written);
            before = Some(letter);
            rest = &rest[letter.len_utf8()..];
        }
        written.push('"');
        written
    }

    /// A variable whose value a text begins with, as whole words.
    fn variable_at(&self, rest: &str, before: Option<char>, numbers: bool) -> Option<(&'a Variable, usize)> {
        let is_word = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        self.variables.iter().find_map(|variable| {
            let value = match &variable.value {
                Value::Str(value) => value.as_str().filter(|value| !value.trim().is_empty())?.to_owned(),
                Value::Int(number) if numbers => number.to_string(),
                _ => return None,
            };
            let behind = rest.strip_prefix(value.as_str())?;
            let is_part = (is_word(before) && is_word(value.chars().next()))
                || (is_word(value.chars().next_back()) && is_word(behind.chars().next()));
            (!is_part).then_some((*variable, value.len()))
        })
    }
}

/// A letter of a text as mcl writes it. What has no escape there is itself. A text of several lines is written in several lines.
fn escape(letter: char, is_long: bool, written: &mut String) {
    match letter {
        '"' => written.push_str("\\\""),
        '\\' => written.push_str("\\\\"),
        '$' => written.push_str("\\$"),
        '\n' if !is_long => written.push_str("\\n"),
        '\t' if !is_long => written.push_str("\\t"),
        '\r' => written.push_str("\\r"),
        '\u{7}' => written.push_str("\\a"),
        '\u{8}' => written.push_str("\\b"),
        '\u{b}' => written.push_str("\\v"),
        '\u{c}' => written.push_str("\\f"),
        letter => written.push(letter),
    }
}

/// A text without variables.
pub(super) fn quoted(text: &Str) -> String {
    Writer::new(Vec::new()).name(text)
}

#[cfg(test)]
mod tests {
    use mgmt_value::Native as _;

    use super::*;

    fn variable(name: &str, value: &str) -> Variable {
        Variable { name: name.into(), key: name.into(), value: Str::from(value).to_value() }
    }

    #[test]
    fn variables_stand_for_whole_words() {
        let all = [variable("port", "80"), variable("name", "one"), variable("blank", " ")];
        for (text, expected) in [
            ("80", "$port"),
            ("Listen 80", "\"Listen ${port}\""),
            ("8080 80a 80", "\"8080 80a ${port}\""),
            ("/etc/one.conf", "\"/etc/${name}.conf\""),
            ("someone", "\"someone\""),
            ("a\\ \"$b\" \n", "\"a\\\\ \\\"\\$b\\\" \\n\""),
            ("a\n\tb\n", "\"a\n\tb\n\""),
        ] {
            let mut writer = Writer::new(all.iter().collect());
            assert_eq!(writer.value(&Str::from(text).to_value()), expected);
        }
        let number = Variable { name: "port".into(), key: "port".into(), value: 80_i64.to_value() };
        let all = [number, variable("name", "one")];
        let mut writer = Writer::new(all.iter().collect());
        let text = Str::from("100% 80\n one 8080");
        assert_eq!(writer.text(&text), "fmt.printf(\"100%% %d\n %s 8080\", $port, $name)");
        assert!(writer.used.contains(FORMAT) && writer.used.contains("port"));
        assert_eq!(writer.name(&text), "\"100% 80\n ${name} 8080\"");
    }
}
