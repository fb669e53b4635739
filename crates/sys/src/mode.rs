//! Permission bits as they are written: octal (`0644`) or symbolic (`u=rw,go=r`).

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// A declared mode. Octal declares all twelve bits; symbolic declares those of the subjects it names and leaves the
/// others as they are.
///
/// Both are the same thing underneath: some bits are cleared, then some are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    clear: u32,
    set: u32,
}

/// Why a text is not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a file mode: {mistake}")]
pub struct ModeError {
    text: String,
    mistake: Mistake,
}

/// What is wrong with the text of a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing there.
    Empty,
    /// A digit that octal does not have.
    Digit(char),
    /// More than twelve bits.
    TooLarge,
    /// A clause without `=`.
    NoOperator(String),
    /// A clause that adds or takes away instead of assigning.
    Relative(String),
    /// A clause with more than one operator.
    ManyOperators(String),
    /// A letter before `=` that names nobody.
    Who(char),
    /// A letter after `=` that is no permission.
    What(char),
    /// A subject named twice.
    Twice(char),
    /// `a` or nobody, which mean everyone, beside other clauses.
    EveryoneNotAlone,
}

impl Mode {
    /// Reads an octal number or a list of clauses such as `u=rwx,g=rx,o=`.
    pub fn parse(text: &str) -> Result<Self, ModeError> {
        let parsed = if text.is_empty() {
            Err(Mistake::Empty)
        } else if text.starts_with(|first: char| first.is_ascii_digit()) {
            parse_octal(text)
        } else {
            parse_clauses(text)
        };
        parsed.map_err(|mistake| ModeError { text: shortened(text), mistake })
    }

    /// Declares all twelve bits.
    pub fn exact(bits: u32) -> Self {
        Self { clear: 0o7777, set: bits & 0o7777 }
    }

    /// The bits a file should have which has `current` now. Start from 0 for a file that does not exist.
    pub fn apply(self, current: u32) -> u32 {
        (current & 0o7777 & !self.clear) | self.set
    }

    /// Whether the result is the same for every file.
    pub fn is_exact(self) -> bool {
        self.clear | self.set == 0o7777
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        Self::parse(text)
    }
}

/// Whether a file with these bits lets anyone write a program that then runs with the rights of its owner or group:
/// setuid or setgid together with writable by others. On a directory these bits mean other things; ask only for files.
pub fn is_dangerous(mode: u32) -> bool {
    mode & (SETUID | SETGID) != 0 && mode & 0o002 != 0
}

/// The mode of a new file for which none is declared: 0666 without the bits of the process's mask.
pub fn default_file_mode() -> u32 {
    0o666 & !umask()
}

/// The mode of a new directory for which none is declared: 0777 without the bits of the process's mask.
pub fn default_directory_mode() -> u32 {
    0o777 & !umask()
}

/// The process's mask, read once. The only system call for it also sets it, for all threads, which would open a window
/// in which some other thread creates a file without it; so it is read from `/proc`.
fn umask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        field.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
    })
}

fn parse_octal(text: &str) -> Result<Mode, Mistake> {
    let mut bits: u32 = 0;
    for character in text.chars() {
        let digit = character.to_digit(8).ok_or(Mistake::Digit(character))?;
        bits = bits << 3 | digit;
        if bits > 0o7777 {
            return Err(Mistake::TooLarge);
        }
    }
    Ok(Mode::exact(bits))
}

fn parse_clauses(text: &str) -> Result<Mode, Mistake> {
    let mut mode = Mode { clear: 0, set: 0 };
    let mut named = 0;
    let alone = !text.contains(',');
    for clause in text.split(',') {
        let (who, what) = split_clause(clause)?;
        let subjects = parse_who(who, alone)?;
        for (letter, subject) in [('u', 0o700), ('g', 0o070), ('o', 0o007)] {
            if subjects & named & subject != 0 {
                return Err(Mistake::Twice(letter));
            }
        }
        named |= subjects;
        mode.clear |= subjects | special_bits(subjects);
        mode.set |= parse_what(what, subjects)?;
    }
    Ok(mode)
}

fn split_clause(clause: &str) -> Result<(&str, &str), Mistake> {
    let mut operators = clause.match_indices(['=', '+', '-']);
    let Some((_, operator)) = operators.next() else {
        return Err(Mistake::NoOperator(shortened(clause)));
    };
    if operator != "=" {
        return Err(Mistake::Relative(shortened(clause)));
    }
    if operators.next().is_some() {
        return Err(Mistake::ManyOperators(shortened(clause)));
    }
    clause.split_once('=').ok_or_else(|| Mistake::NoOperator(shortened(clause)))
}

/// The nine bits of the subjects named before the operator.
fn parse_who(who: &str, alone: bool) -> Result<u32, Mistake> {
    let mut subjects = 0;
    let mut everyone = who.is_empty();
    for letter in who.chars() {
        let subject = match letter {
            'u' => 0o700,
            'g' => 0o070,
            'o' => 0o007,
            'a' => {
                everyone = true;
                continue;
            }
            _ => return Err(Mistake::Who(letter)),
        };
        if subjects & subject != 0 {
            return Err(Mistake::Twice(letter));
        }
        subjects |= subject;
    }
    match everyone {
        true if alone => Ok(0o777),
        true => Err(Mistake::EveryoneNotAlone),
        false => Ok(subjects),
    }
}

fn parse_what(what: &str, subjects: u32) -> Result<u32, Mistake> {
    what.chars().try_fold(0, |set, letter| {
        Ok(set
            | match letter {
                'r' => 0o444 & subjects,
                'w' => 0o222 & subjects,
                'x' => 0o111 & subjects,
                's' => special_bits(subjects),
                't' => STICKY,
                _ => return Err(Mistake::What(letter)),
            })
    })
}

/// The setuid bit belongs to the user, the setgid bit to the group. The sticky bit belongs to nobody, so no
/// assignment clears it.
fn special_bits(subjects: u32) -> u32 {
    (if subjects & 0o700 != 0 { SETUID } else { 0 }) | (if subjects & 0o070 != 0 { SETGID } else { 0 })
}

/// Keeps messages readable when someone hands us a megabyte as a mode.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Empty => f.write_str("it is empty; write it like 0644 or u=rw,go=r"),
            Mistake::Digit(digit) => {
                write!(f, "{digit:?} is not an octal digit; a number here is octal, with digits 0 to 7")
            }
            Mistake::TooLarge => f.write_str("it has more than twelve bits; the largest mode is 07777"),
            Mistake::NoOperator(clause) => {
                write!(
                    f,
                    "{clause:?} does not say what to assign; write clauses like u=rw, separated by commas"
                )
            }
            Mistake::Relative(clause) => write!(
                f,
                "{clause:?} is relative to what the file has now, but a mode is a declaration of what it should be; \
                 assign with = instead, for example u=rwx"
            ),
            Mistake::ManyOperators(clause) => {
                write!(
                    f,
                    "{clause:?} has more than one operator; separate clauses with commas, like u=rw,g=r"
                )
            }
            Mistake::Who(letter) => {
                write!(f, "{letter:?} before = names nobody; use u (user), g (group), o (others) or a (all)")
            }
            Mistake::What(letter) => {
                write!(
                    f,
                    "{letter:?} after = is no permission; use r, w, x, s (setuid, setgid) or t (sticky)"
                )
            }
            Mistake::Twice(letter) => write!(f, "{letter:?} is assigned twice; name it once"),
            Mistake::EveryoneNotAlone => {
                f.write_str("a clause for everyone (a=, or nobody before =) must be the only clause")
            }
        }
    }
}
