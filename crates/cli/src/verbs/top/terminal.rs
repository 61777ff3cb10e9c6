//! The terminal: taken over and given back, and drawn on without flicker.

use std::io::{self, Write as _};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
    EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{execute, queue};

use super::line::{Line, Style};

/// A terminal that is ours; it is given back when this value is dropped, or on a panic of any thread.
#[derive(Debug)]
pub(super) struct Terminal {
    /// What is on it; a line that stays is not written again.
    shown: Vec<Line>,
    size: (usize, usize),
}

impl Terminal {
    /// Takes the terminal over. What was on it comes back at the end.
    pub(super) fn enter() -> io::Result<Self> {
        let mut terminal = Self { shown: Vec::new(), size: (0, 0) };
        terminal.take()?;
        Ok(terminal)
    }

    fn take(&mut self) -> io::Result<()> {
        terminal::enable_raw_mode()?;
        // The next picture is drawn whole.
        self.size = (0, 0);
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)
    }

    /// Gives the terminal back and stops until the shell lets this program go on.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        give_back();
        // SAFETY: no memory is involved; the signal is not blocked and stops the whole process.
        unsafe { libc::raise(libc::SIGTSTP) };
        self.take()
    }

    /// Columns and lines.
    pub(super) fn size() -> (usize, usize) {
        // A terminal that does not tell is as small as the smallest.
        let (width, height) = terminal::size().ok().filter(|(w, h)| *w > 0 && *h > 0).unwrap_or((80, 24));
        (width.into(), height.into())
    }

    /// Draws `lines`, which are made for `size`: only those that changed, all at once.
    pub(super) fn draw(&mut self, lines: Vec<Line>, size: (usize, usize)) -> io::Result<()> {
        let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
        queue!(out, BeginSynchronizedUpdate)?;
        if self.size != size {
            queue!(out, Clear(ClearType::All))?;
            (self.size, self.shown) = (size, Vec::new());
        }
        for (row, line) in (0u16..).zip(&lines) {
            if self.shown.get(usize::from(row)) == Some(line) {
                continue;
            }
            queue!(out, MoveTo(0, row))?;
            for (style, text) in &line.spans {
                begin(&mut out, *style)?;
                queue!(out, Print(text), SetForegroundColor(Color::Reset), SetAttribute(Attribute::Reset))?;
            }
            // In the last column there is nothing behind the cursor but the last character itself.
            if line.width() < size.0 {
                queue!(out, Clear(ClearType::UntilNewLine))?;
            }
        }
        queue!(out, EndSynchronizedUpdate)?;
        out.flush()?;
        self.shown = lines;
        Ok(())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        give_back();
    }
}

/// Makes a panic of any thread give the terminal back before it is told, and end the program.
pub(super) fn give_back_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        tell(panic);
        // The other threads would go on to draw over it.
        std::process::exit(101);
    }));
}

fn give_back() {
    // There is nobody left to tell that it failed.
    let _ = execute!(io::stdout(), EndSynchronizedUpdate, EnableLineWrap, Show, LeaveAlternateScreen);
    let _ = terminal::disable_raw_mode();
}

fn begin(out: &mut impl io::Write, style: Style) -> io::Result<()> {
    match style {
        Style::Plain => Ok(()),
        Style::Bold => queue!(out, SetAttribute(Attribute::Bold)),
        Style::Dim => queue!(out, SetAttribute(Attribute::Dim)),
        Style::Good => queue!(out, SetForegroundColor(Color::DarkGreen)),
        Style::Warn => queue!(out, SetForegroundColor(Color::DarkYellow)),
        Style::Bad => queue!(out, SetForegroundColor(Color::DarkRed)),
        Style::Selected => queue!(out, SetAttribute(Attribute::Reverse)),
    }
}
