//! The first or last lines of a file of any size.
//!
//! The newline of the last line is removed. About as much is read as the lines need.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};

use mcp_roots_guard::OpenFile;

use super::LIMIT;

/// Reads the first lines. Fails with `FileTooLarge` if they are larger than the limit, and with
/// `InvalidData` if they are not UTF-8.
pub(super) fn head(file: OpenFile, count: u32) -> io::Result<String> {
    let mut reader = BufReader::new(file).take(LIMIT + 1);
    let mut bytes = Vec::new();
    for _ in 0..count {
        if reader.read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
    }
    text(&bytes)
}

/// Reads the last lines, at least one. A newline at the end of the file terminates the last line
/// and does not start another. Fails like [`head`].
pub(super) fn tail(mut file: OpenFile, count: u32) -> io::Result<String> {
    let length = file.seek(SeekFrom::End(0))?;
    let before_last = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(1);
    let mut size = BLOCK;
    loop {
        let start = length.saturating_sub(size);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.by_ref().take(size).read_to_end(&mut bytes)?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let newlines = lines.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        match newlines.map(|(at, _)| at + 1).nth(before_last) {
            Some(first) => return text(bytes.get(first..).unwrap_or_default()),
            None if start == 0 || size > LIMIT => return text(&bytes),
            None => size *= 2,
        }
    }
}

/// The lines as text, without the newline of the last.
fn text(lines: &[u8]) -> io::Result<String> {
    if u64::try_from(lines.len()).map_or(true, |size| size > LIMIT) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let lines = std::str::from_utf8(lines).map_err(|_| io::ErrorKind::InvalidData)?;
    // A `\r` without `\n` is not a line ending.
    let lines = lines.strip_suffix("\r\n").or_else(|| lines.strip_suffix('\n')).unwrap_or(lines);
    Ok(lines.to_owned())
}

/// The size of the first attempt: about a thousand lines, so most calls need no second.
const BLOCK: u64 = 64 << 10;
