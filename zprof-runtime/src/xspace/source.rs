//! Where the bytes of an XSpace come from: anything that can be read at any position, any number of times.

use std::fs::File;
use std::io;

/// Bytes that can be read at any position. Reading does not change them, and they should not change while they are read.
pub trait Source {
    /// Size in bytes.
    ///
    /// # Errors
    /// What the operating system reports.
    fn size(&self) -> io::Result<u64>;

    /// Reads up to `buffer.len()` bytes from byte `at` on; returns how many, which is 0 only at the end.
    ///
    /// # Errors
    /// What the operating system reports.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;
}

/// A regular file; others, such as pipes, have no size and are refused. On Unix the file's own position is neither used nor moved.
impl Source for File {
    fn size(&self) -> io::Result<u64> {
        let metadata = self.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file; copy its content into one"));
        }
        Ok(metadata.len())
    }

    #[cfg(unix)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, at)
    }

    #[cfg(windows)]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buffer, at)
    }

    #[cfg(not(any(unix, windows)))]
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut file = self;
        io::Seek::seek(&mut file, io::SeekFrom::Start(at))?;
        io::Read::read(&mut file, buffer)
    }
}

/// Bytes in memory.
impl Source for &[u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(super::wire::wide(self.len()))
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_and_its_bytes_read_the_same() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"0123456789").expect("is written");
        let bytes: &[u8] = b"0123456789";
        let sources: [&dyn Source; 2] = [&file, &bytes];
        for source in sources {
            let mut buffer = [0; 4];
            assert_eq!(source.size().expect("has a size"), 10);
            assert_eq!(source.read_at(&mut buffer, 3).expect("reads"), 4);
            assert_eq!(&buffer, b"3456");
            assert_eq!(source.read_at(&mut buffer, 8).expect("reads"), 2);
            assert_eq!(&buffer[..2], b"89");
            assert_eq!(source.read_at(&mut buffer, 10).expect("reads"), 0);
            assert_eq!(source.read_at(&mut buffer, 1 << 40).expect("reads"), 0);
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_has_no_size_is_refused() {
        use std::path::Path;

        for path in [Path::new("/dev/null"), Path::new("/")] {
            let error = File::open(path).and_then(|file| file.size()).expect_err("is no regular file");
            assert_eq!(error.to_string(), "not a regular file; copy its content into one", "{}", path.display());
        }
    }
}
