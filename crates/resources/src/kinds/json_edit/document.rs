//! A JSON text, and changes to it that leave the rest as it is written.

use std::collections::HashSet;
use std::ops::Range;

use super::edit::{Edit, Path, is_json, quoted};

/// How new objects are indented where nothing tells.
const INDENT: &str = "\t";
/// How deep lists and objects may be in each other.
const DEEPEST: usize = 128;

/// The text after the edits, or nothing if it says the same already.
pub(super) fn edited(text: &[u8], edits: &[Edit]) -> Result<Option<Vec<u8>>, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the document is not UTF-8")?;
    let original = parse(text).map_err(|why| format!("the document is not right: {why}"))?;
    if !matches!(original.content, Content::Object(_)) {
        return Err(format!("the document is {}, and not an object", original.content.kind()));
    }
    let mut current = text.to_owned();
    for edit in edits {
        let root = parse(&current).map_err(|why| format!("the document is not right: {why}"))?;
        let document = Document { text: &current, root: &root, style: Style::of(&current, &root) };
        let change = match edit {
            Edit::Set(path, value) => document.set(path, value)?,
            Edit::Delete(path) => document.delete(path)?,
        };
        if let Some((place, new)) = change {
            current.replace_range(place, &new);
        }
    }
    let root = parse(&current).map_err(|why| format!("the document would not be right: {why}"))?;
    let same = is_same((text, &original), (&current, &root));
    Ok((!same).then(|| current.into_bytes()))
}

/// Whether a text is JSON in which no key is there twice.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse(text).map(|_| ())
}

/// A value, and where it is written.
struct Node {
    place: Range<usize>,
    content: Content,
}

enum Content {
    Object(Vec<Member>),
    List(Vec<Node>),
    Text(String),
    /// A number, true, false or null.
    Word,
}

impl Content {
    fn kind(&self) -> &'static str {
        match self {
            Content::Object(_) => "an object",
            Content::List(_) => "a list",
            Content::Text(_) => "a string",
            Content::Word => "a number or a word",
        }
    }
}

struct Member {
    key: String,
    /// Where the key is written.
    place: Range<usize>,
    value: Node,
}

fn parse(text: &str) -> Result<Node, String> {
    // What follows relies on the text being right.
    is_json(text).map_err(|error| error.to_string())?;
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.skip();
    reader.value()
}

/// Reads a text that is JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Result<Node, String> {
        let begin = self.at;
        if self.depth > DEEPEST {
            return Err(format!("it is deeper than {DEEPEST} levels"));
        }
        self.depth += 1;
        let content = match self.peek() {
            b'{' => self.object()?,
            b'[' => self.list()?,
            b'"' => Content::Text(self.string()?),
            _ => {
                while !matches!(self.peek(), b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | 0) {
                    self.at += 1;
                }
                Content::Word
            }
        };
        self.depth -= 1;
        Ok(Node { place: begin..self.at, content })
    }

    fn object(&mut self) -> Result<Content, String> {
        let mut members = Vec::new();
        let mut keys = HashSet::new();
        self.step();
        while self.peek() == b'"' {
            let begin = self.at;
            let key = self.string()?;
            let place = begin..self.at;
            if !keys.insert(key.clone()) {
                return Err(format!("the key {} is there twice in one object", quoted(&key)));
            }
            self.skip();
            // The colon.
            self.step();
            let value = self.value()?;
            members.push(Member { key, place, value });
            self.skip();
            if self.peek() == b',' {
                self.step();
            }
        }
        self.at += 1;
        Ok(Content::Object(members))
    }

    fn list(&mut self) -> Result<Content, String> {
        let mut elements = Vec::new();
        self.step();
        while !matches!(self.peek(), b']' | 0) {
            elements.push(self.value()?);
            self.skip();
            if self.peek() == b',' {
                self.step();
            }
        }
        self.at += 1;
        Ok(Content::List(elements))
    }

    fn string(&mut self) -> Result<String, String> {
        let begin = self.at;
        self.at += 1;
        while !matches!(self.peek(), b'"' | 0) {
            self.at += if self.peek() == b'\\' { 2 } else { 1 };
        }
        self.at += 1;
        let written = self.text.get(begin..self.at).unwrap_or_default();
        serde_json::from_str(written).map_err(|error| error.to_string())
    }

    /// The next byte; zero at the end, which is in no JSON text.
    fn peek(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Over one sign, and the white space after it.
    fn step(&mut self) {
        self.at += 1;
        self.skip();
    }

    fn skip(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }
}

/// Whether two values mean the same. The order of keys does not matter, the spelling of numbers does.
fn is_same((left, one): (&str, &Node), (right, other): (&str, &Node)) -> bool {
    match (&one.content, &other.content) {
        (Content::Text(one), Content::Text(other)) => one == other,
        (Content::Word, Content::Word) => left[one.place.clone()] == right[other.place.clone()],
        (Content::List(one), Content::List(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_same((left, a), (right, b)))
        }
        (Content::Object(one), Content::Object(other)) => {
            let others: std::collections::HashMap<&str, &Node> =
                other.iter().map(|member| (member.key.as_str(), &member.value)).collect();
            let has = |member: &Member| {
                others
                    .get(member.key.as_str())
                    .is_some_and(|value| is_same((left, &member.value), (right, value)))
            };
            one.len() == other.len() && one.iter().all(has)
        }
        _ => false,
    }
}

/// How a document is written.
struct Style {
    /// One level of indentation, if each key has a line of its own.
    indent: Option<String>,
    /// Between a key and its value.
    colon: String,
}

impl Style {
    fn of(text: &str, root: &Node) -> Style {
        let Content::Object(members) = &root.content else {
            return Style { indent: Some(INDENT.into()), colon: ": ".into() };
        };
        let Some(first) = members.first() else {
            return Style { indent: Some(INDENT.into()), colon: ": ".into() };
        };
        let before = &text[root.place.start + 1..first.place.start];
        let indent = before.rsplit_once('\n').map(|(_, indent)| indent.to_owned());
        let indent = indent.map(|indent| if indent.is_empty() { INDENT.to_owned() } else { indent });
        Style { indent, colon: text[first.place.end..first.value.place.start].to_owned() }
    }
}

struct Document<'a> {
    text: &'a str,
    root: &'a Node,
    style: Style,
}

/// Where something is to be written, and what.
type Change = Option<(Range<usize>, String)>;

impl Document<'_> {
    fn set(&self, path: &Path, value: &str) -> Result<Change, String> {
        let (object, depth) = self.descend(path)?;
        let new = parse(value)?;
        // What is missing of the path, the value inside of it.
        let (key, missing) = (&path.0[depth], &path.0[depth + 1..]);
        if let (Some(member), []) = (object.member(key), missing) {
            if is_same((self.text, &member.value), (value, &new)) {
                return Ok(None);
            }
            let base = self.indentation_of(object, depth);
            return Ok(Some((member.value.place.clone(), self.written(value, &new, base.as_deref()))));
        }
        Ok(Some(self.added(object, depth, key, missing, (value, &new))))
    }

    fn delete(&self, path: &Path) -> Result<Change, String> {
        let (object, depth) = self.descend(path)?;
        let Some(place) = object.members().iter().position(|member| member.key == path.0[depth]) else {
            return Ok(None);
        };
        if depth + 1 < path.0.len() {
            return Ok(None);
        }
        let members = object.members();
        let end = members[place].value.place.end;
        let range = match (place, members.get(place + 1)) {
            (0, None) => return Ok(Some((object.place.clone(), "{}".to_owned()))),
            (0, Some(next)) => members[0].place.start..next.place.start,
            (place, _) => members[place - 1].value.place.end..end,
        };
        Ok(Some((range, String::new())))
    }

    /// The deepest object on a path that is there, and how deep it is.
    fn descend(&self, path: &Path) -> Result<(&Node, usize), String> {
        let mut node = self.root;
        let last = path.0.len() - 1;
        for (depth, key) in path.0[..last].iter().enumerate() {
            let Some(member) = node.member(key) else { return Ok((node, depth)) };
            if !matches!(member.value.content, Content::Object(_)) {
                let at = Path(path.0[..=depth].to_vec());
                return Err(format!(
                    "cannot come to {path}, as {at} is {}, and not an object",
                    member.value.content.kind()
                ));
            }
            node = &member.value;
        }
        Ok((node, last))
    }

    /// An object with one more key at its end.
    fn added(
        &self,
        object: &Node,
        depth: usize,
        key: &str,
        missing: &[String],
        (text, value): (&str, &Node),
    ) -> (Range<usize>, String) {
        let base = self.indentation_of(object, depth);
        let value = self.nested(missing, (text, value), base.as_deref());
        let written = format!("{}{}{value}", quoted(key), self.style.colon);
        match object.members() {
            [] => {
                let inside = match &base {
                    Some(base) => {
                        let unit = self.style.indent.as_deref().unwrap_or(INDENT);
                        format!("{{\n{base}{written}\n{}}}", base.strip_suffix(unit).unwrap_or_default())
                    }
                    None => format!("{{{written}}}"),
                };
                (object.place.clone(), inside)
            }
            members => {
                let last = &members[members.len() - 1];
                let before = match members {
                    [.., other, _] => other.value.place.end,
                    _ => object.place.start,
                };
                // As much space as there is before the last one.
                let space = self.text[before..last.place.start].trim_start_matches(['{', ',']);
                let space = space.rsplit_once(',').map_or(space, |(_, space)| space);
                let space = if space.is_empty() && self.style.colon.ends_with(' ') { " " } else { space };
                (last.value.place.end..last.value.place.end, format!(",{space}{written}"))
            }
        }
    }

    /// The value inside of objects that are yet to be made.
    fn nested(&self, missing: &[String], (text, value): (&str, &Node), base: Option<&str>) -> String {
        let unit = self.style.indent.as_deref().unwrap_or(INDENT);
        let bases: Vec<Option<String>> = (0..=missing.len())
            .map(|level| base.map(|base| format!("{base}{}", unit.repeat(level))))
            .collect();
        let mut written = self.written(text, value, bases[missing.len()].as_deref());
        for (level, key) in missing.iter().enumerate().rev() {
            let inside = format!("{}{}{written}", quoted(key), self.style.colon);
            written = match (&bases[level], &bases[level + 1]) {
                (Some(outer), Some(inner)) => format!("{{\n{inner}{inside}\n{outer}}}"),
                _ => format!("{{{inside}}}"),
            };
        }
        written
    }

    /// How far the keys of an object are indented, if they have lines of their own.
    fn indentation_of(&self, object: &Node, depth: usize) -> Option<String> {
        match object.members().first() {
            Some(first) => {
                let before = &self.text[object.place.start..first.place.start];
                before.rsplit_once('\n').map(|(_, indent)| indent.to_owned())
            }
            None => self.style.indent.as_ref().map(|indent| indent.repeat(depth + 1)),
        }
    }

    /// A value in the style of the document.
    fn written(&self, text: &str, node: &Node, base: Option<&str>) -> String {
        let unit = self.style.indent.as_deref().unwrap_or(INDENT);
        let inner = base.map(|base| format!("{base}{unit}"));
        let (parts, open, close): (Vec<String>, _, _) = match &node.content {
            Content::Text(_) | Content::Word => return text[node.place.clone()].to_owned(),
            Content::List(elements) => (
                elements.iter().map(|element| self.written(text, element, inner.as_deref())).collect(),
                '[',
                ']',
            ),
            Content::Object(members) => {
                let member = |member: &Member| {
                    let value = self.written(text, &member.value, inner.as_deref());
                    format!("{}{}{value}", &text[member.place.clone()], self.style.colon)
                };
                (members.iter().map(member).collect(), '{', '}')
            }
        };
        match (parts.is_empty(), base, &inner) {
            (true, ..) => format!("{open}{close}"),
            (_, Some(base), Some(inner)) => {
                format!("{open}\n{inner}{}\n{base}{close}", parts.join(&format!(",\n{inner}")))
            }
            _ => {
                let comma = if self.style.colon.ends_with(' ') { ", " } else { "," };
                format!("{open}{}{close}", parts.join(comma))
            }
        }
    }
}

impl Node {
    fn members(&self) -> &[Member] {
        match &self.content {
            Content::Object(members) => members,
            _ => &[],
        }
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().find(|member| member.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str, edits: &[&str]) -> Result<Option<String>, String> {
        let edits: Vec<Edit> = edits.iter().map(|edit| Edit::read(&(*edit).into()).unwrap()).collect();
        let new = edited(text.as_bytes(), &edits)?.map(|new| String::from_utf8(new).unwrap());
        // What has been done needs not be done again.
        if let Some(new) = &new {
            assert_eq!(edited(new.as_bytes(), &edits).unwrap(), None, "{new}");
        }
        Ok(new)
    }

    #[track_caller]
    fn becomes(text: &str, edits: &[&str], expected: &str) {
        assert_eq!(edit(text, edits).unwrap().as_deref(), Some(expected));
    }

    #[test]
    fn only_what_is_edited_changes() {
        let text = "{ \"z\" : 1.50,\n\n  \"a\": [1,2 ,3], \"n\": {\"x\": 1e3}}\n";
        becomes(text, &[".n.x = 2"], &text.replace("1e3", "2"));
        becomes(text, &[".a = [ 1 ]"], &text.replace("[1,2 ,3]", "[1]"));
        becomes(text, &["del(.a)"], "{ \"z\" : 1.50, \"n\": {\"x\": 1e3}}\n");
        becomes(text, &["del(.z)"], "{ \"a\": [1,2 ,3], \"n\": {\"x\": 1e3}}\n");
        becomes(text, &["del(.n.x)"], "{ \"z\" : 1.50,\n\n  \"a\": [1,2 ,3], \"n\": {}}\n");
    }

    #[test]
    fn new_keys_are_written_as_the_others_are() {
        becomes("{}", &[".a = 1"], "{\n\t\"a\": 1\n}");
        becomes(
            "{}\n",
            &[".a.b.c = {\"x\":[]}"],
            "{\n\t\"a\": {\n\t\t\"b\": {\n\t\t\t\"c\": {\n\t\t\t\t\"x\": []\n\t\t\t}\n\t\t}\n\t}\n}\n",
        );
        becomes(
            "{\n  \"a\": 1\n}\n",
            &[".b.c = [1,2]"],
            "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [\n      1,\n      2\n    ]\n  }\n}\n",
        );
        becomes("{\"a\":1}", &[".b.c = {\"x\": [1, 2]}"], "{\"a\":1,\"b\":{\"c\":{\"x\":[1,2]}}}");
        becomes("{\"a\": 1}", &[".b = {\"x\":[1,2]}"], "{\"a\": 1, \"b\": {\"x\": [1, 2]}}");
        becomes("{\n    \"n\": {}\n}", &[".n.x = true"], "{\n    \"n\": {\n        \"x\": true\n    }\n}");
        becomes(
            "{\n    \"n\": {\n        \"x\": true\n    }\n}",
            &[".n.y = null"],
            "{\n    \"n\": {\n        \"x\": true,\n        \"y\": null\n    }\n}",
        );
        becomes("{\"a, b\": \",{\", \"c\": 1}", &[".d = 1"], "{\"a, b\": \",{\", \"c\": 1, \"d\": 1}");
    }

    #[test]
    fn keys_may_be_anything_and_are_compared_by_meaning() {
        becomes(r#"{"a": 1}"#, &[r#".["x \"y\" é\n"] = 1"#], r#"{"a": 1, "x \"y\" é\n": 1}"#);
        assert_eq!(edit(r#"{"\u0061": "\u00e9"}"#, &[".a = \"é\""]).unwrap(), None);
        assert_eq!(edit(r#"{"a": {"x": 1, "y": [2]}}"#, &[r#".a = {"y": [2], "x": 1}"#]).unwrap(), None);
        becomes(r#"{"a": 1.0}"#, &[".a = 1"], r#"{"a": 1}"#);
        becomes(
            r#"{"a": 123456789012345678901234567890}"#,
            &[".b = 0"],
            r#"{"a": 123456789012345678901234567890, "b": 0}"#,
        );
    }

    #[test]
    fn edits_are_made_in_order_and_what_cancels_out_is_nothing() {
        becomes("{\"a\": 1}", &[".b = 1", ".b = 2", "del(.a)"], "{\"b\": 2}");
        assert_eq!(edit("{ \"a\":1 }", &[".b = 1", "del(.b)"]).unwrap(), None);
        assert_eq!(edit("{}", &["del(.a)", "del(.a.b.c)"]).unwrap(), None);
        assert_eq!(edit("{\"a\": {}}", &["del(.a.b)"]).unwrap(), None);
        becomes("{\"a\": 1}", &[".a = {}", ".a.b = 1"], "{\"a\": {\"b\": 1}}");
    }

    #[test]
    fn what_cannot_be_is_told_and_nothing_is_done() {
        let refused = |text: &str, edits: &[&str]| edit(text, edits).unwrap_err();
        assert!(
            refused("{\"a\": {\"b\": 1}}", &[".x = 1", ".a.b.c = 1"]).contains(".a.b is a number or a word")
        );
        assert!(refused("{\"a\": []}", &["del(.a.b)"]).contains(".a is a list"));
        assert!(refused("[1]", &[".a = 1"]).contains("is a list, and not an object"));
        assert!(refused("{", &[".a = 1"]).contains("the document is not right"));
        assert!(refused("", &[".a = 1"]).contains("the document is not right"));
        assert!(refused("{} {}", &[".a = 1"]).contains("trailing"));
        assert!(refused("{\"a\": 1, \"a\": 2}", &[".a = 1"]).contains("twice"));
        assert!(refused("{\"x\": {\"a\": 1, \"\\u0061\": 2}}", &[".a = 1"]).contains("twice"));
        assert!(edited(b"{\"a\": \"\xff\"}", &[]).unwrap_err().contains("UTF-8"));
        let deep = format!("{}1{}", "{\"a\":".repeat(2000), "}".repeat(2000));
        assert!(refused(&deep, &[".a = 1"]).contains("deeper than 128"));
    }

    /// Whatever is done by whatever edits, the result is what the same edits make of the plain values.
    #[test]
    fn random_edits_agree_with_plain_values() {
        let mut seed = 7_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let texts =
            ["{}", "{ }\n", "{\"a\":{\"b\":{}}}", "{\n  \"a\": 1,\n  \"c\": {\"a\": [1, {\"a\": 2}]}\n}\n"];
        for _ in 0..2000 {
            let text = texts[random(4) as usize];
            let mut plain: serde_json::Value = serde_json::from_str(text).unwrap();
            let mut edits = Vec::new();
            let mut possible = true;
            for _ in 0..=random(4) {
                let keys: Vec<&str> = (0..=random(3)).map(|_| ["a", "b", "c"][random(3) as usize]).collect();
                let path = format!(".{}", keys.join("."));
                let (last, above) = keys.split_last().unwrap();
                let deletes = random(3) == 0;
                let value = ["1", "{\"a\": {}}", "[]", "\"x\""][random(4) as usize];
                edits.push(if deletes { format!("del({path})") } else { format!("{path} = {value}") });
                let mut node = Some(&mut plain);
                for key in above {
                    let Some(found) = node.take() else { break };
                    let Some(map) = found.as_object_mut() else {
                        possible = false;
                        break;
                    };
                    node = match deletes {
                        true => map.get_mut(*key),
                        false => Some(map.entry(*key).or_insert_with(|| serde_json::json!({}))),
                    };
                }
                match node.map(serde_json::Value::as_object_mut) {
                    Some(Some(map)) if deletes => drop(map.shift_remove(*last)),
                    Some(Some(map)) => {
                        drop(map.insert((*last).to_owned(), serde_json::from_str(value).unwrap()));
                    }
                    Some(None) => possible = false,
                    None => {}
                }
                if !possible {
                    break;
                }
            }
            let parsed: Vec<Edit> =
                edits.iter().map(|edit| Edit::read(&edit.as_str().into()).unwrap()).collect();
            match edited(text.as_bytes(), &parsed) {
                Ok(new) => {
                    let new = new.unwrap_or_else(|| text.into());
                    assert!(possible, "{text} {edits:?}");
                    let new: serde_json::Value = serde_json::from_slice(&new).unwrap();
                    assert_eq!(new, plain, "{text} {edits:?}");
                }
                Err(error) => assert!(!possible, "{text} {edits:?}: {error}"),
            }
        }
    }
}
