//! The first or last lines of a file of any size.
//!
//! The newline of the last line is removed. Only the necessary blocks are read, and at most
//! [`LIMIT`] bytes plus one block.

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
    within_limit(&bytes)?;
    let lines = String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(without_newline(&lines).to_owned())
}

/// Reads the last lines. A newline at the end of the file terminates the last line and does not
/// start another. Fails like [`head`].
pub(super) fn tail(file: OpenFile, count: u32) -> io::Result<String> {
    let bytes = last_blocks(file, count)?;
    let body = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let newlines = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let start = nth_from_end(newlines.map(|(at, _)| at), count).map_or(0, |newline| newline + 1);
    let lines = bytes.get(start..).unwrap_or_default();
    within_limit(lines)?;
    let lines = std::str::from_utf8(lines).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(without_newline(lines).to_owned())
}

/// Reads blocks from the end of the file until they contain enough lines, or the whole file.
fn last_blocks(mut file: OpenFile, count: u32) -> io::Result<Vec<u8>> {
    let mut start = file.seek(SeekFrom::End(0))?;
    let (mut blocks, mut read, mut newlines) = (Vec::new(), 0, 0_u64);
    // One more newline is needed, because the last one may terminate the last line.
    while start > 0 && newlines <= u64::from(count) && read <= LIMIT {
        let size = start.min(BLOCK);
        start -= size;
        file.seek(SeekFrom::Start(start))?;
        let mut block = Vec::new();
        file.by_ref().take(size).read_to_end(&mut block)?;
        newlines += block.iter().map(|byte| u64::from(*byte == b'\n')).sum::<u64>();
        read += size;
        blocks.push(block);
    }
    blocks.reverse();
    Ok(blocks.concat())
}

fn nth_from_end(mut places: impl Iterator<Item = usize>, count: u32) -> Option<usize> {
    places.nth(usize::try_from(count).ok()?.checked_sub(1)?)
}

fn within_limit(lines: &[u8]) -> io::Result<()> {
    match u64::try_from(lines.len()) {
        Ok(size) if size <= LIMIT => Ok(()),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn without_newline(lines: &str) -> &str {
    // A `\r` without `\n` is not a line ending.
    lines.strip_suffix("\r\n").or_else(|| lines.strip_suffix('\n')).unwrap_or(lines)
}

/// The size of a block: about a thousand lines, so most calls need only one.
const BLOCK: u64 = 64 << 10;
