//! What RFC 3986 says of a path, naively: the judge of `properties::location` and `properties::windows`.

/// "Remove Dot Segments", 5.2.4, word for word; its steps A and D are for paths without a slash.
pub(crate) fn remove_dots(mut input: &str) -> String {
    let mut output = String::new();
    while !input.is_empty() {
        if input.starts_with("/./") || input == "/." {
            input = if input == "/." { "/" } else { &input[2..] };
        } else if input.starts_with("/../") || input == "/.." {
            input = if input == "/.." { "/" } else { &input[3..] };
            output.truncate(output.rfind('/').unwrap_or(0));
        } else {
            let end = input
                .char_indices()
                .skip(1)
                .find(|(_, c)| *c == '/')
                .map_or(input.len(), |(end, _)| end);
            output.push_str(&input[..end]);
            input = &input[end..];
        }
    }
    output
}

/// Every escape decoded once, 2.1; what is none stays.
pub(crate) fn decode(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let escape = piece.get(..2).filter(|hex| is_hex(hex));
        decoded.extend(escape.map(|hex| u8::from_str_radix(hex, 16).unwrap()));
        decoded.extend(&piece.as_bytes()[escape.map_or(0, str::len)..]);
    }
    decoded
}

pub(crate) fn is_hex(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_hexdigit())
}
