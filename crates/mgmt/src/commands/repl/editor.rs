//! A line editor: what is typed on a terminal becomes a text.
//!
//! Keys become changes of a [`Line`], and a line becomes a picture; both know no terminal. What knows one is
//! [`Keyboard`], which has it in raw mode for as long as a text is being read, and gives it back however that ends.

mod keys;
mod line;
mod raw;
mod screen;

use std::io;
use std::os::fd::OwnedFd;

use mgmt_telemetry::Output;

use super::history::History;
use keys::Key;
use line::Line;
use raw::Keyboard;
use screen::Screen;

/// More are not looked at one by one.
const MAX_SHOWN: usize = 100;

/// What came of reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Text(String),
    /// The text was given up.
    Interrupted,
    /// There is no more to come.
    End,
}

/// What knows the texts.
pub(super) trait Assistant {
    /// The text is whole: the key Enter ends it.
    fn is_finished(&self, text: &str) -> bool;

    /// What the word that ends at a byte of the text can become, and where the word starts.
    fn complete(&self, text: &str, at: usize) -> (usize, Vec<String>);
}

pub(super) struct Editor {
    pub(super) history: History,
    output: Output,
    /// Readable when a signal has come.
    signals: OwnedFd,
    /// What was cut last.
    cut: String,
}

/// A text that is being read.
struct Reading<'a> {
    line: Line,
    /// Which entry of the history is shown.
    at: usize,
    /// What was being written before the history was looked at.
    kept: Option<String>,
    search: Option<Search>,
    assistant: &'a dyn Assistant,
}

/// A search backwards in the history.
struct Search {
    words: String,
    /// The entry that was found last.
    at: usize,
    found: bool,
    /// What was there before.
    before: String,
}

enum Step {
    Go,
    Done(Answer),
}

impl Editor {
    pub(super) fn new(history: History, output: Output, signals: OwnedFd) -> Editor {
        Editor { history, output, signals, cut: String::new() }
    }

    /// Reads a text.
    pub(super) fn read(&mut self, prompt: &str, assistant: &dyn Assistant) -> io::Result<Answer> {
        let mut keyboard = Keyboard::open(self.output.clone(), self.signals.try_clone()?)?;
        let mut screen = Screen::new(prompt);
        let mut reading =
            Reading { line: Line::default(), at: self.history.len(), kept: None, search: None, assistant };
        loop {
            let picture = match &reading.search {
                None => screen.draw(&reading.line.text, reading.line.cursor, keyboard.columns()),
                Some(search) => {
                    let missing = if search.found { "" } else { "nothing for " };
                    let title = format!("({missing}`{}`) ", search.words);
                    screen.draw_with(&title, &reading.line.text, reading.line.cursor, keyboard.columns())
                }
            };
            self.output.data(&picture);
            let key = keyboard.next()?;
            let was_searching = reading.search.is_some();
            let step = match was_searching {
                true => self.search(&mut reading, key),
                false => self.press(&mut reading, key, &mut screen, &keyboard),
            };
            if let Step::Done(answer) = step {
                let end = reading.line.text.len();
                self.output.data(&screen.draw(&reading.line.text, end, keyboard.columns()));
                self.output.data("\n");
                return Ok(answer);
            }
        }
    }

    fn press(
        &mut self,
        reading: &mut Reading<'_>,
        key: Key,
        screen: &mut Screen,
        keyboard: &Keyboard,
    ) -> Step {
        let line = &mut reading.line;
        match key {
            Key::Char(character) => line.insert(character.encode_utf8(&mut [0; 4])),
            Key::Paste(text) => line.insert(&text),
            Key::Enter if reading.assistant.is_finished(&line.text) => {
                return Step::Done(Answer::Text(line.text.clone()));
            }
            Key::Enter => line.insert("\n"),
            Key::Newline => line.insert("\n"),
            Key::Interrupt => return Step::Done(Answer::Interrupted),
            Key::Hangup => return Step::Done(Answer::End),
            Key::EndOrDelete if line.text.is_empty() => return Step::Done(Answer::End),
            Key::EndOrDelete | Key::Delete => line.delete(),
            Key::Backspace => line.backspace(),
            Key::Left => line.left(),
            Key::Right => line.right(),
            Key::WordLeft => line.word_left(),
            Key::WordRight => line.word_right(),
            Key::Home => line.home(),
            Key::End => line.end(),
            Key::Up => {
                if !line.up() {
                    self.look_back(reading);
                }
            }
            Key::Down => {
                if !line.down() {
                    self.look_forward(reading);
                }
            }
            Key::Earlier => self.look_back(reading),
            Key::Later => self.look_forward(reading),
            Key::CutToEnd => self.cut = line.cut_to_end(),
            Key::CutToStart => self.cut = line.cut_to_start(),
            Key::CutWord => self.cut = line.cut_word(),
            Key::CutWordForward => self.cut = line.cut_word_forward(),
            Key::Insert => line.insert(&self.cut),
            Key::Clear => self.output.data(screen.clear()),
            Key::Search => {
                let (at, before) = (self.history.len(), line.text.clone());
                reading.search = Some(Search { words: String::new(), at, found: true, before });
            }
            Key::Tab => self.complete(reading, screen, keyboard.columns()),
            Key::Resized | Key::Cancel | Key::Other => {}
        }
        Step::Go
    }

    fn search(&mut self, reading: &mut Reading<'_>, key: Key) -> Step {
        let Some(search) = &mut reading.search else { return Step::Go };
        let from = match key {
            Key::Search => search.at,
            Key::Char(character) => {
                search.words.push(character);
                (search.at + 1).min(self.history.len())
            }
            Key::Backspace => {
                search.words.pop();
                self.history.len()
            }
            Key::Cancel | Key::Interrupt => {
                let before = std::mem::take(&mut search.before);
                reading.search = None;
                reading.line.set(before);
                return Step::Go;
            }
            Key::Hangup => return Step::Done(Answer::End),
            Key::Enter => {
                reading.search = None;
                return match reading.assistant.is_finished(&reading.line.text) {
                    true => Step::Done(Answer::Text(reading.line.text.clone())),
                    false => Step::Go,
                };
            }
            Key::Resized => return Step::Go,
            // Anything else takes what was found, to be edited.
            _ => {
                reading.search = None;
                return Step::Go;
            }
        };
        match self.history.find_before(from, &search.words) {
            Some(found) => {
                (search.at, search.found) = (found, true);
                reading.at = found;
                reading.line.set(self.history.get(found).to_owned());
            }
            None => search.found = false,
        }
        Step::Go
    }

    fn look_back(&self, reading: &mut Reading<'_>) {
        if reading.at > 0 {
            if reading.kept.is_none() {
                reading.kept = Some(reading.line.text.clone());
            }
            reading.at -= 1;
            reading.line.set(self.history.get(reading.at).to_owned());
        }
    }

    fn look_forward(&self, reading: &mut Reading<'_>) {
        if reading.at >= self.history.len() {
            return;
        }
        reading.at += 1;
        let text = match reading.at == self.history.len() {
            true => reading.kept.take().unwrap_or_default(),
            false => self.history.get(reading.at).to_owned(),
        };
        reading.line.set(text);
    }

    fn complete(&self, reading: &mut Reading<'_>, screen: &mut Screen, columns: usize) {
        let line = &mut reading.line;
        let (start, candidates) = reading.assistant.complete(&line.text, line.cursor);
        let Some(common) = common_start(&candidates) else { return };
        let word = line.text.get(start..line.cursor).unwrap_or_default();
        if common != word && common.starts_with(word) {
            line.replace(start, common);
            return;
        }
        if candidates.len() > 1 {
            let mut list = screen::table(&candidates[..candidates.len().min(MAX_SHOWN)], columns);
            if candidates.len() > MAX_SHOWN {
                list.push_str(&format!("and {} more\n", candidates.len() - MAX_SHOWN));
            }
            let end = line.text.len();
            self.output.data(&screen.draw(&line.text, end, columns));
            self.output.data(&format!("\n{list}"));
            screen.forget();
        }
    }
}

fn common_start(candidates: &[String]) -> Option<&str> {
    let (first, rest) = candidates.split_first()?;
    let mut common = first.as_str();
    for other in rest {
        let same = common.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
        let end = same.map_or(common.len().min(other.len()), |((at, _), _)| at);
        common = &common[..end];
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_start_ends_between_characters() {
        let start = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            common_start(&words).map(str::to_owned)
        };
        assert_eq!(start(&["fmt.printf", "fmt.print"]).unwrap(), "fmt.print");
        assert_eq!(start(&["größe", "grün"]).unwrap(), "gr");
        assert_eq!(start(&["é", "è"]).unwrap(), "");
        assert_eq!(start(&["one"]).unwrap(), "one");
        assert_eq!(start(&[]), None);
    }
}
