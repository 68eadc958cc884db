//! The line editor of `vic repl`: applies keys to the typed line and the history. Does not access a terminal.

use console::Key;

/// Maximum number of lines in the history; older ones are dropped.
const MAX_HISTORY_LINES: usize = 2_000;
/// Characters that the terminal sends for Ctrl with a letter.
const CTRL_A: char = '\u{1}';
const CTRL_D: char = '\u{4}';
const CTRL_E: char = '\u{5}';
const CTRL_K: char = '\u{b}';
const CTRL_U: char = '\u{15}';
const CTRL_W: char = '\u{17}';

/// The history of entered lines.
#[derive(Debug, Default)]
pub(super) struct History {
    lines: Vec<String>,
}

impl History {
    /// Parses a history file.
    pub(super) fn parse(text: &str) -> History {
        let mut history = History::default();
        text.lines().for_each(|it| history.add(it));
        history
    }

    /// Adds a line to the history, unless it repeats the last one.
    pub(super) fn add(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() || self.lines.last().is_some_and(|it| it == line) {
            return;
        }
        self.lines.push(line.to_string());
        let surplus = self.lines.len().saturating_sub(MAX_HISTORY_LINES);
        self.lines.drain(..surplus);
    }

    /// Returns the lines as the content of a history file.
    pub(super) fn text(&self) -> String {
        self.lines.iter().map(|it| format!("{it}\n")).collect()
    }
}

/// What the caller of the editor must do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyResult {
    /// Show the line again, because it may have changed.
    Changed,
    /// Run this line, because the user completed it.
    Done(String),
    /// Discard the line.
    Dropped,
    /// End the session, because the input has ended.
    End,
    /// Show these completions, because several are possible.
    Choices(Vec<String>),
}

/// The line being typed, and the position of the cursor in characters.
#[derive(Debug, Default)]
pub(super) struct LineEditor {
    chars: Vec<char>,
    cursor: usize,
    /// Number of steps back in the history, and the line that was typed before the first step.
    history_steps: usize,
    typed_line: Vec<char>,
}

impl LineEditor {
    /// Returns the text of the line.
    pub(super) fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Returns the characters after the cursor.
    pub(super) fn after(&self) -> &[char] {
        &self.chars[self.cursor..]
    }

    /// Applies a key to the line. For Tab, `complete` gets the text before a word and the beginning of the word, and
    /// returns the words that are possible there.
    pub(super) fn apply_key(
        &mut self,
        key: Key,
        history: &History,
        complete: impl Fn(&str, &str) -> Vec<String>,
    ) -> KeyResult {
        match key {
            Key::Enter => return KeyResult::Done(self.text()),
            Key::CtrlC => return KeyResult::Dropped,
            Key::Char(CTRL_D) if self.chars.is_empty() => return KeyResult::End,
            Key::Tab => return self.complete(complete),
            Key::Char(it) => self.apply_char(it),
            Key::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Key::Del => self.delete(),
            Key::ArrowLeft => self.cursor = self.cursor.saturating_sub(1),
            Key::ArrowRight => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = self.chars.len(),
            Key::ArrowUp => self.show_history(self.history_steps + 1, history),
            Key::ArrowDown if self.history_steps > 0 => self.show_history(self.history_steps - 1, history),
            _ => (),
        }
        KeyResult::Changed
    }

    fn apply_char(&mut self, it: char) {
        match it {
            CTRL_A => self.cursor = 0,
            CTRL_E => self.cursor = self.chars.len(),
            CTRL_D => self.delete(),
            CTRL_K => self.chars.truncate(self.cursor),
            CTRL_U => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            CTRL_W => {
                let before = &self.chars[..self.cursor];
                let word = before.iter().rposition(|it| !it.is_whitespace()).unwrap_or(0);
                let begin = before[..word].iter().rposition(|it| it.is_whitespace()).map_or(0, |it| it + 1);
                self.chars.drain(begin..self.cursor);
                self.cursor = begin;
            }
            it if it.is_control() => (),
            it => {
                self.chars.insert(self.cursor, it);
                self.cursor += 1;
            }
        }
    }

    fn delete(&mut self) {
        if self.cursor < self.chars.len() {
            self.chars.remove(self.cursor);
        }
    }

    /// Shows the line that is `back` steps back in the history; with 0 the typed line.
    fn show_history(&mut self, back: usize, history: &History) {
        if back > history.lines.len() {
            return;
        }
        if self.history_steps == 0 {
            self.typed_line = self.chars.clone();
        }
        self.history_steps = back;
        self.chars = match back {
            0 => std::mem::take(&mut self.typed_line),
            back => history.lines[history.lines.len() - back].chars().collect(),
        };
        self.cursor = self.chars.len();
    }

    fn complete(&mut self, complete: impl Fn(&str, &str) -> Vec<String>) -> KeyResult {
        let before: String = self.chars[..self.cursor].iter().collect();
        let begin = before.rfind(char::is_whitespace).map_or(0, |it| it + 1);
        let begun = &before[begin..];
        let found = complete(&before[..begin], begun);
        let common = common_prefix(&found);
        let mut more: String = common.strip_prefix(begun).unwrap_or_default().to_string();
        if found.len() == 1 {
            more.push(' ');
        }
        if more.is_empty() && found.len() > 1 {
            return KeyResult::Choices(found);
        }
        more.chars().for_each(|it| self.apply_char(it));
        KeyResult::Changed
    }
}

/// Returns the longest prefix that all words have in common.
fn common_prefix(all: &[String]) -> String {
    let Some((first, rest)) = all.split_first() else { return String::new() };
    let mut common = first.clone();
    for it in rest {
        while !it.starts_with(&common) {
            common.pop();
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(_before: &str, begun: &str) -> Vec<String> {
        ["agent", "answer", "ask", "status"]
            .iter()
            .filter(|it| it.starts_with(begun))
            .map(|it| it.to_string())
            .collect()
    }

    /// Applies the keys and checks the line. In `expected`, the character `|` marks the position of the cursor.
    fn check(keys: Vec<Key>, expected: &str) {
        let history = History::parse("first\nsecond\n");
        let mut line = LineEditor::default();
        for key in keys {
            line.apply_key(key, &history, choices);
        }
        let after: String = line.after().iter().collect();
        let text = line.text();
        assert_eq!(format!("{}|{after}", &text[..text.len() - after.len()]), expected);
    }

    fn typed(text: &str) -> Vec<Key> {
        text.chars().map(Key::Char).collect()
    }

    fn then(text: &str, keys: &[Key]) -> Vec<Key> {
        typed(text).into_iter().chain(keys.iter().cloned()).collect()
    }

    #[test]
    fn letters_and_cursor_keys_edit_the_line() {
        check(typed("käse"), "käse|");
        check(then("abc", &[Key::ArrowLeft, Key::ArrowLeft, Key::Char('x')]), "ax|bc");
        check(then("abc", &[Key::Home, Key::Del, Key::End, Key::Backspace]), "b|");
        check(then("abc", &[Key::ArrowRight, Key::Backspace, Key::Backspace, Key::Backspace, Key::Backspace]), "|");
        check(then("one two ", &[Key::Char(CTRL_W)]), "one |");
        check(then("one two", &[Key::ArrowLeft, Key::Char(CTRL_U)]), "|o");
        check(then("one two", &[Key::Char(CTRL_A), Key::Char(CTRL_K)]), "|");
        check(vec![Key::Char('\u{7}'), Key::Unknown], "|");
    }

    #[test]
    fn history_steps_keep_the_typed_line() {
        check(then("now", &[Key::ArrowUp]), "second|");
        check(then("now", &[Key::ArrowUp, Key::ArrowUp, Key::ArrowUp]), "first|");
        check(then("now", &[Key::ArrowUp, Key::ArrowUp, Key::ArrowDown, Key::ArrowDown, Key::ArrowDown]), "now|");
    }

    #[test]
    fn tab_completes_the_common_prefix() {
        check(then("llm st", &[Key::Tab]), "llm status |");
        check(then("llm ans", &[Key::Tab]), "llm answer |");
        let mut line = LineEditor::default();
        let history = History::default();
        for key in typed("llm a") {
            line.apply_key(key, &history, choices);
        }
        let several = line.apply_key(Key::Tab, &history, choices);
        assert_eq!(several, KeyResult::Choices(vec!["agent".into(), "answer".into(), "ask".into()]));
        check(then("llm x", &[Key::Tab]), "llm x|");
    }

    #[test]
    fn enter_ctrl_c_and_ctrl_d_end_the_line() {
        let history = History::default();
        let mut line = LineEditor::default();
        assert_eq!(line.apply_key(Key::Char(CTRL_D), &history, choices), KeyResult::End);
        line.apply_key(Key::Char('a'), &history, choices);
        assert_eq!(line.apply_key(Key::Char(CTRL_D), &history, choices), KeyResult::Changed);
        assert_eq!(line.apply_key(Key::CtrlC, &history, choices), KeyResult::Dropped);
        assert_eq!(line.apply_key(Key::Enter, &history, choices), KeyResult::Done("a".into()));
    }

    #[test]
    fn history_drops_repeats_and_is_bounded() {
        let mut history = History::parse("a\na\n\nb\n");
        assert_eq!(history.text(), "a\nb\n");
        (0..3_000).for_each(|it| history.add(&it.to_string()));
        assert_eq!(history.lines.len(), MAX_HISTORY_LINES);
    }
}
