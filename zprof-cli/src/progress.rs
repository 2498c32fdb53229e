//! A bar on a terminal that shows how far the reading of a profile is; nothing where standard error is no terminal.

use std::io;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use zprof_runtime::display::printable;
use zprof_runtime::xspace::Source;

const STYLE: &str = "{msg} {wide_bar} {percent:>3}%, {eta} left ";

/// A bar, gone from the screen when this is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for so many bytes.
    pub(crate) fn new(what: String, bytes: u64) -> Self {
        // Hidden by itself where standard error is no terminal.
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(STYLE) {
            bar.set_style(style.progress_chars("=> "));
        }
        // The bar draws on a terminal, and names of files are in the text.
        bar.set_message(printable(&what).into_owned());
        Self { bar }
    }

    /// The file, whose reading moves the bar.
    pub(crate) fn watch<'f>(&'f self, file: &'f dyn Source) -> Watched<'f> {
        Watched { file, bar: &self.bar }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A file that moves a bar.
pub(crate) struct Watched<'f> {
    file: &'f dyn Source,
    bar: &'f ProgressBar,
}

impl Source for Watched<'_> {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let count = self.file.read_at(buffer, at)?;
        self.bar.inc(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
