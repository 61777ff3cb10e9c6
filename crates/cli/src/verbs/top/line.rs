//! A line of the screen: text and how it looks, before any terminal.

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// As the terminal has it.
    Plain,
    /// Titles and what is sorted by.
    Bold,
    /// Labels, headings, what is not known.
    Dim,
    /// All is well; reads from the node's own cache.
    Good,
    /// Reads from a peer's cache; not wrong, not at rest.
    Warn,
    /// What somebody has to do something about; reads from the disk.
    Bad,
    /// The row that the keys are about.
    Selected,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) spans: Vec<(Style, String)>,
}

impl Line {
    /// A line of one style.
    pub(crate) fn of(style: Style, text: impl AsRef<str>) -> Self {
        Self::default().with(style, text)
    }

    /// The line with `text` after it. What a terminal would obey or show twice as wide is replaced: names come
    /// from other machines.
    #[must_use]
    pub(crate) fn with(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let text: String = text.as_ref().chars().map(|c| if is_narrow(c) { c } else { '?' }).collect();
        if !text.is_empty() {
            self.spans.push((style, text));
        }
        self
    }

    /// Columns of the terminal that it takes.
    pub(crate) fn width(&self) -> usize {
        self.spans.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Fills it with blanks of the last style up to `width`.
    #[must_use]
    pub(crate) fn filled(self, width: usize) -> Self {
        let style = self.spans.last().map_or(Style::Plain, |(style, _)| *style);
        let blanks = " ".repeat(width.saturating_sub(self.width()));
        self.with(style, blanks)
    }

    /// Cuts what is beyond `width`.
    #[must_use]
    pub(crate) fn cut(mut self, width: usize) -> Self {
        let mut room = width;
        for (_, text) in &mut self.spans {
            if let Some((at, _)) = text.char_indices().nth(room) {
                text.truncate(at);
            }
            room = room.saturating_sub(text.chars().count());
        }
        self.spans.retain(|(_, text)| !text.is_empty());
        self
    }

    /// The text alone.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.spans.iter().map(|(_, text)| text.as_str()).collect::<String>().trim_end().to_owned()
    }
}

/// Takes exactly one column in every terminal: Latin letters, arrows and the blocks of the history.
const fn is_narrow(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{24f}' | '\u{2026}' | '\u{2190}'..='\u{2193}' | '\u{2581}'..='\u{2588}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_wide_characters_do_not_reach_the_terminal() {
        let line = Line::of(Style::Plain, "a\x1b[2Jb\u{9b}c\u{4e2d}é");
        assert_eq!(line.text(), "a?[2Jb?c?é");
    }

    #[test]
    fn a_cut_line_has_the_width() {
        let line = Line::of(Style::Bold, "äöü").with(Style::Plain, "xyz");
        assert_eq!((line.clone().cut(4).text().as_str(), line.clone().cut(4).width()), ("äöüx", 4));
        assert_eq!(line.clone().cut(3).spans.len(), 1);
        assert_eq!(line.cut(0).width(), 0);
    }
}
